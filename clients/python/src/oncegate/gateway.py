"""A gateway in front, which has claimed already: by what a request proves that it comes from there."""

import hmac
from collections.abc import Iterable

SECRET = "Oncegate-Secret"
RECORD = "Oncegate-Record"
FENCE = "Oncegate-Fence"
ATTEMPT = "Oncegate-Attempt"

SECRET_LENGTH_MIN = 32
"""As long as 128 bits in hexadecimal: a secret that can be guessed lets callers name a record."""


def is_trusted(secrets: Iterable[str], given: str) -> bool:
    """Whether `given` is one of the secrets; takes as long whichever it is and wherever they differ."""
    shown = given.encode()
    # A list, so that the first that is equal does not end it.
    return any([hmac.compare_digest(secret.encode(), shown) for secret in secrets])


def secret_fault(secret: object) -> str | None:
    """Why this cannot be a secret, without showing it."""
    if not isinstance(secret, str):
        return "is not text"
    if not secret.isascii() or not secret.isprintable() or secret.strip() != secret:
        return "has white space at an end, or characters that no header can carry"
    if len(secret) < SECRET_LENGTH_MIN:
        return f"has {len(secret)} characters: at least {SECRET_LENGTH_MIN} are needed"
    return None
