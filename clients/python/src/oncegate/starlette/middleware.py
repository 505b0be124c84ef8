"""The middleware: gives each request its transaction, and holds its answer until that has ended."""

from functools import partial
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oncegate.options import Options, chosen_options
from oncegate.starlette.exchange import CURRENT, Exchange, Replaced
from oncegate.starlette.gate import Gate, Observer
from oncegate.starlette.running import all_to_their_end, to_its_end
from oncegate.starlette.transaction import Database

PSYCOPG = "psycopg"


class IdempotencyMiddleware:
    """`app.add_middleware(IdempotencyMiddleware, engine=engine)`, before any other middleware is added.

    `engine` is asynchronous, on psycopg, and leads to the database of the endpoints' effects. `observer` is called
    with route, outcome and the keyword `is_anonymous` of each request to a guarded endpoint. What else is given are
    options, for all endpoints.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        engine: AsyncEngine,
        session_class: type[AsyncSession] = AsyncSession,
        observer: Observer | None = None,
        **options: Any,
    ) -> None:
        # What changes answers on their way, or runs the application in a task of its own, belongs around us: what is
        # stored is what the endpoint has answered, and it is stored before anything comes after it.
        if not isinstance(app, ExceptionMiddleware):
            raise RuntimeError("IdempotencyMiddleware must be the innermost: add it before any other middleware")
        if engine.dialect.driver != PSYCOPG:
            raise RuntimeError(f"the engine has the driver {engine.dialect.driver!r}: use postgresql+psycopg://")
        self.app = app
        self.gate = Gate(Database(engine, session_class), chosen_options(Options(), options), observer)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request; a server that stops waits until what it has interrupted is undone."""
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self.app(scope, receive, partial(_send_when_all_ended, send))
        else:
            await self.app(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(self.gate, scope, receive, send)
        token = CURRENT.set(exchange)
        try:
            await self.app(scope, exchange.body.receive, exchange.send)
        except Replaced:
            pass
        finally:
            CURRENT.reset(token)
            if not exchange.is_decided:
                await to_its_end(exchange.abandon())


async def _send_when_all_ended(send: Send, message: Message) -> None:
    if message["type"].startswith("lifespan.shutdown."):
        await all_to_their_end()
    await send(message)
