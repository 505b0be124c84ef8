"""What a guarded view may know of its claim: `request.oncegate`."""

import uuid
from dataclasses import dataclass


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
