"""What a claim needs of a request: key, scope, fingerprint."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from oncegate import problem, verb
from oncegate.fingerprint import BodyTooLarge, fingerprint
from oncegate.key import KeyInvalid, parse_key
from oncegate.options import Options
from oncegate.problem import Problem
from oncegate.scope import scope_text
from oncegate.verb import Claim

SHARED = (
    "nothing identifies some callers of %r, so they share one space of keys: who sends another's request with its key "
    'gets the answer to it; say scope=, or anonymous="reject"'
)
"""Warned once, with the route."""


class Refused(Exception):
    """The request is answered with this problem, and nothing is executed."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.name)
        self.problem = problem


@dataclass(frozen=True)
class Received:
    """A request, as any framework has received it."""

    method: str
    path: str
    """Percent-encoded, without the query."""
    query: str
    content_type: bytes
    coding: bytes
    """Content-Encoding."""
    body: bytes


@dataclass(frozen=True)
class Reading:
    """The arguments of a claim, and the claim with them."""

    scope: str
    key: str
    fingerprint: bytes
    operation: str

    @property
    def is_anonymous(self) -> bool:
        """Whether nothing says who calls, so that whoever else is not known may repeat it."""
        return self.scope == scope_text(())

    def claim(self, cursor: Any, options: Options, owner: uuid.UUID) -> Claim:
        """Claims, in a transaction of its own."""
        return verb.claim(
            cursor,
            self.scope,
            self.key,
            self.fingerprint,
            lease=options.lease,
            retention=options.retention,
            operation=self.operation,
            owner=owner,
        )

    def enter(self, cursor: Any, options: Options) -> Claim:
        """Claims in the handler's own transaction."""
        return verb.enter(
            cursor,
            self.scope,
            self.key,
            self.fingerprint,
            retention=options.retention,
            operation=self.operation,
        )


def read_key(value: str | None, header: str) -> str | None:
    """The key of a header's value, None without one; Refused when it cannot be read."""
    if value is None:
        return None
    try:
        return parse_key(value)
    except KeyInvalid as error:
        refusal = problem.key_repeated(header) if error.repeated else problem.key_invalid(header, str(error))
        raise Refused(refusal) from None


def read(received: Received, key: str, caller: Sequence[str], options: Options) -> Reading:
    """`caller` has the parts of a scope that say who calls; Refused when nothing may be claimed for them."""
    try:
        compared = fingerprint(
            options.rules,
            method=received.method,
            path=received.path,
            query=received.query,
            content_type=received.content_type,
            coding=received.coding,
            body=received.body,
        )
    except BodyTooLarge:
        raise Refused(problem.request_too_large()) from None
    if not caller and options.anonymous == "reject":
        raise Refused(problem.scope_missing())
    return Reading(scope_text(caller), key, compared, f"{received.method} {received.path}")
