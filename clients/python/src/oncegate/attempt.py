"""The right to execute, as the handler may know it."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oncegate import gateway
from oncegate.verb import Claim


@dataclass(frozen=True)
class Attempt:
    """This execution. It is the first for its key, or a takeover of one that died."""

    record: uuid.UUID
    """The same for every attempt: what to send to other services as their idempotency key."""
    fence: int
    number: int
    """1, and one more with every takeover."""

    @property
    def is_takeover(self) -> bool:
        """An earlier attempt began and did not end: what it did outside of this database may have happened."""
        return self.number > 1


def attempt_of(claim: Claim) -> Attempt:
    """The right to execute of a claim that has acquired."""
    assert claim.fence is not None
    assert claim.attempt is not None
    return Attempt(claim.record, claim.fence, claim.attempt)


def gateway_attempt(headers: Mapping[str, str], secrets: Sequence[str]) -> Attempt | None:
    """The claim of a gateway in front, if the request proves by one of the secrets that it comes from there."""
    if not gateway.is_trusted(secrets, headers.get(gateway.SECRET, "")):
        return None
    try:
        record, fence = uuid.UUID(headers[gateway.RECORD]), int(headers[gateway.FENCE])
        return Attempt(record, fence, int(headers.get(gateway.ATTEMPT, "1")))
    except (KeyError, ValueError):
        return None
