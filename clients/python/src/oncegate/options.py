"""How a handler is guarded: what stands beside it, over what the application says, over the defaults."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
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
    """Seconds until a worker that died may be taken over from: above the time that a server gives a request, which is
    30 s by default with Gunicorn."""
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

    def rules(self) -> Rules:
        """By what requests are compared."""
        return Rules(ignore=self.ignore)


class OptionInvalid(ValueError):
    """An option that there is not, or a value that it cannot have."""


Chosen = TypeVar("Chosen", bound=Options)


def chosen_options(base: Chosen, overrides: Mapping[str, Any]) -> Chosen:
    """`base` with some values replaced; OptionInvalid when they cannot be kept."""
    check_names(base, overrides)
    chosen = replace(base, **overrides)
    chosen = replace(chosen, methods=tuple(method.upper() for method in chosen.methods), ignore=tuple(chosen.ignore))
    _check(chosen)
    return chosen


def check_names(base: Options, overrides: Mapping[str, Any]) -> None:
    """OptionInvalid when there is no such option."""
    known = [option.name for option in fields(base)]
    for name in overrides:
        if name not in known:
            close = get_close_matches(name, known, 1)
            raise OptionInvalid(f"has no {name!r}" + (f": did you mean {close[0]!r}?" if close else ""))


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
    if ignored := {"GET", "HEAD", "OPTIONS"}.intersection(chosen.methods):
        raise OptionInvalid(f"methods has {ignored.pop()}, which is safe to repeat as it is")
    if never := [name for name in chosen.replay_headers if not may_be_kept(name)]:
        raise OptionInvalid(f"replay_headers has {never[0]!r}, which belongs to the first exchange")
