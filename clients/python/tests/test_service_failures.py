"""What must hold of a FastAPI service when workers die, stall, and everybody repeats: payments = keys, and nobody hears
a false success."""

import contextlib
import http.client
import json
import threading
import time

import pytest

from servers.process import eventually

LEASE = 1
"""Short, so that a dead worker is taken over from soon; a test waits for that."""

STEPS = ["before claim", "after claim", "before insert", "after insert", "before complete", "after complete",
         "after commit"]  # fmt: skip
SECRET = "0123456789abcdef0123456789abcdef"
ENTERED_STEPS = ["before enter", "after enter", "before insert", "after insert", "after complete", "after commit"]


def serve(service, workers=4, **settings):
    return service.serve(workers=workers, ONCEGATE=json.dumps({"lease": LEASE, **settings}))


def assert_paid_once(service, answers):
    """`answers` has the success that each key's client was told."""
    assert service.payments() == dict.fromkeys(answers, 1)
    made = dict(service.query("SELECT key, id FROM project_payment"))
    assert {key: answer.json["id"] for key, answer in answers.items()} == made, "nobody hears a false success"


@pytest.mark.parametrize("path", ["/commits", "/plain", "/entered"])
def test_in_a_storm_every_key_is_one_payment(service, storm_size, path):
    count, repeats = storm_size
    client = serve(service)
    keys = [f"key-{number}" for number in range(count)]

    came = client.storm(path, keys, repeats)
    statuses = {answer.status for answers in came.values() for answer in answers}
    assert statuses <= {201, 409}
    bodies = {key: {answer.body for answer in answers if answer.status == 201} for key, answers in came.items()}
    assert {key: len(found) for key, found in bodies.items()} == dict.fromkeys(keys, 1), "one answer for each key"
    refused = [answer for answers in came.values() for answer in answers if answer.status == 409]
    assert all(answer.problem == "in-flight" and answer.headers["retry-after"] in ("1", "2") for answer in refused)
    firsts = [
        answer for answers in came.values() for answer in answers if answer.status == 201 and not answer.is_replay
    ]
    assert len(firsts) == count
    print(f"{path}: {count} keys x {repeats}, {len(refused)} times 409")
    assert_paid_once(service, {key: client.post(path, key) for key in keys})


@pytest.mark.parametrize(("path", "steps"), [("/commits", STEPS), ("/entered", ENTERED_STEPS)], ids=["claim", "enter"])
def test_a_worker_that_is_killed_at_any_step_costs_no_payment_and_no_key(service, kills, path, steps):
    client = serve(service, workers=3)
    answers, over = {}, threading.Event()

    def load(number):
        """Others pay meanwhile; a kill takes their requests with it, too."""
        count = 0
        while not over.is_set():
            key = f"load-{number}-{count}"
            answers[key] = client.post_until_decided(path, key)
            count += 1

    loads = [threading.Thread(target=load, args=(number,)) for number in range(2)]
    for thread in loads:
        thread.start()
    try:
        for step in steps * kills:
            key = f"{step}-{len(answers)}".replace(" ", "-")
            with pytest.raises((OSError, http.client.HTTPException)):
                client.post(path, key, X_Crash=step)
            begun = time.monotonic()
            answers[key] = client.post_until_decided(path, key)
            print(f"{step}: answered after {time.monotonic() - begun:.1f} s")
    finally:
        over.set()
        for thread in loads:
            thread.join()
    assert_paid_once(service, answers)
    assert service.query("SELECT count(*) FROM oncegate.records WHERE state <> 'completed'") == [(0,)]
    print(f"{len(answers)} keys, {len(steps) * kills} kills")


@pytest.mark.parametrize("path", ["/commits", "/background"])
def test_a_worker_that_outlives_its_lease_pays_nothing_and_says_what_the_record_says(service, path):
    client = serve(service, workers=1, lease=0.5)
    payment = {"amount": 5, "stall": 2}
    zombie = []
    worker = threading.Thread(target=lambda: zombie.append(client.post(path, "key", payment)))
    worker.start()
    eventually(lambda: service.query("SELECT 1 FROM oncegate.abandoned"))
    taken_over = client.post_until_decided(path, "key", payment=payment)
    worker.join()

    assert taken_over.json["attempt"] == 2
    assert (zombie[0].status, zombie[0].is_replay, zombie[0].body) == (201, True, taken_over.body)
    assert_paid_once(service, {"key": taken_over})
    if path == "/background":
        # The zombie's task would have been noted before this one's.
        assert client.post("/background", "another").status == 201
        eventually(lambda: service.query("SELECT 1 FROM note WHERE key = 'another'"))
        assert service.query("SELECT count(*) FROM note WHERE key = 'key'") == [(1,)], "only of what was committed"


def test_a_stop_of_the_server_gives_back_what_it_interrupts(service):
    client = serve(service, workers=1, lease=60)
    interrupted = threading.Thread(target=ignored, args=(client, "key", {"stall": 30}))
    interrupted.start()
    state = "SELECT state FROM oncegate.records"
    eventually(lambda: service.query(state) == [("in_flight",)])
    service.servers[-1].terminate()
    eventually(lambda: service.query(state) == [])
    interrupted.join()
    assert service.payments() == {}


def ignored(client, key, payment):
    with contextlib.suppress(OSError, http.client.HTTPException):
        client.post("/inside", key, payment)


def test_a_role_with_no_right_but_that_of_applications_is_enough(service):
    service.query(
        "DO $$BEGIN CREATE ROLE clerk LOGIN PASSWORD 'clerk'; EXCEPTION WHEN duplicate_object THEN NULL; END$$"
    )
    service.query("GRANT oncegate_app TO clerk")
    service.query("GRANT SELECT, INSERT ON project_payment TO clerk")
    client = service.serve(DATABASE_USER="clerk", DATABASE_PASSWORD="clerk")
    for path in ("/inside", "/entered"):
        answers = [client.post(path, path, payment) for payment in ({"amount": 5}, {"amount": 5}, {"amount": 6})]
        assert [(answer.status, answer.is_replay) for answer in answers] == [(201, False), (201, True), (422, False)]
        assert answers[2].json["state"] == "completed"
        assert client.post(path, "fails", {"fail": "bug"}).status == 500
    assert service.query("SELECT count(*) FROM oncegate.records WHERE key = 'fails'") == [(0,)]


def test_an_engine_that_commits_each_statement_is_refused(service):
    client = service.serve(EXECUTION_OPTIONS=json.dumps({"isolation_level": "AUTOCOMMIT"}))
    for path in ("/inside", "/entered", "/unguarded"):
        assert client.post(path, "key").status == 500
    assert service.payments() == {}
    eventually(lambda: "the engine is in AUTOCOMMIT" in service.log())


def test_without_its_schema_nothing_is_executed(service):
    client = service.serve()
    service.query("ALTER SCHEMA oncegate RENAME TO elsewhere")
    assert client.post("/inside", "key").status == 500
    assert service.payments() == {}


def test_without_its_database_a_request_with_a_key_is_503_and_not_executed(postgres, service):
    client = service.serve()
    client.post("/inside", "first")
    with postgres.connect() as connection:
        connection.execute(f"ALTER DATABASE {service.database} ALLOW_CONNECTIONS false")
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [service.database]
        )
        for path in ("/plain", "/entered"):
            answer = client.post(path, "second")
            assert (answer.status, answer.problem, answer.headers["retry-after"]) == (503, "store-unavailable", "1")
        connection.execute(f"ALTER DATABASE {service.database} ALLOW_CONNECTIONS true")
    assert client.post("/plain", "second").status == 201


def test_a_claim_whose_connection_was_lost_is_asked_again(postgres, service):
    client = service.serve()
    assert client.post("/inside", "first").status == 201
    with postgres.connect() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [service.database]
        )
    assert client.post("/inside", "second").status == 201


def test_a_trusted_gateway_has_claimed_and_the_endpoint_only_completes(service):
    client = service.serve(ONCEGATE=json.dumps({"trust_gateway": SECRET}))

    def claimed(key):
        row = service.query("SELECT record::text, fence FROM oncegate.claim('x-org=4:acme', %s, '\\x01')", key)[0]
        return {"Oncegate_Record": row[0], "Oncegate_Fence": str(row[1])}

    lease = claimed("paid")
    for _ in range(2):
        answer = client.post("/commits", "paid", Oncegate_Secret=SECRET, **lease)
    assert (answer.status, answer.problem) == (409, "in-flight"), "delivered twice, the second pays nothing"
    state = "SELECT state, status FROM oncegate.records WHERE key = %s"
    assert service.query(state, "paid") == [("completed", 201)], "the gateway's record, and none of our own"

    refused = client.post("/commits", "refused", {"fail": "validation"}, Oncegate_Secret=SECRET, **claimed("refused"))
    assert (refused.status, service.query(state, "refused")) == (400, [("completed", 400)])
    failed = client.post("/commits", "failed", {"fail": "bug"}, Oncegate_Secret=SECRET, **claimed("failed"))
    assert (failed.status, service.query(state, "failed")) == (500, [("in_flight", None)]), "the gateway decides"

    stranger = client.post("/commits", "paid", Oncegate_Secret="guessed", **lease)
    assert (stranger.status, stranger.is_replay) == (201, False), "without the secret we claim in a scope of our own"
    assert service.payments() == {"paid": 2}
    scopes = service.query("SELECT scope FROM oncegate.records WHERE key = 'paid' ORDER BY scope")
    assert scopes == [("python",), ("x-org=4:acme",)]
