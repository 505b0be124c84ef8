"""How a handler is guarded: what stands beside it, over what the application says, over the defaults."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any, TypeVar

from oncegate.fingerprint import Rules
from oncegate.gateway import secret_fault
from oncegate.replay import STORED_BODY_BYTES_MAX, may_be_kept


@dataclass(frozen=True)
class Options:
    """What every framework has."""

    methods: tuple[str, ...] = ("POST", "PATCH")
    """The guarded methods; PUT and DELETE may be added."""
    required: bool = False
    """Whether a request without a key is refused (400) or executed unguarded."""
    header: str = "Idempotency-Key"
    """The request header with the key."""
    lease: float = 40.0
    """Seconds until a worker that died may be taken over from: above what the slowest handler takes. A server's timeout
    need not bound that; Gunicorn's does not with threads."""
    retention: float = 86400.0
    """Seconds that a record lives; after them the key is new."""
    enter: bool = False
    """Claim in the handler's own transaction: one commit, but only for handlers that call no other service."""
    scope: Callable[[Any], str | None] | None = None
    """Answers what identifies the caller of a request, None: nothing does."""
    anonymous: str = "share"
    """Callers that nothing identifies share one scope (`share`), or are refused (`reject`)."""
    ignore: tuple[str, ...] = ()
    """JSON pointers to what may differ in a repeat."""
    replay_headers: tuple[str, ...] = ()
    """Response headers that replays carry besides the usual ones."""
    stored_body_bytes_max: int = STORED_BODY_BYTES_MAX
    """A longer response is not kept: repeats get 410, and do not execute."""
    trust_gateway: str | Sequence[str] | None = None
    """A secret, or several while it changes. A request that has it in `Oncegate-Secret` was claimed by a gateway in
    front: it is only completed."""

    @property
    def gateway_secrets(self) -> Sequence[str]:
        """The secrets of `trust_gateway`."""
        if self.trust_gateway is None:
            return ()
        return (self.trust_gateway,) if isinstance(self.trust_gateway, str) else self.trust_gateway

    @cached_property
    def rules(self) -> Rules:
        """By what requests are compared."""
        return Rules(ignore=self.ignore)


METHODS = ("POST", "PUT", "PATCH", "DELETE")
"""What may be guarded: other methods are safe to repeat as they are."""

LISTS = ("methods", "ignore", "replay_headers")

POINTER_BYTES_MAX = 1024

BARE_TILDE = re.compile("~(?![01])")


class OptionInvalid(ValueError):
    """An option that there is not, or a value that it cannot have."""


Chosen = TypeVar("Chosen", bound=Options)


def chosen_options(base: Chosen, overrides: Mapping[str, Any]) -> Chosen:
    """`base` with some values replaced; OptionInvalid when they cannot be kept."""
    check_names(base, overrides)
    lists = {name: _texts(name, overrides[name]) for name in LISTS if name in overrides}
    chosen = replace(base, **{**overrides, **lists})
    chosen = replace(chosen, methods=tuple(method.upper() for method in chosen.methods))
    _check(chosen)
    return chosen


def check_names(base: Options, overrides: Mapping[str, Any]) -> None:
    """OptionInvalid when there is no such option."""
    known = [option.name for option in fields(base)]
    for name in overrides:
        if name not in known:
            close = get_close_matches(name, known, 1)
            raise OptionInvalid(f"has no {name!r}" + (f": did you mean {close[0]!r}?" if close else ""))


def _texts(name: str, value: Any) -> tuple[str, ...]:
    """A list of texts. To Python one text is a list too, of its letters: it would guard nothing, and not say so."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise OptionInvalid(f"{name} is {value!r}: a list or tuple is needed, such as [{str(value)!r}]")
    texts = tuple(value)
    if others := [text for text in texts if not isinstance(text, str)]:
        raise OptionInvalid(f"{name} has {others[0]!r}, which is not text")
    return texts


def _check(chosen: Options) -> None:
    if not 0.1 <= chosen.lease <= 3600:
        raise OptionInvalid(f"lease {chosen.lease} s is out of range: 0.1 to 3600 are allowed")
    if not chosen.lease <= chosen.retention <= 400 * 86400:
        raise OptionInvalid(f"retention {chosen.retention} s is out of range: from the lease to 400 days are allowed")
    if chosen.anonymous not in ("share", "reject"):
        raise OptionInvalid(f"anonymous {chosen.anonymous!r} is not known: share and reject are")
    for secret in chosen.gateway_secrets:
        if fault := secret_fault(secret):
            raise OptionInvalid(f"trust_gateway {fault}")
    if others := [method for method in chosen.methods if method not in METHODS]:
        raise OptionInvalid(f"methods has {others[0]!r}: {', '.join(METHODS)} are allowed")
    for pointer in chosen.ignore:
        if fault := _pointer_fault(pointer):
            raise OptionInvalid(f"ignore has {pointer!r}, which {fault}")
    if never := [name for name in chosen.replay_headers if not may_be_kept(name)]:
        raise OptionInvalid(f"replay_headers has {never[0]!r}, which belongs to the first exchange")


def _pointer_fault(pointer: str) -> str | None:
    """Why this is no JSON pointer (RFC 6901) to a part of a body; the gateway refuses the same."""
    if not pointer:
        return "is the whole document: nothing would be compared"
    if len(pointer.encode()) > POINTER_BYTES_MAX:
        return f"has more than {POINTER_BYTES_MAX} bytes"
    if not pointer.startswith("/"):
        return 'does not start with "/": RFC 6901 wants one before each step'
    if BARE_TILDE.search(pointer):
        return 'has a bare "~": "~0" stands for "~" and "~1" for "/"'
    return None
