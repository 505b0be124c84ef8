"""One request and its answer: what the middleware has between the server and the application.

An answer is held until the transaction has ended. So nothing leaves before it is durable, and what an endpoint has
planned for afterwards (background tasks, the pieces of a stream) comes afterwards.
"""

from contextvars import ContextVar
from types import FunctionType
from weakref import WeakSet

from sqlalchemy.ext.asyncio import AsyncSession
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from oncegate.answer import Answer
from oncegate.attempt import Attempt
from oncegate.starlette.answer import Passing, is_stream, response_of
from oncegate.starlette.body import Body
from oncegate.starlette.execution import Execution
from oncegate.starlette.gate import Gate
from oncegate.starlette.running import to_its_end
from oncegate.starlette.transaction import Transaction
from oncegate.status import Disposition, disposition

CURRENT: ContextVar["Exchange"] = ContextVar("oncegate")

GUARDED: WeakSet[FunctionType] = WeakSet()
"""The functions inside of guards. One that a route leads to by itself has its decorators in the wrong order."""


class Replaced(Exception):
    """Another answer has left: the endpoint's was undone, and what it had planned behind it must not happen."""


class Exchange:
    """What the guard, the session and the application's messages have in common."""

    def __init__(self, gate: Gate, scope: Scope, receive: Receive, send: Send) -> None:
        self.gate = gate
        self.scope = scope
        self.headers = Headers(scope=scope)
        self.body = Body(receive)
        self.transaction = Transaction(gate.database)
        self.execution: Execution | None = None
        self.outcome: str | None = None
        """None where nothing guards."""
        self.is_anonymous = False
        """Whether it is guarded in the scope that all share whom nothing identifies."""
        self.has_returned = False
        """Whether a guarded endpoint has ended with an answer of its own, and not with an exception."""
        self.is_running = False
        """Whether a guarded endpoint is at work."""
        self._send = send
        self._head: Message | None = None
        self.is_decided = False
        """Whether it is known which answer leaves, and the transaction has ended or is ending."""

    async def send(self, message: Message) -> None:
        """Takes the place of the server's `send`."""
        if not self.is_decided and message["type"] == "http.response.start":
            self._head = message
            if is_stream(message):
                await self._decide(Passing(message, None))
        elif self.is_decided or self._head is None:
            await self._send(message)
        else:
            await self._decide(Passing(self._head, message))

    async def abandon(self) -> None:
        """The application has failed, or was cancelled, before it had an answer: nothing remains."""
        self.is_decided = True
        self._observe()
        try:
            await self.transaction.close()
        finally:
            if self.execution is not None:
                await self.execution.give_back()

    async def forget_failed(self) -> None:
        """Before a further run, by what retries the endpoint around its guard: undoes what the one that has failed has
        left, and gives its claim back."""
        execution = self.execution
        if execution is None or self.has_returned:
            return
        await self.transaction.rollback()
        await execution.give_back()
        self.execution = None

    async def _decide(self, answer: Passing) -> None:
        self.is_decided = True
        self._observe()
        has_work = self.execution is not None or self.transaction.is_begun
        replacement = await to_its_end(self._end(answer)) if has_work else None
        if replacement is not None:
            await response_of(replacement)(self.scope, self.body.receive, self._send)
            raise Replaced
        await self._send(answer.head)
        if answer.first is not None:
            await self._send(answer.first)

    async def _end(self, answer: Passing) -> Answer | None:
        is_decision = disposition(answer.status) is Disposition.STORE
        # What a guarded endpoint raises rolls back, whatever the application makes of it: half an effect is none. What
        # it returns has its effects, a refusal as well.
        is_kept = is_decision and (self.has_returned or (answer.status < 400 and self.execution is None))
        try:
            if self.execution is not None:
                return await self.execution.settle(answer, is_kept=is_kept)
            await (self.transaction.commit() if is_kept else self.transaction.rollback())
            return None
        finally:
            await self.transaction.close()

    @property
    def route(self) -> str:
        """Never the path itself: it has values in it."""
        # Older versions of Starlette do not say which route it was.
        name = getattr(self.scope.get("endpoint"), "__qualname__", "")
        # FastAPI since 0.137 keeps the prefixes of routers apart from the route.
        route = self.scope.get("fastapi", {}).get("effective_route_context") or self.scope.get("route")
        return str(getattr(route, "path", name))

    def _observe(self) -> None:
        if self.outcome is not None:
            self.gate.observe(self.route, self.outcome, self.is_anonymous)


async def session() -> AsyncSession:
    """The session of the request, in whose transaction the answer is stored: `Depends(session)`.

    It commits with the answer, and rolls back with a refusal that is raised or an error; `commit()` makes no
    difference. RuntimeError outside of a request, or behind its answer.
    """
    exchange = current()
    endpoint = exchange.scope.get("endpoint")
    if isinstance(endpoint, FunctionType) and endpoint in GUARDED:
        raise RuntimeError(f"@idempotent guards nothing above the decorator of a route: put it below, at {endpoint!r}")
    return exchange.transaction.session()


def attempt() -> Attempt | None:
    """What a guarded endpoint may know of its claim; None where there is none."""
    execution = current().execution
    return execution.attempt if execution else None


def current() -> Exchange:
    """The exchange of the running request."""
    try:
        return CURRENT.get()
    except LookupError:
        raise RuntimeError("there is no request, or the application has no IdempotencyMiddleware") from None
