"""JSON by meaning: the digest of one canonical text.

Members are sorted, white space and escapes are normalised, and numbers stay as they were written. What parsers read in
different ways is a ValueError, and is then compared byte by byte.
"""

import hashlib
import json
from typing import Any

HELD_BYTES_MAX = 64
HELD_MEMBERS_MAX = 16_384
DEPTH_MAX = 128

Steps = tuple[str, ...]


class _Literal(str):
    """A number as it was written."""


class _Members(list[tuple[str, Any]]):
    """An object: its members as they were sent, duplicates too."""


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


# Made once: json.loads and json.dumps make a new one for each call that says how.
_DECODER = json.JSONDecoder(
    parse_int=_Literal, parse_float=_Literal, parse_constant=_refuse, object_pairs_hook=_Members
)
_ENCODER = json.JSONEncoder(ensure_ascii=False)


def json_digest(body: bytes, ignore: tuple[str, ...]) -> bytes:
    """The digest of a JSON text without the places that the pointers in `ignore` name."""
    value = _DECODER.decode(body.decode())
    ignored = [tuple(s.replace("~1", "/").replace("~0", "~") for s in pointer.split("/")[1:]) for pointer in ignore]
    return hashlib.sha256(_canonical(value, ignored, 0, 0)).digest()


def _canonical(value: Any, ignored: list[Steps], depth: int, held: int) -> bytes:
    """The text of a value. `ignored` has the steps from here to ignored places; `depth` containers are open, and
    `held` members of them have ended."""
    if isinstance(value, _Literal):
        return value.encode()
    if not isinstance(value, list):
        return _quote(value)
    if depth == DEPTH_MAX:
        raise ValueError("too deep")
    if isinstance(value, _Members):
        return _canonical_object(value, ignored, depth + 1, held)
    elements = []
    for index, element in enumerate(value):
        below = ignored and [steps[1:] for steps in ignored if steps[:1] == (str(index),)]
        text = _canonical(element, below, depth + 1, held)
        if () not in below:
            elements.append(text)
    return b"[" + b",".join(elements) + b"]"


def _canonical_object(members: _Members, ignored: list[Steps], depth: int, held: int) -> bytes:
    texts: dict[bytes, bytes | None] = {}
    for count, (name, value) in enumerate(members):
        below = ignored and [steps[1:] for steps in ignored if steps[:1] == (name,)]
        text = _hold(_canonical(value, below, depth, held + count))
        texts[_hold(_quote(name))] = None if () in below else text
        if held + count + 1 > HELD_MEMBERS_MAX:
            raise ValueError("too many members")
    if len(texts) < len(members):
        raise ValueError("duplicate members")
    # No two names are equal, so values are never compared.
    kept = sorted((name, text) for name, text in texts.items() if text is not None)
    return b"{" + b",".join(name + b":" + text for name, text in kept) + b"}"


def _hold(text: bytes) -> bytes:
    return text if len(text) <= HELD_BYTES_MAX else b"#" + hashlib.sha256(text).digest()


def _quote(text: Any) -> bytes:
    return _ENCODER.encode(text).encode()  # fails for lone surrogates
