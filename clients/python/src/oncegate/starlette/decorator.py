"""`@idempotent`: the endpoint runs under a claim, behind all that it depends on.

FastAPI has authenticated the caller and validated the request when the key is looked at, so that a caller whose token
was revoked is refused before any record is asked.
"""

import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable
from types import FunctionType
from typing import Any, TypeVar, overload

from oncegate.options import Options, check_names, chosen_options
from oncegate.starlette.answer import response_of
from oncegate.starlette.exchange import GUARDED, Exchange, current
from oncegate.starlette.gate import Gate
from oncegate.starlette.guard import Guard

Endpoint = TypeVar("Endpoint", bound=Callable[..., Awaitable[Any]])


@overload
def idempotent(endpoint: Endpoint) -> Endpoint: ...
@overload
def idempotent(**overrides: Any) -> Callable[[Endpoint], Endpoint]: ...
def idempotent(endpoint: Any = None, **overrides: Any) -> Any:
    """Guards an `async def` endpoint of FastAPI or Starlette, or a method of an HTTPEndpoint; it stands below the
    decorator of the route, at the function. The arguments are options, over those of the middleware.

    TypeError for anything else: a plain `def` runs in a thread, where it has no part in the request's transaction.
    """
    check_names(Options(), overrides)
    if endpoint is None:
        return functools.partial(idempotent, **overrides)
    if not inspect.iscoroutinefunction(endpoint):
        raise TypeError(f"{endpoint!r} is not an async def: only those can be guarded")

    @functools.cache
    def guard_of(gate: Gate) -> Guard:
        return Guard(gate.database, chosen_options(gate.options, overrides))

    @functools.wraps(endpoint)
    async def guarded(*args: Any, **kwargs: Any) -> Any:
        exchange = current()
        execute = functools.partial(endpoint, *args, **kwargs)
        # One further inside finds that this one is at work.
        if exchange.is_running:
            return await execute()
        await exchange.forget_failed()
        told = await guard_of(exchange.gate).admit(exchange) if exchange.execution is None else None
        return await _run(exchange, execute) if told is None else response_of(told)

    if isinstance(endpoint, FunctionType):
        GUARDED.add(endpoint)
    _keep_signature(endpoint, guarded)
    return guarded


async def _run(exchange: Exchange, execute: Callable[[], Awaitable[Any]]) -> Any:
    exchange.has_returned = False
    exchange.is_running = True
    try:
        result = await execute()
        if exchange.transaction.has_session:
            # What a constraint refuses is an error of the endpoint, which the application may have an answer for.
            await exchange.transaction.session().flush()
    finally:
        exchange.is_running = False
    exchange.has_returned = True
    return result


def _keep_signature(endpoint: Any, guarded: Any) -> None:
    """FastAPI reads annotations: older ones, where they are strings, by the names of the module of the decorator."""
    # A name that only type checkers know stays a string; FastAPI has its own way with these.
    with contextlib.suppress(NameError):
        guarded.__signature__ = inspect.signature(endpoint, eval_str=True)
