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
    refuse_async,
)
from oncegate.options import METHODS

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
        """Keeps the body, which others read before the guard does: CSRF protection reads forms, DRF reads all kinds."""
        if request.method in METHODS and self.guard.options.header in request.headers:
            with suppress(RequestDataTooBig):
                _ = request.body
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        """Guards the view that was found."""
        if not self._is_guarded(request):
            return None
        view_class = class_of(view)
        handler = getattr(view_class, handler_name(request, view), None)
        if hasattr(view, MARK) or hasattr(view_class, MARK) or is_marked(handler):
            return None
        if view_class is not None:
            guard_pending(request, view, self.guard)
            return None
        refuse_async(view)
        guarded = atomic_as_configured(view)
        response: HttpResponse = call_guarded(self.guard, guarded, (request, *args), kwargs)
        return response

    def _is_guarded(self, request: HttpRequest) -> bool:
        options = self.guard.options
        if self.guard.guard.gateway_attempt(request):
            return True
        return request.method in options.methods and (options.header in request.headers or options.required)
