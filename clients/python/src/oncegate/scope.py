"""The space in which a key is unique, as docs/fingerprint.md of the project defines it, under a prefix of our own."""

import hashlib
import hmac
from collections.abc import Iterable

READABLE_BYTES_MAX = 128

PREFIX = "python"
"""First in every scope of this package. A gateway's scope consists of parts with a `=` or `#`, so none is equal to one
of ours, and a gateway on the same table never meets our records."""


def scope_part(name: str, value: bytes, *, credential: bool = False, secret: bytes | None = None) -> str:
    """`name=length:value` for what people may read, else `name#32:digest`. The length keeps a value from imitating
    further parts."""
    if (
        not credential
        and len(value) <= READABLE_BYTES_MAX
        and value.isascii()
        and (text := value.decode()).isprintable()
    ):
        return f"{name}={len(value)}:{text}"
    digest = hmac.digest(secret, value, "sha256") if secret is not None else hashlib.sha256(value).digest()
    return f"{name}#32:{digest[:16].hex()}"


def scope_text(parts: Iterable[str]) -> str:
    """The scope of these parts, see `scope_part`; without any it is that of everybody who is not told apart."""
    return ";".join([PREFIX, *parts])
