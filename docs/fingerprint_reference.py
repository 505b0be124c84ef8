#!/usr/bin/env python3
"""Scope, record id and fingerprint as docs/fingerprint.md defines them, in plain Python.

It shares nothing with the Rust code and needs the standard library alone. It reads a body as a
whole; the gate computes the same while the body arrives. Run over test vectors it prints every disagreement:

    python3 docs/fingerprint_reference.py vectors.json
"""

import hashlib
import hmac
import json
import re
import sys
import uuid
import zlib

HELD_BYTES_MAX = 64
HELD_MEMBERS_MAX = 16_384
DEPTH_MAX = 128
PART_HEADER_BYTES_MAX = 16 * 1024
GZIP_MEMBERS_MAX = 1024
DECODED_BYTES_MAX = 10 * 1024 * 1024

TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
PARAMETER = re.compile(rb"[ \t]*;[ \t]*(?:(" + TOKEN + rb')=(?:"([^"\\]*)"|([^;"\\ \t]*)))?')
BOUNDARY = re.compile(rb"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")


class DecodedTooLarge(Exception):
    """The request must be refused (413)."""


# === hashing ===


def sha256(text):
    return hashlib.sha256(text).digest()


def fields(*values):
    return b"".join(len(value).to_bytes(4, "big") + value for value in values)


# === scope and record id ===


def scope_part(name, value, readable, key):
    if readable and len(value) <= 128 and all(0x20 <= byte <= 0x7E for byte in value):
        return f"{name}={len(value)}:{value.decode()}"
    digest = hmac.digest(key, value, "sha256") if key is not None else sha256(value)
    return f"{name}#32:{digest[:16].hex()}"


def scope(parts, key=None):
    return ";".join(scope_part(*part, key) for part in parts)


def record_id(scope_text, key):
    return uuid.UUID(bytes=sha256(fields(scope_text.encode(), key.encode()))[:16])


# === JSON ===


class Literal(str):
    """A number as it was written."""


class Members(list):
    """An object: its members as they were sent, duplicates too."""


def refuse(constant):
    raise ValueError(f"{constant} is not JSON")


def hold(text):
    return text if len(text) <= HELD_BYTES_MAX else b"#" + sha256(text)


def quote(text):
    return json.dumps(text, ensure_ascii=False).encode()  # fails for lone surrogates


def canonical(value, ignored, depth, held):
    """The text of a value. `ignored` has the steps from here to ignored places; `depth` containers are open and `held`
    members of them have ended."""
    if isinstance(value, Literal):
        return value.encode()
    if not isinstance(value, list):
        return quote(value)
    if depth == DEPTH_MAX:
        raise ValueError("too deep")
    if isinstance(value, Members):
        return canonical_object(value, ignored, depth + 1, held)
    elements = []
    for index, element in enumerate(value):
        below = [steps[1:] for steps in ignored if steps[:1] == (str(index),)]
        text = canonical(element, below, depth + 1, held)
        if () not in below:
            elements.append(text)
    return b"[" + b",".join(elements) + b"]"


def canonical_object(members, ignored, depth, held):
    texts = {}
    for count, (name, value) in enumerate(members):
        below = [steps[1:] for steps in ignored if steps[:1] == (name,)]
        text = hold(canonical(value, below, depth, held + count))
        texts[hold(quote(name))] = None if () in below else text
        if held + count + 1 > HELD_MEMBERS_MAX:
            raise ValueError("too many members")
    if len(texts) < len(members):
        raise ValueError("duplicate members")
    return b"{" + b",".join(name + b":" + text for name, text in sorted(texts.items()) if text is not None) + b"}"


def json_digest(body, ignore):
    text = body.decode()
    hooks = {"parse_int": Literal, "parse_float": Literal, "parse_constant": refuse, "object_pairs_hook": Members}
    steps = [tuple(s.replace("~1", "/").replace("~0", "~") for s in pointer.split("/")[1:]) for pointer in ignore]
    return sha256(canonical(json.loads(text, **hooks), steps, 0, 0))


# === multipart ===


def boundary(parameters):
    found, end = [], 0
    while match := PARAMETER.match(parameters, end):
        end = match.end()
        if (match[1] or b"").lower() == b"boundary":
            found.append(match[2] if match[2] is not None else match[3])
    whole = not parameters[end:].strip(b" \t")
    return found[0] if whole and len(found) == 1 and BOUNDARY.fullmatch(found[0]) else None


def part_header(header):
    normal = b""
    for line in header.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if not colon or not re.fullmatch(TOKEN, name) or re.search(rb"[\r\n]", value):
            raise ValueError("malformed header field")
        normal += name.lower() + b":" + value.strip(b" \t") + b"\r\n"
    return normal


def multipart_digest(body, dashed):
    preamble, *sections = (b"\r\n" + body).split(b"\r\n" + dashed)
    if not sections or any(dashed in section for section in [preamble, *sections]):
        raise ValueError("no boundary, or one in the middle of a line")
    *parts, last = sections
    found = [sha256(preamble)]
    for part in parts:
        header, empty_line, content = part.lstrip(b" \t").partition(b"\r\n\r\n")
        if not part.lstrip(b" \t").startswith(b"\r\n") or not empty_line or len(header) > PART_HEADER_BYTES_MAX:
            raise ValueError("malformed part")
        found += [part_header(header), sha256(content)]
    epilogue = re.fullmatch(rb"--[ \t]*(?:\r\n(.*))?", last, re.DOTALL)
    if not epilogue:
        raise ValueError("malformed end")
    return sha256(fields(*found, sha256(epilogue[1] or b"")))


# === fingerprint ===


def gunzip(body, limit):
    decoded = b""
    for _ in range(GZIP_MEMBERS_MAX):
        member = zlib.decompressobj(wbits=31)
        decoded += member.decompress(body, limit + 1 - len(decoded))
        if len(decoded) > limit:
            raise DecodedTooLarge
        if not member.eof:
            raise ValueError("cut short")
        body = member.unused_data
        if not body:
            return decoded
    raise ValueError("too many members")


def meaning(body, essence, parameters, ignore):
    """What a body without its coding is compared by, and the digest of that."""
    try:
        if essence == b"application/json" or (b"/" in essence and essence.endswith(b"+json")):
            return b"json", json_digest(body, ignore)
        if essence.startswith(b"multipart/") and (found := boundary(parameters)):
            return b"multipart", multipart_digest(body, b"--" + found)
    except (ValueError, RecursionError):
        pass
    return b"bytes", sha256(body)


def rules_digest(rules):
    secret_id = rules.get("secret", {}).get("id", "")
    values = ["oncegate rules 1", rules.get("mode", "meaning"), secret_id, *sorted(set(rules.get("ignore", [])))]
    return sha256(fields(*(value.encode() for value in values)))[:8]


def fingerprint(rules, method, path, query, content_type, coding, body):
    query = "&".join(sorted(query.split("&"), key=lambda parameter: parameter.partition("=")[0].encode()))
    essence, semicolon, parameters = content_type.strip(b" \t").partition(b";")
    essence, parameters = essence.strip(b" \t").lower(), semicolon + parameters
    coding = coding.strip(b" \t").lower()
    coding = b"" if coding == b"identity" else coding

    kind, digest = b"bytes", sha256(body)
    if rules.get("mode", "meaning") == "meaning" and coding in (b"", b"gzip", b"x-gzip"):
        try:
            decoded = gunzip(body, rules.get("decoded_bytes_max", DECODED_BYTES_MAX)) if coding else body
            kind, digest = meaning(decoded, essence, parameters, rules.get("ignore", []))
            coding = b""
        except (ValueError, zlib.error):
            pass
    media_type = essence + parameters if kind == b"bytes" else essence

    head = [b"oncegate fingerprint 1", method.encode(), path.encode(), query.encode()]
    message = fields(*head, media_type, coding, kind, digest)
    secret = rules.get("secret")
    keyed = hmac.digest(bytes.fromhex(secret["key_hex"]), message, "sha256") if secret else sha256(message)
    return b"\x01" + rules_digest(rules) + keyed


# === vectors ===


def octets(vector, name):
    """A value given as text, as hexadecimal, or as pieces, each with how often it is repeated."""
    if name + "_hex" in vector:
        return bytes.fromhex(vector[name + "_hex"])
    if name + "_pieces" in vector:
        return b"".join(text.encode() * times for text, times in vector[name + "_pieces"])
    return (vector.get(name) or "").encode()


def compute_scope(vector):
    key = octets(vector, "secret_key") if "secret_key_hex" in vector else None
    return scope([(part["name"], octets(part, "value"), not part.get("credential")) for part in vector["parts"]], key)


def compute_fingerprint(vector):
    request = vector["request"]
    head = [request["method"], request["path"], request.get("query") or ""]
    octet_values = [octets(request, name) for name in ("content_type", "content_encoding", "body")]
    try:
        return fingerprint(vector.get("rules", {}), *head, *octet_values).hex()
    except DecodedTooLarge:
        return "refused"


def main(path):
    with open(path, encoding="utf-8") as file:
        vectors = json.load(file)
    computed = [(vector, vector["text"], compute_scope(vector)) for vector in vectors["scope"]]
    computed += [(v, v["record_id"], str(record_id(v["scope"], v["key"]))) for v in vectors["record_id"]]
    computed += [(vector, vector["fingerprint"], compute_fingerprint(vector)) for vector in vectors["fingerprint"]]
    disagreements = [(v["name"], expected, found) for v, expected, found in computed if expected != found]
    for name, expected, found in disagreements:
        print(f"{name}: expected {expected}, computed {found}")
    print(f"{len(computed)} vectors, {len(disagreements)} disagreements", file=sys.stderr)
    return 1 if disagreements else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
