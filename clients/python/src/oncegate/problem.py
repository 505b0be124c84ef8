"""Our own answers, as problem documents (RFC 9457): the same as the gateway's.

A problem never has the key in it, and never internal text.
"""

import json
from dataclasses import dataclass, field

TYPE_PREFIX = "/.well-known/idempotency/problems/"

PROBLEM_HEADER = "Oncegate-Problem"
"""Names the problem in a header, so that a gateway in front does not take it for an answer of the service."""


@dataclass(frozen=True)
class Problem:
    """One of our own answers."""

    name: str
    status: int
    title: str
    retry: str
    detail: str
    retry_after: float | None = None
    members: dict[str, object] = field(default_factory=dict)

    def body(self) -> bytes:
        """The document."""
        document = {
            "type": TYPE_PREFIX + self.name,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "retry": self.retry,
            **self.members,
        }
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    def headers(self) -> list[tuple[str, str]]:
        """Its header fields."""
        headers = [
            ("Content-Type", "application/problem+json"),
            ("Cache-Control", "no-store"),
            (PROBLEM_HEADER, self.name),
        ]
        if self.retry_after is not None:
            # Most handlers end long before their lease: a client that obeys comes back after two seconds at most.
            headers.append(("Retry-After", str(min(max(int(self.retry_after), 1), 2))))
        return headers


def key_missing(header: str) -> Problem:
    """The view requires a key, and the request has none."""
    detail = f"this route requires an idempotency key in {header}; send a new random one, such as a UUID"
    return Problem("key-missing", 400, "Idempotency key missing", "new-key", detail)


def key_invalid(header: str, text: str) -> Problem:
    """The key cannot be read."""
    return Problem("key-invalid", 400, "Idempotency key invalid", "new-key", f"{header}: {text}")


def key_repeated(header: str) -> Problem:
    """More than one key: proxies differ in which one they would take."""
    detail = f"{header} was sent more than once; send it once"
    return Problem("key-repeated", 400, "More than one idempotency key", "new-key", detail)


def scope_missing() -> Problem:
    """Nothing in the request says who calls."""
    detail = "this route does not guard anonymous requests; send what identifies you"
    return Problem("scope-missing", 400, "Caller not identified", "new-key", detail)


def request_too_large() -> Problem:
    """The body is longer than can be compared."""
    detail = "the body is longer than this route allows"
    return Problem("request-too-large", 413, "Request too large", "new-key", detail)


def mismatch(first_request: str | None, state: str | None) -> Problem:
    """The key belongs to another request of the same caller."""
    first = f", {first_request} ({state})" if first_request else ""
    detail = (
        f"this key was first used for another request{first}; repeat exactly that request to learn its outcome, or "
        "take a new key for a new attempt"
    )
    members: dict[str, object] = {"first_request": first_request, "state": state} if first_request else {}
    return Problem("mismatch", 422, "Key used for another request", "new-key", detail, members=members)


def in_flight(retry_after: float) -> Problem:
    """The first request still runs."""
    detail = "the first request with this key is still running; send the same request again later"
    return Problem("in-flight", 409, "First request still running", "same-key", detail, retry_after)


def unknown() -> Problem:
    """The outcome of the first request was lost."""
    detail = (
        "nobody can tell whether the first request with this key had its effect; an operator must look before it may "
        "run again"
    )
    return Problem("unknown", 409, "Outcome unknown", "operator", detail)


def rules_changed() -> Problem:
    """Recorded under other fingerprint rules."""
    detail = (
        "the first request with this key was recorded under other comparison rules, so nobody can tell whether this "
        "one is the same"
    )
    return Problem("rules-changed", 409, "Comparison rules changed", "operator", detail)


def response_not_kept(status: int) -> Problem:
    """It ran and ended with `status`, but its body was not kept."""
    detail = (
        f"the first request with this key was executed and answered with status {status}; its response was not kept, "
        "and it is not executed again"
    )
    title = "Completed, response not kept"
    return Problem("response-not-kept", 410, title, "new-key", detail, members={"first_status": status})


def store_unavailable() -> Problem:
    """The records cannot be asked; nothing was executed."""
    detail = "the store of idempotency records cannot be asked, so the request was not executed"
    return Problem("store-unavailable", 503, "Idempotency store unavailable", "same-key", detail, 1)
