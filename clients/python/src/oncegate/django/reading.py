"""What a claim needs of a request of Django."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured, RequestDataTooBig
from django.http import HttpRequest
from django.http.request import RawPostDataException
from django.utils.encoding import escape_uri_path

from oncegate import problem, reading
from oncegate.django.options import Options
from oncegate.reading import Reading, Received, Refused
from oncegate.scope import scope_part


def read(request: HttpRequest, caller: Any, key: str, options: Options) -> Reading:
    """`caller` is the request that knows its user: DRF's own, or Django's."""
    received = Received(
        method=request.method or "",
        path=escape_uri_path(request.path),
        query=request.META.get("QUERY_STRING", ""),
        content_type=_octets(request, "CONTENT_TYPE"),
        coding=_octets(request, "HTTP_CONTENT_ENCODING"),
        body=_body(request),
    )
    return reading.read(received, key, _caller(request, caller, options), options)


def _octets(request: HttpRequest, name: str) -> bytes:
    value: str = request.META.get(name, "")
    return value.encode("latin-1", "replace")


def _body(request: HttpRequest) -> bytes:
    try:
        return bytes(request.body)
    except RequestDataTooBig:
        raise Refused(problem.request_too_large()) from None
    except RawPostDataException:
        raise ImproperlyConfigured(
            "the request's body was read before the guarded view, as CSRF protection reads forms, so nobody can tell "
            "what it was; put oncegate.django.IdempotencyMiddleware last in MIDDLEWARE: it keeps the bodies of all "
            "requests with a key (and guards every view but those with @exempt)"
        ) from None


def _caller(request: HttpRequest, caller: Any, options: Options) -> list[str]:
    """What the scope function says; by default the user that was authenticated, else the digest of the credential."""
    if options.scope is not None:
        value = options.scope(caller)
        return [] if value is None else [scope_part("scope", value.encode())]
    user = getattr(caller, "user", None)
    if user is not None and getattr(user, "is_authenticated", False) and user.pk is not None:
        return [scope_part("user", f"{_kind(user)}:{user.pk}".encode())]
    if authorization := _octets(request, "HTTP_AUTHORIZATION"):
        return [scope_part("authorization", authorization, credential=True)]
    return []


def _kind(user: Any) -> str:
    """Whose numbers these are: with two kinds of users, there are two with the number 5. A proxy is its own model's."""
    if meta := getattr(user, "_meta", None):
        label: str = meta.concrete_model._meta.label_lower
        return label
    # Through what Django has wrapped around it, to read it late.
    return f"{user.__class__.__module__}.{user.__class__.__qualname__}"
