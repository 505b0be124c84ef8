"""What must not differ between two requests with one key: 41 bytes, as docs/fingerprint.md of the project defines them.

The gateway and the layer compute the same bytes; the project's test vectors hold all of them to it.
"""

import hashlib
import hmac
import zlib
from dataclasses import dataclass
from functools import cached_property

from oncegate.canonical import json_digest
from oncegate.multipart import boundary_of, multipart_digest

DECODED_BYTES_MAX = 10 * 1024 * 1024
GZIP_MEMBERS_MAX = 1024


class BodyTooLarge(Exception):
    """The body decodes to more than the limit: the request must be refused (413)."""


@dataclass(frozen=True)
class Rules:
    """By what requests are compared. `secret` keeps the stored digests from being guessed."""

    mode: str = "meaning"
    ignore: tuple[str, ...] = ()
    secret_id: str = ""
    secret: bytes | None = None
    decoded_bytes_max: int = DECODED_BYTES_MAX

    @cached_property
    def digest(self) -> bytes:
        """Eight bytes that differ when the rules do."""
        values = ["oncegate rules 1", self.mode, self.secret_id, *sorted(set(self.ignore), key=str.encode)]
        return hashlib.sha256(fields(*(value.encode() for value in values))).digest()[:8]


def fingerprint(
    rules: Rules, *, method: str, path: str, query: str, content_type: bytes, coding: bytes, body: bytes
) -> bytes:
    """The fingerprint of a request: `path` without the query, `coding` from Content-Encoding."""
    if "&" in query:
        query = "&".join(sorted(query.split("&"), key=lambda parameter: parameter.partition("=")[0].encode()))
    essence, semicolon, parameters = content_type.strip(b" \t").partition(b";")
    essence, parameters = essence.strip(b" \t").lower(), semicolon + parameters
    coding = coding.strip(b" \t").lower()
    coding = b"" if coding == b"identity" else coding

    meaning = None
    if rules.mode == "meaning" and coding in (b"", b"gzip", b"x-gzip"):
        try:
            decoded = _gunzip(body, rules.decoded_bytes_max) if coding else body
            meaning = _meaning(decoded, essence, parameters, rules.ignore)
            coding = b""
        except (ValueError, zlib.error):
            pass
    kind, digest = meaning or (b"bytes", hashlib.sha256(body).digest())
    media_type = essence + parameters if kind == b"bytes" else essence

    head = [b"oncegate fingerprint 1", method.encode(), path.encode(), query.encode()]
    message = fields(*head, media_type, coding, kind, digest)
    secret = rules.secret
    keyed = hashlib.sha256(message).digest() if secret is None else hmac.digest(secret, message, "sha256")
    return b"\x01" + rules.digest + keyed


def fields(*values: bytes) -> bytes:
    """Each value behind its length, so that none can imitate the border to the next."""
    return b"".join(len(value).to_bytes(4, "big") + value for value in values)


def _meaning(body: bytes, essence: bytes, parameters: bytes, ignore: tuple[str, ...]) -> tuple[bytes, bytes]:
    """What a body without its coding is compared by, and the digest of that."""
    try:
        if essence == b"application/json" or (b"/" in essence and essence.endswith(b"+json")):
            return b"json", json_digest(body, ignore)
        if essence.startswith(b"multipart/") and (boundary := boundary_of(parameters)):
            return b"multipart", multipart_digest(body, b"--" + boundary)
    except (ValueError, RecursionError):
        pass
    return b"bytes", hashlib.sha256(body).digest()


def _gunzip(body: bytes, limit: int) -> bytes:
    decoded = b""
    for _ in range(GZIP_MEMBERS_MAX):
        member = zlib.decompressobj(wbits=31)
        decoded += member.decompress(body, limit + 1 - len(decoded))
        if len(decoded) > limit:
            raise BodyTooLarge
        if not member.eof:
            raise ValueError("cut short")
        body = member.unused_data
        if not body:
            return decoded
    raise ValueError("too many members")
