"""Behind a gateway that has claimed. What it sends is made by hand here; crates/gateway/tests has a real one."""

import http.client
import json

import pytest

from servers.process import eventually

SECRETS = ["0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"]
TRUSTING = json.dumps({"trust_gateway": SECRETS[0]})

STEPS = ["before insert", "after insert", "before complete", "after complete", "after commit"]


def claim(project, key, lease):
    """The outcome of a gateway's claim, and what it sends then."""
    statement = """
        SELECT outcome, record::text, fence, attempt
        FROM oncegate.claim('x-org=4:acme', %s, '\\x01', lease => %s::interval)
    """
    ((outcome, record, fence, attempt),) = project.query(statement, key, lease)
    names = {"Oncegate_Record": record, "Oncegate_Fence": str(fence), "Oncegate_Attempt": str(attempt)}
    return outcome, {**names, "Oncegate_Secret": SECRETS[0]}


def claimed(project, key, lease="1 min"):
    """What a gateway sends whose claim was the first."""
    outcome, names = claim(project, key, lease)
    assert outcome == "acquired"
    return names


@pytest.mark.parametrize("atomic", ["0", "1"])
def test_a_trusted_gateway_has_claimed_and_the_view_only_completes(project, atomic):
    client = project.serve(ATOMIC_REQUESTS=atomic, ONCEGATE=TRUSTING)
    lease = claimed(project, "paid")
    for _ in range(2):
        answer = client.post("/method", "paid", **lease)
    assert (answer.status, answer.problem) == (409, "in-flight"), "delivered twice, the second pays nothing"
    state = "SELECT state, status FROM oncegate.records WHERE key = %s"
    assert project.query(state, "paid") == [("completed", 201)], "the gateway's record, and none of our own"

    refused = client.post("/method", "refused", {"fail": "validation"}, **claimed(project, "refused"))
    assert (refused.status, project.query(state, "refused")) == (400, [("completed", 400)])
    failed = client.post("/method", "failed", {"fail": "bug"}, **claimed(project, "failed"))
    assert (failed.status, project.query(state, "failed")) == (500, [("in_flight", None)]), "the gateway decides"

    stranger = client.post("/method", "paid", **{**lease, "Oncegate_Secret": "guessed"})
    assert (stranger.status, stranger.is_replay) == (201, False), "without the secret we claim in a scope of our own"
    assert project.payments() == {"paid": 2}
    scopes = project.query("SELECT scope FROM oncegate.records WHERE key = 'paid' ORDER BY scope")
    assert scopes == [("python",), ("x-org=4:acme",)]


@pytest.mark.parametrize("middleware", ["0", "1"])
def test_a_trusted_gateway_judges_key_and_method_and_its_secret_may_change(project, middleware):
    trusting = json.dumps({"trust_gateway": SECRETS, "methods": ["PATCH"], "required": True})
    client = project.serve(MIDDLEWARE=middleware, ONCEGATE=trusting)
    path = "/plain-unguarded" if middleware == "1" else "/plain"
    for number, secret in enumerate(SECRETS):
        # The key was in the body of a POST, say.
        named = {**claimed(project, f"key-{number}"), "Oncegate_Secret": secret}
        assert client.post(path, **named).status == 201
        state = project.query("SELECT state, scope FROM oncegate.records WHERE key = %s", f"key-{number}")
        assert state == [("completed", "x-org=4:acme")]
    named = claimed(project, "broken")
    for broken in ({"Oncegate_Fence": "x"}, {"Oncegate_Record": "x"}, {"Oncegate_Fence": None}):
        named = {**named, **broken}
        assert client.post(path, method="PATCH", **named).problem == "key-missing", "it is no claim that we know"


def test_a_worker_that_is_killed_under_the_claim_of_a_gateway_costs_no_payment_and_no_key(project, kills):
    client = project.serve(workers=4, ONCEGATE=TRUSTING)
    keys = [f"{step}-{number}".replace(" ", "-") for number in range(kills) for step in STEPS]
    for key, step in zip(keys, STEPS * kills, strict=True):
        with pytest.raises((OSError, http.client.HTTPException)):
            client.post("/method", key, X_Crash=step, **claimed(project, key, "500 ms"))

        def ended(key=key):
            outcome, names = claim(project, key, "1 min")
            return (outcome, names) if outcome != "in_flight" else None

        outcome, names = eventually(ended)
        # What completes also commits.
        assert outcome == ("completed" if step in ("after complete", "after commit") else "acquired"), step
        if outcome == "acquired":
            answer = client.post("/method", key, **names)
            assert (answer.status, answer.json["attempt"]) == (201, 2)
    assert project.payments() == dict.fromkeys(keys, 1)
    assert project.query("SELECT count(*) FROM oncegate.records WHERE state <> 'completed'") == [(0,)]
