"""What a claim needs of a request: key, scope, fingerprint."""

from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ImproperlyConfigured, RequestDataTooBig
from django.http import HttpRequest
from django.http.request import RawPostDataException
from django.utils.encoding import escape_uri_path

from oncegate import problem
from oncegate.django.options import Options
from oncegate.fingerprint import BodyTooLarge, fingerprint
from oncegate.key import KeyInvalid, parse_key
from oncegate.problem import Problem
from oncegate.scope import scope_part, scope_text


class Refused(Exception):
    """The request is answered with this problem, and nothing is executed."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.name)
        self.problem = problem


@dataclass(frozen=True)
class Reading:
    """The arguments of a claim."""

    scope: str
    key: str
    fingerprint: bytes
    operation: str


def read_key(request: HttpRequest, options: Options) -> str | None:
    """The key, None without one; Refused when it cannot be read."""
    value = request.headers.get(options.header)
    if value is None:
        return None
    try:
        return parse_key(value)
    except KeyInvalid as error:
        refusal = problem.key_repeated(options.header)
        raise Refused(refusal if error.repeated else problem.key_invalid(options.header, str(error))) from None


def read(request: HttpRequest, caller: Any, key: str, options: Options) -> Reading:
    """`caller` is the request that knows its user: DRF's own, or Django's."""
    path = escape_uri_path(request.path)
    try:
        compared = fingerprint(
            options.rules(),
            method=request.method or "",
            path=path,
            query=request.META.get("QUERY_STRING", ""),
            content_type=request.META.get("CONTENT_TYPE", "").encode("latin-1", "replace"),
            coding=request.META.get("HTTP_CONTENT_ENCODING", "").encode("latin-1", "replace"),
            body=_body(request),
        )
    except (BodyTooLarge, RequestDataTooBig):
        raise Refused(problem.request_too_large()) from None
    return Reading(_scope(request, caller, options), key, compared, f"{request.method} {path}")


def _body(request: HttpRequest) -> bytes:
    try:
        return bytes(request.body)
    except RawPostDataException:
        raise ImproperlyConfigured(
            "the request's body was read before the guarded view, so nobody can tell what it was; "
            "put oncegate.django.IdempotencyMiddleware last in MIDDLEWARE, which keeps it"
        ) from None


def _scope(request: HttpRequest, caller: Any, options: Options) -> str:
    if options.scope is not None:
        value = options.scope(caller)
        parts = [] if value is None else [scope_part("scope", value.encode())]
    else:
        parts = _caller(request, caller)
    if not parts and options.anonymous == "reject":
        raise Refused(problem.scope_missing())
    return scope_text(parts)


def _caller(request: HttpRequest, caller: Any) -> list[str]:
    """The user that was authenticated, else the digest of the credential."""
    user = getattr(caller, "user", None)
    if user is not None and getattr(user, "is_authenticated", False) and user.pk is not None:
        return [scope_part("user", str(user.pk).encode())]
    if authorization := request.META.get("HTTP_AUTHORIZATION"):
        return [scope_part("authorization", authorization.encode("latin-1", "replace"), credential=True)]
    return []
