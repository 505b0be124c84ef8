"""The tables of the shop, and the engine. PGHOST, PGPORT, PGUSER and PGPASSWORD say where PostgreSQL is."""

import asyncio
import os

from sqlalchemy import CheckConstraint, ForeignKey
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

engine = create_async_engine(f"postgresql+psycopg:///{os.environ.get('PGDATABASE', 'orders')}")


class Base(DeclarativeBase):
    """The tables."""


class Item(Base):
    """What can be ordered, and how much of it is there."""

    __tablename__ = "item"
    __table_args__ = (CheckConstraint("stock >= 0", name="stock_is_not_negative"),)
    name: Mapped[str] = mapped_column(primary_key=True)
    stock: Mapped[int]


class Order(Base):
    """Two orders for one key are the double delivery that must not be."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str] = mapped_column(ForeignKey("item.name"))
    quantity: Mapped[int]
    key: Mapped[str | None]


class SeenKey(Base):
    """Which order a key has made, as the naive form keeps it."""

    __tablename__ = "seen_key"
    key: Mapped[str] = mapped_column(primary_key=True)
    order_id: Mapped[int] = mapped_column(ForeignKey("orders.id"))


async def make_tables() -> None:
    """Makes the tables, and fills the warehouse."""
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    async with AsyncSession(engine) as session, session.begin():
        await session.merge(Item(name="teapot", stock=1_000_000))
        await session.merge(Item(name="samovar", stock=0))


if __name__ == "__main__":
    asyncio.run(make_tables())
