"""One payment, and what a test wants to go wrong behind it."""

import asyncio
import os

from fastapi import HTTPException
from pydantic import BaseModel
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from oncegate.starlette import attempt
from service.crash import crash_at
from service.database import Payment


class Order(BaseModel):
    amount: int = 5
    stall: str = ""
    fail: str = "nothing"
    status: int = 201
    sent_at: int = 0


class RefusedError(Exception):
    """The service has an answer for it."""


async def pay(session, key, order):
    crash_at("before insert")
    payment = Payment(key=key or "", amount=order.amount)
    session.add(payment)
    await session.flush()
    crash_at("after insert")
    # Stalls as long as there is this file. Only the first attempt does: a takeover finds the way clear.
    ours = attempt()
    while os.path.exists(order.stall) and (ours is None or not ours.is_takeover):
        await asyncio.sleep(0.02)
    await fail(session, order.fail)
    return {"id": payment.id, "attempt": ours.number if ours else None}


async def fail(session, how):
    if how == "validation":
        raise HTTPException(400, {"amount": ["too much"]})
    if how == "handled":
        raise RefusedError
    if how == "bug":
        raise ZeroDivisionError
    if how == "unavailable":
        raise HTTPException(503)
    if how == "aborted":
        # Catches the error, but PostgreSQL has aborted the transaction.
        try:
            await session.execute(text("SELECT 1/0"))
        except DBAPIError:
            return
    if how == "commits":
        await session.commit()
        raise ZeroDivisionError
