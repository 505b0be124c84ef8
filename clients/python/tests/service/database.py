"""The database, and what a payment leaves behind."""

import json
import os

from sqlalchemy import URL
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

engine = create_async_engine(
    URL.create(
        "postgresql+psycopg",
        host=os.environ["DATABASE_HOST"],
        port=int(os.environ["DATABASE_PORT"]),
        database=os.environ["DATABASE_NAME"],
        username=os.environ["DATABASE_USER"],
        password=os.environ["DATABASE_PASSWORD"],
    ),
    pool_size=int(os.environ.get("POOL_SIZE", "5")),
    max_overflow=0,
    execution_options=json.loads(os.environ.get("EXECUTION_OPTIONS", "{}")),
)


class Base(DeclarativeBase):
    pass


class Payment(Base):
    """Two rows with one key are the double charge that must not be."""

    __tablename__ = "project_payment"
    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str]
    amount: Mapped[int]


class Caller(Base):
    """Who may call; a token can be revoked."""

    __tablename__ = "caller"
    token: Mapped[str] = mapped_column(primary_key=True)
    is_active: Mapped[bool]
    seen: Mapped[int]


class Note(Base):
    """What a background task leaves behind."""

    __tablename__ = "note"
    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str]
    text: Mapped[str]
