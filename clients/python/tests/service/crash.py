"""Kills the worker, as the kernel does it when memory runs out, at the step that a request names in X-Crash.

The package knows nothing of this: its calls of the SQL functions are wrapped from outside.
"""

import os
import signal
from contextvars import ContextVar

from sqlalchemy.exc import OperationalError

from oncegate import verb
from oncegate.starlette.transaction import Transaction

STEP = ContextVar("step", default=None)


class CrashMiddleware:
    """The outermost: what it is about to send is committed."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        headers = dict(scope.get("headers", []))
        STEP.set(headers.get(b"x-crash", b"").decode() or None)

        async def crashing_send(message):
            crash_at("after commit")
            await send(message)

        await self.app(scope, receive, crashing_send)


def crash_at(step):
    if STEP.get() == step:
        os.kill(os.getpid(), signal.SIGKILL)


def wrapped(name):
    call = getattr(verb, name)

    def crashing(*args, **kwargs):
        crash_at(f"before {name}")
        result = call(*args, **kwargs)
        crash_at(f"after {name}")
        return result

    setattr(verb, name, crashing)


def losing_replies(commit):
    """What is committed, though nobody hears of it."""

    async def losing(transaction):
        is_begun = transaction._connection is not None
        await commit(transaction)
        if is_begun and STEP.get() == "lost reply":
            raise OperationalError("COMMIT", {}, ConnectionError("lost"))

    return losing


Transaction.commit = losing_replies(Transaction.commit)

for name in ("claim", "enter", "complete", "release"):
    wrapped(name)
