"""The client's key: 1 to 255 visible ASCII characters, quoted or bare."""

import re

KEY_LENGTH_MAX = 255

BARE = re.compile(f"[!#-+.-~-]{{1,{KEY_LENGTH_MAX}}}")
"""What nearly every client sends: any visible character but `"` and `,`. What is none is read with care, to say why."""


class KeyInvalid(ValueError):
    """A header value that is not one key. Its text never has the value."""

    def __init__(self, text: str, *, repeated: bool = False) -> None:
        super().__init__(text)
        self.repeated = repeated
        """Several keys in one value, which is how two header lines arrive."""


def parse_key(value: str) -> str:
    """Reads one header field value; `"abc"` (a structured-field string, RFC 9651) and `abc` are one key.

    Raises KeyInvalid when the value is empty, too long, not visible ASCII, or more than one key.
    """
    value = value.strip(" \t\r\n")
    if BARE.fullmatch(value):
        return value
    key = _unquote(value[1:]) if value.startswith('"') else _bare(value)
    if not 1 <= len(key) <= KEY_LENGTH_MAX:
        raise KeyInvalid(f"the key has {len(key)} bytes: 1 to {KEY_LENGTH_MAX} visible ASCII characters are allowed")
    return key


def _bare(value: str) -> str:
    # Proxies join lines by a comma and a space: the comma tells more than the space behind it.
    for position, character in enumerate(value):
        if character in ',"':
            text = f"the key has a bare {character!r}: send one key, and quote it if it contains that character"
            raise KeyInvalid(text, repeated=character == ",")
        if not _is_visible(character) and "," not in value[position:]:
            raise _not_visible(position)
    return value


def _unquote(rest: str) -> str:
    """Decodes the rest of a structured-field string, behind its opening quote."""
    text = ""
    characters = iter(enumerate(rest))
    for position, character in characters:
        if character == '"':
            behind = rest[position + 1 :]
            if not behind:
                return text
            if behind.lstrip(" \t").startswith(","):
                raise KeyInvalid("the key has a bare ',': send one key", repeated=True)
            raise KeyInvalid("the quoted key is followed by parameters or text: nothing may follow the closing quote")
        if character == "\\":
            _, character = next(characters, (0, ""))
            if character not in ('"', "\\"):
                break
        elif not _is_visible(character):
            raise _not_visible(position + 1)
        text += character
    raise KeyInvalid("the quoted key is not a structured-field string (RFC 9651 section 3.3.3)")


def _is_visible(character: str) -> bool:
    return "\x21" <= character <= "\x7e"


def _not_visible(position: int) -> KeyInvalid:
    return KeyInvalid(f"the key has another character than visible ASCII (0x21 to 0x7e) at position {position}")
