"""Guards every view that is sent a key."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, RequestDataTooBig
from django.http import HttpRequest, HttpResponse

from oncegate.django.decorator import (
    MARK,
    LazyGuard,
    atomic_as_configured,
    call_guarded,
    class_of,
    guard_pending,
    handler_name,
    is_marked,
)

NAME = "oncegate.django.IdempotencyMiddleware"


class IdempotencyMiddleware:
    """Guards all views but those with `@exempt`; those with `@idempotent` keep their own options.

    It must be the last in MIDDLEWARE: it calls function views itself, and none that looks at a view may be skipped.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        if settings.MIDDLEWARE[-1] not in (NAME, f"{__name__}.IdempotencyMiddleware"):
            raise ImproperlyConfigured(f"{NAME} must be the last in MIDDLEWARE, so that it skips no other's checks")
        self.get_response = get_response
        self.guard = LazyGuard({})

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Does nothing: the view is not known yet."""
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        """Guards the view that was found."""
        if not self._is_guarded(request):
            return None
        view_class = class_of(view)
        if hasattr(view, MARK) or is_marked(getattr(view_class, handler_name(request, view), None)):
            return None
        if view_class is not None:
            guard_pending(request, view, self.guard)
            return None
        guarded = atomic_as_configured(view)
        response: HttpResponse = call_guarded(self.guard, guarded, (request, *args), kwargs)
        return response

    def _is_guarded(self, request: HttpRequest) -> bool:
        options = self.guard.options
        if self.guard.guard.gateway_attempt(request):
            return True
        if request.method not in options.methods:
            return False
        if options.header in request.headers:
            # Kept for whoever fingerprints it: a guard further inside may come after DRF has read it.
            with suppress(RequestDataTooBig):
                _ = request.body
            return True
        return options.required
