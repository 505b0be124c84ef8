"""Kills the worker, as the kernel does it when memory runs out, at the step that a request names in X-Crash.

The package knows nothing of this: its calls of the SQL functions are wrapped from outside.
"""

import os
import signal
import threading

from django.db import OperationalError, connection

from oncegate import verb
from oncegate.django import answered

CURRENT = threading.local()


class CrashMiddleware:
    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request):
        CURRENT.step = request.headers.get("X-Crash")
        return self.get_response(request)


def crash_at(step):
    if getattr(CURRENT, "step", None) == step:
        os.kill(os.getpid(), signal.SIGKILL)


def wrapped(name):
    call = getattr(verb, name)

    def crashing(*args, **kwargs):
        crash_at(f"before {name}")
        result = call(*args, **kwargs)
        crash_at(f"after {name}")
        return result

    setattr(verb, name, crashing)


def losing_replies(complete):
    """What is committed, though nobody hears of it."""

    def losing(*args, commits=False, **kwargs):
        at = complete(*args, commits=commits, **kwargs)
        if commits and getattr(CURRENT, "step", None) == "lost reply":
            connection.connection.close()
            raise OperationalError("lost")
        return at

    return losing


# scripts/bench-django measures the package, and not what is wrapped around it here.
if os.environ.get("CRASH_POINTS") != "0":
    for name in ("claim", "enter", "complete", "release"):
        wrapped(name)
    verb.complete = losing_replies(verb.complete)
    answered.connect(lambda **_: crash_at("after commit"), weak=False)
