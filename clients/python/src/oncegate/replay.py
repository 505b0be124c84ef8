"""What is kept of a response, and the headers that tell a first answer from its replay."""

from collections.abc import Iterable
from email.utils import formatdate
from functools import lru_cache

REPLAYED = "Idempotent-Replayed"
COMPLETED = "Idempotency-Completed"
EXPIRES = "Idempotency-Expires"

STORED_BODY_BYTES_MAX = 1024 * 1024
"""A longer body is not kept: repeats get 410, and are not executed again."""

# What a repeat needs of a response: what its body is, and where the result is.
KEPT = frozenset(
    (
        "content-type",
        "content-encoding",
        "content-language",
        "content-location",
        "content-disposition",
        "location",
        "etag",
        "last-modified",
        "link",
        "cache-control",
        "vary",
    )
)

# Belongs to the exchange or the connection of the first request, or would hand a session to whoever repeats.
NEVER_KEPT = frozenset(
    (
        "set-cookie",
        "www-authenticate",
        "proxy-authenticate",
        "proxy-authorization",
        "authorization",
        "connection",
        "transfer-encoding",
        "content-length",
        "te",
        "trailer",
        "upgrade",
        "date",
        "age",
        "via",
        "retry-after",
        "keep-alive",
        "proxy-connection",
        "server-timing",
        "traceparent",
        "tracestate",
    )
)
NEVER_KEPT_FAMILIES = ("access-control-", "ratelimit", "x-ratelimit")


def may_be_kept(name: str) -> bool:
    """Whether replays may be told to carry this header."""
    return name.lower() not in NEVER_KEPT and not name.lower().startswith(NEVER_KEPT_FAMILIES)


def kept_headers(headers: Iterable[tuple[str, str]], more: Iterable[str] = ()) -> list[tuple[str, str]]:
    """The headers that replays carry: those every repeat needs, and `more`."""
    kept = KEPT.union(name.lower() for name in more if may_be_kept(name))
    return [(name.lower(), value) for name, value in headers if name.lower() in kept]


def http_date(seconds: float) -> str:
    """`Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110 section 5.6.7)."""
    return _http_date(int(seconds))


# Answers of one second have the same date, and to make one takes a hundredth of what a guarded view of Django does.
@lru_cache(maxsize=64)
def _http_date(second: int) -> str:
    return formatdate(second, usegmt=True)
