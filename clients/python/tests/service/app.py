"""A service with a guarded payment in every form; what differs between tests comes from the environment."""

import asyncio
import functools
import json
import os
from typing import Annotated

from fastapi import APIRouter, BackgroundTasks, Depends, FastAPI, Form, Header, HTTPException, Request, UploadFile
from fastapi.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from prometheus_client import generate_latest
from pydantic import BaseModel
from sqlalchemy import insert, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.endpoints import HTTPEndpoint
from starlette.routing import Route

from oncegate.prometheus import RequestCounter
from oncegate.starlette import IdempotencyMiddleware, idempotent, session
from service.crash import CrashMiddleware
from service.database import Caller, Note, Payment, engine
from service.payment import Order, RefusedError, pay

Session = Annotated[AsyncSession, Depends(session)]
Key = Annotated[str | None, Header(alias="Idempotency-Key")]
KEPT = {"Location": "/payments/1", "X-Trace": "first"}

app = FastAPI(openapi_url=None)
options = json.loads(os.environ.get("ONCEGATE", "{}"))
app.add_middleware(IdempotencyMiddleware, engine=engine, observer=RequestCounter(), **options)
app.add_middleware(CrashMiddleware)


class Paid(BaseModel):
    id: int
    attempt: int | None


async def known_caller(session: Session, authorization: Annotated[str | None, Header()] = None):
    """Looks its caller up, and notes that it was here, in the session of the request."""
    if authorization is None:
        return None
    caller = await session.get(Caller, authorization)
    if caller is not None and not caller.is_active:
        raise HTTPException(401)
    if caller is not None:
        caller.seen += 1
    return caller


@app.exception_handler(RefusedError)
async def refused(request: Request, error: RefusedError):
    return JSONResponse({"detail": "refused"}, 409)


@app.exception_handler(IntegrityError)
async def violated(request: Request, error: IntegrityError):
    return JSONResponse({"detail": "violated"}, 409)


@app.post("/inside", status_code=201, response_model=Paid)
@idempotent
async def inside(order: Order, session: Session, response: Response, key: Key = None):
    response.headers.update(KEPT)
    return {**await pay(session, key, order), "internal": "left out by the response model"}


@app.post("/known", status_code=201, dependencies=[Depends(known_caller)])
@idempotent
async def known(order: Order, session: Session, key: Key = None) -> Paid:
    return Paid(**await pay(session, key, order))


@app.post("/entered", status_code=201, dependencies=[Depends(known_caller)])
@idempotent(enter=True)
async def entered(order: Order, session: Session, key: Key = None):
    return JSONResponse(await pay(session, key, order), 201, KEPT)


@app.post("/commits", status_code=201)
@idempotent
async def commits(order: Order, session: Session, response: Response, key: Key = None):
    """As FastAPI's tutorial does it."""
    response.headers.update(KEPT)
    paid = await pay(session, key, order)
    payment = await session.get(Payment, paid["id"])
    await session.commit()
    await session.refresh(payment)
    return {**paid, "id": payment.id}


@app.post("/begins", status_code=201)
@idempotent
async def begins(order: Order, session: Session, response: Response, key: Key = None):
    response.headers.update(KEPT)
    async with session.begin():
        return await pay(session, key, order)


@app.post("/core", status_code=201)
@idempotent
async def core(order: Order, session: Session, response: Response, key: Key = None):
    """With SQLAlchemy's core, on the connection of the session."""
    response.headers.update(KEPT)
    connection = await session.connection()
    made = await connection.execute(insert(Payment).values(key=key, amount=order.amount).returning(Payment.id))
    if order.fail == "commits":
        await connection.commit()
    return {"id": made.scalar_one()}


@app.post("/form", status_code=201)
@idempotent
async def form(amount: Annotated[int, Form()], file: UploadFile, session: Session, key: Key = None):
    paid = await pay(session, key, Order(amount=amount))
    return {**paid, "read": (await file.read()).decode()}


@app.post("/strict", status_code=201)
@idempotent(required=True, anonymous="reject", ignore=["/sent_at"], replay_headers=["X-Trace"])
async def strict(order: Order, session: Session, response: Response, key: Key = None):
    response.headers.update(KEPT)
    return await pay(session, key, order)


@app.post("/tenants", status_code=201)
@idempotent(scope=lambda request: request.headers.get("X-Org"))
async def tenants(order: Order, session: Session, key: Key = None):
    return await pay(session, key, order)


@app.post("/returns")
@idempotent
async def returns(order: Order, session: Session, key: Key = None):
    """Pays, and answers the status that it is told."""
    paid = await pay(session, key, order)
    return JSONResponse(paid, order.status)


@app.post("/raises")
@idempotent
async def raises(order: Order, session: Session, key: Key = None):
    """Pays, and raises the status that it is told."""
    await pay(session, key, order)
    raise HTTPException(order.status)


@app.post("/pending", status_code=201)
@idempotent
async def pending(order: Order, session: Session, key: Key = None):
    """Leaves to us to write what it has added."""
    session.add(Payment(key=key, amount=order.amount))


@app.post("/rolls-back", status_code=201)
@idempotent
async def rolls_back(order: Order, session: Session, key: Key = None):
    """Undoes what was refused, and goes on."""
    await pay(session, key, order)
    await session.rollback()
    session.add(Payment(key=key, amount=7))
    return {"kept": 7}


@app.post("/undoes", status_code=201)
@idempotent
async def undoes(order: Order, session: Session, key: Key = None):
    """Answers a success after it has undone the whole transaction."""
    await pay(session, key, order)
    connection = await session.connection()
    await connection.rollback()
    return {"paid": True}


@app.post("/lengthy", status_code=201)
@idempotent(stored_body_bytes_max=10)
async def lengthy(order: Order, session: Session, key: Key = None):
    return {**await pay(session, key, order), "text": "x" * 100}


@app.post("/streams")
@idempotent
async def streams(order: Order, session: Session, key: Key = None):
    await pay(session, key, order)

    async def pieces():
        found = (await count_apart(key)) if order.fail == "nothing" else (await session.execute(text("SELECT 1")))
        yield f"{found} payments are committed"

    return StreamingResponse(pieces(), 201)


@app.post("/background", status_code=201)
@idempotent
async def background(order: Order, session: Session, tasks: BackgroundTasks, key: Key = None):
    paid = await pay(session, key, order)
    tasks.add_task(note, key, "background")
    return paid


@app.post("/cancels", status_code=201)
@idempotent
async def cancels(order: Order, session: Session, key: Key = None):
    """Is cancelled, as by a deadline around it."""
    await pay(session, key, order)
    asyncio.current_task().cancel()
    await asyncio.sleep(0)


@app.post("/alone", status_code=201)
@idempotent
async def alone(key: Key = None):
    """Has an effect of its own, which does not commit with the answer."""
    return {}


class QueuedError(Exception):
    """What the service answers with a success."""


@app.exception_handler(QueuedError)
async def queued(request: Request, error: QueuedError):
    return JSONResponse({"queued": True}, 202)


@app.post("/queues")
@idempotent
async def queues(order: Order, session: Session, key: Key = None):
    """Has half of its effect, and leaves the rest to others."""
    await pay(session, key, order)
    raise QueuedError


def retried(endpoint):
    """As one retries when another service could not be reached."""

    @functools.wraps(endpoint)
    async def again(*args, **kwargs):
        try:
            return await endpoint(*args, **kwargs)
        except ConnectionError:
            return await endpoint(*args, **kwargs)

    return again


FAILED = set()


async def pay_at_the_second_time(order: Order, session: Session, key: Key = None):
    paid = await pay(session, key, order)
    if key not in FAILED:
        FAILED.add(key)
        raise ConnectionError
    return paid


app.post("/retried", status_code=201)(retried(idempotent(pay_at_the_second_time)))
app.post("/retried-entered", status_code=201)(retried(idempotent(enter=True)(pay_at_the_second_time)))


@app.post("/invalid", status_code=201, response_model=Paid)
@idempotent
async def invalid(order: Order, session: Session, key: Key = None):
    """Returns what FastAPI cannot make an answer of."""
    return {**await pay(session, key, order), "id": "no number"}


@idempotent
@app.post("/wrong-order", status_code=201)
async def wrong_order(order: Order, session: Session, key: Key = None):
    return await pay(session, key, order)


@app.post("/unguarded", status_code=201)
async def unguarded(order: Order, session: Session, key: Key = None):
    return await pay(session, key, order)


routed = APIRouter(prefix="/shops/{shop}")


@routed.post("/orders/{number}", status_code=201)
@idempotent
async def order_of_shop(order: Order, session: Session, key: Key = None):
    return await pay(session, key, order)


app.include_router(routed, prefix="/v1")


@app.get("/inside")
async def inside_get(key: Key = None):
    return {}


@app.get("/count")
async def counted(session: Session, key: str):
    return len((await session.scalars(select(Payment).where(Payment.key == key))).all())


@app.get("/metrics")
async def metrics():
    return PlainTextResponse(generate_latest())


async def count_apart(key):
    """What others see."""
    async with AsyncSession(engine) as apart:
        return len((await apart.scalars(select(Payment).where(Payment.key == key))).all())


async def note(key, words):
    async with AsyncSession(engine) as apart, apart.begin():
        apart.add(Note(key=key, text=f"{words}: {await count_apart(key)} committed"))


@idempotent
async def plain(request):
    """An endpoint of Starlette, which has read nothing before it is guarded."""
    order = Order(**await request.json())
    paid = await pay(await session(), request.headers.get("Idempotency-Key"), order)
    return JSONResponse(paid, 201, KEPT)


class Plain(HTTPEndpoint):
    @idempotent
    async def post(self, request):
        return await plain(request)


async def healthz(request):
    return PlainTextResponse("ok")


app.router.routes += [
    Route("/plain", plain, methods=["POST"]),
    Route("/plain-class", Plain),
    Route("/healthz", healthz),
]
