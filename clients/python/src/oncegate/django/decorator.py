"""`@idempotent`: wherever it stands among a view's decorators, the view is guarded once, behind authentication.

Around a view class, or a callable made of one, it guards the class's handlers, which run when DRF has authenticated,
authorised and throttled. So a caller whose token was revoked is refused before any record is looked at.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

from asgiref.sync import iscoroutinefunction
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse

from oncegate.django.guard import Call, Guard
from oncegate.django.options import Options, options

View = TypeVar("View", bound=Callable[..., Any])

MARK = "oncegate_guard"
"""On what is guarded, so that the middleware leaves it alone."""

PENDING = "_oncegate_pending"
"""On a request whose guard is to be taken up by the handler of its view class."""

HANDLERS = ("post", "put", "patch", "delete", "create", "update", "partial_update", "destroy")


@overload
def idempotent(view: View) -> View: ...
@overload
def idempotent(**overrides: Any) -> Callable[[View], View]: ...
def idempotent(view: Any = None, **overrides: Any) -> Any:
    """Guards a function view, a view class, a method of one, or an action of a viewset, in any order with `@api_view`,
    `@action` and others. The arguments are the options, over the setting ONCEGATE."""
    if view is None:
        return functools.partial(idempotent, **overrides)
    guard = LazyGuard(overrides)
    if inspect.isclass(view):
        return _guard_class(view, guard)
    refuse_async(view)
    if class_of(view) is not None:
        return _guard_made_of_class(view, guard)
    return _guard_function(view, guard)


def exempt(view: View) -> View:
    """Tells the middleware to leave this view alone: a function, a handler, a class and all that inherit from it."""
    setattr(view, MARK, None)
    return view


def refuse_async(view: Any) -> None:
    """ImproperlyConfigured for what would hand us a coroutine where an answer is expected."""
    if iscoroutinefunction(view):
        name = getattr(view, "__qualname__", repr(view))
        raise ImproperlyConfigured(f"{name} is async: only synchronous views can be guarded; @exempt leaves it out")


class LazyGuard:
    """Reads the settings when the first request comes, since views are imported while settings may still change."""

    def __init__(self, overrides: dict[str, Any]) -> None:
        self.overrides = overrides

    @functools.cached_property
    def guard(self) -> Guard:
        """The guard with the options of now."""
        return Guard(self.options)

    @functools.cached_property
    def options(self) -> Options:
        """The options of now."""
        return options(self.overrides)


def class_of(view: Any) -> Any:
    """The class that a callable was made of by `as_view` or `@api_view`."""
    return getattr(view, "cls", None) or getattr(view, "view_class", None)


def guard_pending(request: HttpRequest, view: Any, guard: LazyGuard) -> None:
    """Has the handler of a view class take up this guard for this request."""
    _patch_handler(class_of(view), handler_name(request, view), None)
    if not hasattr(request, PENDING):
        setattr(request, PENDING, guard)


def handler_name(request: HttpRequest, view: Any) -> str:
    """The method of a view class that this request leads to; a viewset maps it to an action."""
    method = (request.method or "").lower()
    name: str = (getattr(view, "actions", None) or {}).get(method, method)
    return name


def is_marked(handler: Any) -> bool:
    """Whether a handler is guarded or exempt; the one that `@api_view` makes has the marked function in its closure."""
    inside = [cell.cell_contents for cell in getattr(handler, "__closure__", None) or ()]
    return any(hasattr(candidate, MARK) for candidate in (handler, *inside))


def call_guarded(guard: LazyGuard, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Runs a view function or a handler, whatever kind of request it is given."""
    found = next((argument for argument in args[:2] if isinstance(argument, HttpRequest) or _is_drf(argument)), None)
    if found is None:
        raise ImproperlyConfigured(f"{function!r} is guarded, and its first argument is not a request")
    call = _drf_call if _is_drf(found) else _django_call
    return guard.guard.answer(call(found, functools.partial(function, *args, **kwargs), args, kwargs))


# === ways to be called ===


def _guard_function(function: Any, guard: LazyGuard) -> Any:
    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        request = args[0] if args else None
        if not isinstance(request, HttpRequest) or _database(guard).in_atomic_block:
            return call_guarded(guard, function, args, kwargs)
        return call_guarded(guard, atomic_as_configured(function), args, kwargs)

    setattr(guarded, MARK, guard)
    # A claim commits before the view's transaction begins, so that Django must not begin one around us. It has no
    # effect on methods: Django looks at the callable that the URL leads to.
    guarded._non_atomic_requests = _EveryAlias()  # type: ignore[attr-defined]
    return guarded


class _EveryAlias(set[str]):
    """Says of each database that it needs no transaction around the view: which one we use is known only later."""

    def __contains__(self, alias: object) -> bool:
        return True


def atomic_as_configured(function: Any) -> Any:
    """The function in the transactions that Django would have begun around it, see `_non_atomic_requests`."""
    exempted = getattr(function, "_non_atomic_requests", ())
    for alias in connections:
        if connections[alias].settings_dict["ATOMIC_REQUESTS"] and alias not in exempted:
            function = transaction.atomic(using=alias)(function)
    return function


def _database(guard: LazyGuard) -> Any:
    return connections[guard.options.using]


def _guard_class(view_class: Any, guard: LazyGuard) -> Any:
    """All handlers of a class, the class itself being returned."""
    actions: list[Any] = getattr(view_class, "get_extra_actions", list)()
    for name in {*HANDLERS, *(action.__name__ for action in actions)}:
        _patch_handler(view_class, name, guard)
    return view_class


def _guard_made_of_class(view: Any, guard: LazyGuard) -> Any:
    """What wraps the class stays in place: only a note goes along with the request."""

    @functools.wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        guard_pending(request, view, guard)
        return view(request, *args, **kwargs)

    setattr(guarded, MARK, guard)
    return guarded


def _patch_handler(view_class: Any, name: str, guard: LazyGuard | None) -> None:
    """Has a handler of a class look for a guard: this one, or else the one that is pending with the request."""
    handler = getattr(view_class, name, None)
    if not callable(handler) or is_marked(handler):
        return
    refuse_async(handler)
    if guard is not None or not hasattr(handler, PENDING):
        setattr(view_class, name, _guard_handler(handler, guard))


def _guard_handler(handler: Any, fixed: LazyGuard | None) -> Any:
    @functools.wraps(handler)
    def guarded(view: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        guard = fixed or getattr(getattr(request, "_request", request), PENDING, None)
        if guard is None:
            return handler(view, request, *args, **kwargs)
        return call_guarded(guard, handler, (view, request, *args), kwargs)

    setattr(guarded, PENDING, True)
    if fixed is not None:
        setattr(guarded, MARK, fixed)
    return guarded


# === kinds of requests ===


def _is_drf(argument: object) -> bool:
    """Whether it is DRF's request, which has Django's inside; DRF itself need not be installed."""
    return hasattr(argument, "_request") and hasattr(argument, "parser_context")


def _django_call(request: HttpRequest, execute: Callable[[], HttpResponse], args: Any, kwargs: Any) -> Call:
    def again(error: Exception) -> HttpResponse:
        raise error

    return Call(request, request, execute, again, _rendered)


def _drf_call(request: Any, execute: Callable[[], HttpResponse], args: Any, kwargs: Any) -> Call:
    view = request.parser_context["view"]

    def recover(error: Exception) -> HttpResponse:
        response: HttpResponse = view.handle_exception(error)
        return response

    def finish(response: HttpResponse) -> HttpResponse:
        # DRF does this once more when the view has returned, to the same effect.
        return _rendered(view.finalize_response(request, response, *view.args, **view.kwargs))

    return Call(request._request, request, execute, recover, finish)


def _rendered(response: HttpResponse) -> HttpResponse:
    render = getattr(response, "render", None)
    return render() if callable(render) else response
