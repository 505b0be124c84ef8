"""What needs no database: keys, scopes, fingerprints, statuses, problems."""

import json
from pathlib import Path

import pytest

from oncegate import BodyTooLarge, KeyInvalid, Rules, fingerprint, parse_key, problem, scope_text
from oncegate.gateway import is_trusted, secret_fault
from oncegate.options import OptionInvalid, Options, chosen_options
from oncegate.replay import kept_headers
from oncegate.schema import migrations
from oncegate.scope import scope_part
from oncegate.status import Disposition, disposition

REPOSITORY = Path(__file__).parents[3]
VECTORS = json.loads((REPOSITORY / "vectors.json").read_text(encoding="utf-8"))


def octets(vector, name):
    """A value given as text, as hexadecimal, or as pieces, each with how often it is repeated."""
    if name + "_hex" in vector:
        return bytes.fromhex(vector[name + "_hex"])
    if name + "_pieces" in vector:
        return b"".join(text.encode() * times for text, times in vector[name + "_pieces"])
    return (vector.get(name) or "").encode()


@pytest.mark.parametrize("vector", VECTORS["fingerprint"], ids=lambda vector: vector["name"])
def test_fingerprints_are_those_of_every_other_program(vector):
    rules, request = vector.get("rules", {}), vector["request"]
    secret = rules.get("secret")
    ours = Rules(
        mode=rules.get("mode", "meaning"),
        ignore=tuple(rules.get("ignore", ())),
        secret_id=secret["id"] if secret else "",
        secret=bytes.fromhex(secret["key_hex"]) if secret else None,
        decoded_bytes_max=rules.get("decoded_bytes_max", Rules().decoded_bytes_max),
    )
    try:
        computed = fingerprint(
            ours,
            method=request["method"],
            path=request["path"],
            query=request.get("query") or "",
            content_type=octets(request, "content_type"),
            coding=octets(request, "content_encoding"),
            body=octets(request, "body"),
        ).hex()
    except BodyTooLarge:
        computed = "refused"
    assert computed == vector["fingerprint"]


@pytest.mark.parametrize("vector", VECTORS["scope"], ids=lambda vector: vector["name"])
def test_parts_of_scopes_are_those_of_every_other_program(vector):
    secret = octets(vector, "secret_key") if "secret_key_hex" in vector else None
    parts = [
        scope_part(part["name"], octets(part, "value"), credential=part.get("credential", False), secret=secret)
        for part in vector["parts"]
    ]
    assert ";".join(parts) == vector["text"]


def test_a_scope_of_ours_is_never_one_of_a_gateway():
    assert scope_text([]) == "python"
    assert scope_text(["user=2:42"]) == "python;user=2:42"
    # Every part of a gateway's scope has one of these behind its name.
    assert not {"=", "#"} & set(scope_text(["user=2:42"]).partition(";")[0])


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("8e03978e-40d5", "8e03978e-40d5"),
        ('"8e03978e-40d5"', "8e03978e-40d5"),
        (" k ", "k"),
        (r'"a\"b"', 'a"b'),
        (r'"a\\b"', "a\\b"),
        ('"a,b"', "a,b"),
        ("k" * 255, "k" * 255),
        ('"' + "\\\\" * 255 + '"', "\\" * 255),
    ],
)
def test_quoted_and_bare_are_one_key(value, key):
    assert parse_key(value) == key


@pytest.mark.parametrize(
    ("value", "repeated"),
    [
        ("", False),
        ("  ", False),
        ('""', False),
        ("k" * 256, False),
        ('"' + "k" * 256 + '"', False),
        ("K1,K1", True),
        ("K1, K1", True),
        ('"K1","K1"', True),
        ('"K1", "K1"', True),
        ('K"1', False),
        ("caf\xe9", False),
        ("a\tb", False),
        ('"a b"', False),
        ("a\0", False),
        ('"unterminated', False),
        (r'"a\x"', False),
        ('"x\\"', False),
        ('"x";p=1', False),
    ],
)
def test_what_is_not_one_key_is_refused_without_an_echo(value, repeated):
    with pytest.raises(KeyInvalid) as refused:
        parse_key(value)
    assert refused.value.repeated is repeated
    assert len(value.strip()) < 4 or value.strip() not in str(refused.value)


def test_a_bare_key_is_made_of_visible_characters_that_separate_nothing():
    def is_taken(character):
        try:
            return parse_key(f"k{character}k") == f"k{character}k"
        except KeyInvalid:
            return False

    taken = {character for character in map(chr, range(0x180)) if is_taken(character)}
    assert taken == set(map(chr, range(0x21, 0x7F))) - {'"', ","}


def test_statuses_that_say_that_nothing_was_done_are_released():
    stored = [200, 201, 204, 302, 400, 402, 404, 405, 409, 410, 412, 415, 422, 451]
    released = [401, 403, 407, 408, 425, 429, 500, 501, 502, 503, 504]
    assert {disposition(status) for status in stored} == {Disposition.STORE}
    assert {disposition(status) for status in released} == {Disposition.RELEASE}


def test_replays_carry_neither_sessions_nor_traces():
    sent = [("Content-Type", "a/b"), ("Set-Cookie", "s=1"), ("X-Trace", "t"), ("Location", "/x"), ("X-RateLimit", "1")]
    assert kept_headers(sent) == [("content-type", "a/b"), ("location", "/x")]
    more = kept_headers(sent, ["x-trace", "set-cookie", "x-ratelimit"])
    assert more == [("content-type", "a/b"), ("x-trace", "t"), ("location", "/x")]


def test_problems_say_how_to_go_on():
    told = problem.in_flight(30)
    assert dict(told.headers())["Retry-After"] == "2", "most handlers end long before their lease"
    document = json.loads(told.body())
    assert document["type"] == "/.well-known/idempotency/problems/in-flight"
    assert (document["status"], document["retry"]) == (409, "same-key")


def test_only_a_secret_that_is_shown_whole_is_trusted():
    one, other = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
    assert is_trusted([one], one)
    assert is_trusted([one, other], one)
    assert is_trusted([one, other], other)
    for given in ("", one[:-1], one + one[-1], one.upper(), f"{one},{one}", "caf\xe9" * 8):
        assert not is_trusted([one, other], given)
    assert not is_trusted([], ""), "without a secret nobody is"


@pytest.mark.parametrize(
    ("secret", "fault"),
    [
        ("", "0 characters: at least 32"),
        ("x" * 31, "31 characters: at least 32"),
        ("x" * 32 + "\n", "no header can carry"),
        (" " + "x" * 32, "white space at an end"),
        ("\xe9" * 32, "no header can carry"),
        (b"x" * 32, "is not text"),
        (None, "is not text"),
    ],
)
def test_a_secret_that_can_be_guessed_or_not_be_sent_is_refused(secret, fault):
    told = secret_fault(secret)
    assert fault in told
    assert "xxx" not in told
    assert secret_fault("x" * 32) is None


def test_the_package_has_the_migrations_of_the_store_byte_for_byte():
    originals = sorted((REPOSITORY / "crates/store/src/postgres/migrations").glob("*.sql"))
    assert [(f"{m.number:03}_{m.name}.sql", m.text.encode()) for m in migrations()] == [
        (file.name, file.read_bytes()) for file in originals
    ]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"methods": "PUT"}, "methods is 'PUT': a list or tuple is needed, such as \\['PUT'\\]"),
        ({"methods": ["POTS"]}, "methods has 'POTS': POST, PUT, PATCH, DELETE are allowed"),
        ({"methods": ["GET"]}, "methods has 'GET'"),
        ({"methods": [1]}, "methods has 1, which is not text"),
        ({"ignore": "/sent_at"}, "ignore is '/sent_at'"),
        ({"ignore": ["sent_at"]}, "ignore has 'sent_at', which does not start"),
        ({"ignore": ["/a~2"]}, "bare"),
        ({"ignore": ["/a~"]}, "bare"),
        ({"ignore": [""]}, "the whole document"),
        ({"ignore": ["/" + "é" * 512]}, "more than 1024 bytes"),
        ({"ignore": None}, "ignore is None"),
        ({"replay_headers": "X-Trace"}, "replay_headers is 'X-Trace'"),
    ],
)
def test_an_option_that_would_guard_less_than_it_seems_to_is_refused(options, text):
    with pytest.raises(OptionInvalid, match=text):
        chosen_options(Options(), options)


def test_options_are_kept_as_they_were_meant():
    chosen = chosen_options(
        Options(), {"methods": ["put", "DELETE"], "ignore": ["/a~0b/~1", "/0"], "replay_headers": {"X-Trace"}}
    )
    assert (chosen.methods, chosen.ignore) == (("PUT", "DELETE"), ("/a~0b/~1", "/0"))
    assert chosen.replay_headers == ("X-Trace",)
