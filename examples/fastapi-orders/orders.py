"""A shop that takes orders: twice where a request is repeated, and in the right form beside it once."""

import asyncio
from typing import Annotated

from fastapi import Depends, FastAPI, Header, HTTPException
from pydantic import BaseModel, Field
from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from database import Item, Order, SeenKey, engine
from oncegate.starlette import IdempotencyMiddleware, idempotent, session

CHECK_SECONDS = 0.02
"""How long it takes to ask the warehouse."""

app = FastAPI(title="Orders")
app.add_middleware(IdempotencyMiddleware, engine=engine)

Session = Annotated[AsyncSession, Depends(session)]
Key = Annotated[str | None, Header(alias="Idempotency-Key")]


class NewOrder(BaseModel):
    item: str
    quantity: int = Field(gt=0)


class Ordered(BaseModel):
    id: int
    item: str
    quantity: int


async def take(session: AsyncSession, new: NewOrder, key: str | None) -> Order:
    """Takes an order from the stock; 409 when there is not enough."""
    await asyncio.sleep(CHECK_SECONDS)
    enough = (Item.name == new.item) & (Item.stock >= new.quantity)
    taken = await session.execute(update(Item).where(enough).values(stock=Item.stock - new.quantity))
    if not taken.rowcount:
        raise HTTPException(409, "sold out")
    order = Order(item=new.item, quantity=new.quantity, key=key)
    session.add(order)
    await session.commit()
    return order


@app.post("/api/orders", status_code=201, response_model=Ordered)
@idempotent
async def create_order(new: NewOrder, session: Session, key: Key = None):
    """The right form: stock, order and answer commit together."""
    return await take(session, new, key)


@app.post("/api/naive/orders", status_code=201, response_model=Ordered)
async def create_order_naively(new: NewOrder, key: Key = None):
    """Check, act, record: looks right when it is tried by hand."""
    async with AsyncSession(engine, expire_on_commit=False) as session:
        if seen := await session.get(SeenKey, key):
            return await session.get(Order, seen.order_id)
        order = await take(session, new, key)
        session.add(SeenKey(key=key, order_id=order.id))
        await session.commit()
        return order


@app.get("/count")
async def count(session: Session, key: str | None = None):
    """How many orders there are, in all or for one key."""
    counted = select(func.count()).select_from(Order)
    return {"count": await session.scalar(counted if key is None else counted.where(Order.key == key))}


@app.get("/healthz")
async def healthz():
    """Whether the service is up."""
    return {"up": True}
