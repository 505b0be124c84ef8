"""Answers, as they pass by, and ours as responses of Starlette."""

from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import Message

from oncegate.answer import Answer
from oncegate.replay import EXPIRES, http_date

WITHOUT_BODY = (204, 304)
"""They have no length either."""


def response_of(answer: Answer) -> Response:
    """The response, its headers in as many lines as they came in."""
    response = Response(answer.body, answer.status)
    for name, value in answer.headers:
        response.headers.append(name, value)
    return response


def is_stream(head: Message) -> bool:
    """Whether an answer is made while it leaves: what it is made of must see what was committed."""
    has_length = "content-length" in Headers(raw=list(head.get("headers", [])))
    return not has_length and head["status"] not in WITHOUT_BODY


@dataclass
class Passing:
    """The answer of an endpoint, of which nothing has left yet: its head, and the first message behind that."""

    head: Message
    first: Message | None
    """None: it streams, and is told by its head alone."""

    @property
    def status(self) -> int:
        """Its status."""
        return int(self.head["status"])

    def headers(self) -> list[tuple[str, str]]:
        """Its headers."""
        return MutableHeaders(raw=self.head.setdefault("headers", [])).items()

    def stored_body(self, bytes_max: int) -> bytes | None:
        """The body, None if it is not kept: it streams, is a part, or is too long."""
        first = self.first
        if first is None or first["type"] != "http.response.body" or first.get("more_body", False):
            return None
        body = bytes(first.get("body", b""))
        return body if len(body) <= bytes_max and self.status != 206 else None

    def mark(self, expires_at: float) -> None:
        """Says that it was stored, and for how long."""
        headers = MutableHeaders(raw=list(self.head.get("headers", [])))
        headers[EXPIRES] = http_date(expires_at)
        self.head["headers"] = headers.raw
