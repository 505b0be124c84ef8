"""What the status of an answer means for its record."""

import enum


class Disposition(enum.Enum):
    """What becomes of an answer."""

    STORE = "store"
    """A decision: it commits together with the effect, and every repeat gets it."""
    RELEASE = "release"
    """Nothing was done: the effect, if there is any, is rolled back, and a repeat executes."""


RELEASED = frozenset({401, 403, 407, 408, 425, 429})


def is_refusal(status: int) -> bool:
    """A decision that claims no success: the only kind that may be stored after its transaction was rolled back."""
    return status >= 400 and disposition(status) is Disposition.STORE


def disposition(status: int) -> Disposition:
    """Errors of the server are released too: their transaction is rolled back, which proves that nothing happened."""
    return Disposition.RELEASE if status in RELEASED or status >= 500 else Disposition.STORE
