"""Multipart by its parts: the digest does not depend on the boundary.

What cannot be read with certainty is a ValueError, and is then compared byte by byte.
"""

import hashlib
import re

PART_HEADER_BYTES_MAX = 16 * 1024

TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
PARAMETER = re.compile(rb"[ \t]*;[ \t]*(?:(" + TOKEN + rb')=(?:"([^"\\]*)"|([^;"\\ \t]*)))?')
BOUNDARY = re.compile(rb"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")


def boundary_of(parameters: bytes) -> bytes | None:
    """The one boundary among the parameters of a media type."""
    found: list[bytes] = []
    end = 0
    while match := PARAMETER.match(parameters, end):
        end = match.end()
        if (match[1] or b"").lower() == b"boundary":
            found.append(match[2] if match[2] is not None else match[3])
    is_whole = not parameters[end:].strip(b" \t")
    return found[0] if is_whole and len(found) == 1 and BOUNDARY.fullmatch(found[0]) else None


def multipart_digest(body: bytes, dashed: bytes) -> bytes:
    """The digest of preamble, parts and epilogue; `dashed` is `--` and the boundary."""
    preamble, *sections = (b"\r\n" + body).split(b"\r\n" + dashed)
    if not sections or any(dashed in section for section in [preamble, *sections]):
        raise ValueError("no boundary, or one in the middle of a line")
    *parts, last = sections
    found = [_sha256(preamble)]
    for part in parts:
        header, empty_line, content = part.lstrip(b" \t").partition(b"\r\n\r\n")
        if not part.lstrip(b" \t").startswith(b"\r\n") or not empty_line or len(header) > PART_HEADER_BYTES_MAX:
            raise ValueError("malformed part")
        found += [_part_header(header), _sha256(content)]
    epilogue = re.fullmatch(rb"--[ \t]*(?:\r\n(.*))?", last, re.DOTALL)
    if not epilogue:
        raise ValueError("malformed end")
    found.append(_sha256(epilogue[1] or b""))
    return _sha256(b"".join(len(value).to_bytes(4, "big") + value for value in found))


def _part_header(header: bytes) -> bytes:
    normal = b""
    for line in header.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if not colon or not re.fullmatch(TOKEN, name) or re.search(rb"[\r\n]", value):
            raise ValueError("malformed header field")
        normal += name.lower() + b":" + value.strip(b" \t") + b"\r\n"
    return normal


def _sha256(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
