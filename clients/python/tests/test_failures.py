"""What must hold when workers die, stall, and everybody repeats: payments = keys, and nobody hears a false success."""

import http.client
import json
import threading
import time

import pytest

from servers.process import eventually

LEASE = 1
"""Short, so that a dead worker is taken over from soon; a test waits for that."""

SERVED = {
    "decorator": ("/inside", {}),
    "atomic requests": ("/method", {"ATOMIC_REQUESTS": "1"}),
    "middleware": ("/unguarded", {"MIDDLEWARE": "1"}),
    "atomic middleware": ("/plain-unguarded", {"MIDDLEWARE": "1", "ATOMIC_REQUESTS": "1"}),
    "entered": ("/entered", {}),
}

STEPS = ["before claim", "after claim", "before insert", "after insert", "before complete", "after complete",
         "after commit"]  # fmt: skip
ENTERED_STEPS = ["before enter", "after enter", "before insert", "after insert", "after complete", "after commit"]


def serve(project, form, **settings):
    path, variables = SERVED[form]
    return path, project.serve(workers=4, ONCEGATE=json.dumps({"lease": LEASE, **settings}), **variables)


def assert_paid_once(project, answers):
    """`answers` has the success that each key's client was told."""
    assert project.payments() == dict.fromkeys(answers, 1)
    made = dict(project.query("SELECT key, id FROM project_payment"))
    assert {key: answer.json["id"] for key, answer in answers.items()} == made, "nobody hears a false success"


@pytest.mark.parametrize("form", SERVED)
def test_in_a_storm_every_key_is_one_payment(project, storm_size, form):
    count, repeats = storm_size
    path, client = serve(project, form)
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
    assert_paid_once(project, {key: client.post(path, key) for key in keys})


@pytest.mark.parametrize(
    ("form", "steps"),
    [("decorator", STEPS), ("atomic requests", STEPS), ("entered", ENTERED_STEPS)],
    ids=["decorator", "atomic requests", "entered"],
)
def test_a_worker_that_is_killed_at_any_step_costs_no_payment_and_no_key(project, kills, form, steps):
    path, client = serve(project, form)
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
            print(f"{step}: answered after {time.monotonic() - begun:.1f} s, attempt {answers[key].json['attempt']}")
    finally:
        over.set()
        for thread in loads:
            thread.join()
    assert_paid_once(project, answers)
    assert project.query("SELECT count(*) FROM oncegate.records WHERE state <> 'completed'") == [(0,)]
    print(f"{len(answers)} keys, {len(steps) * kills} kills")


@pytest.mark.parametrize("form", ["decorator", "atomic requests"])
def test_a_worker_that_outlives_its_lease_pays_nothing_and_says_what_the_record_says(project, form):
    path, client = serve(project, form, lease=0.5)
    payment = {"amount": 5, "stall": 2}
    zombie = []
    worker = threading.Thread(target=lambda: zombie.append(client.post(path, "key", payment)))
    worker.start()
    eventually(lambda: project.query("SELECT 1 FROM oncegate.abandoned"))
    taken_over = client.post_until_decided(path, "key", payment=payment)
    worker.join()

    assert taken_over.json["attempt"] == 2
    assert (zombie[0].status, zombie[0].is_replay, zombie[0].body) == (201, True, taken_over.body)
    assert_paid_once(project, {"key": taken_over})


def test_a_role_with_no_right_but_that_of_applications_is_enough(project):
    project.query(
        "DO $$BEGIN CREATE ROLE clerk LOGIN PASSWORD 'clerk'; EXCEPTION WHEN duplicate_object THEN NULL; END$$"
    )
    project.query("GRANT oncegate_app TO clerk")
    project.query("GRANT SELECT, INSERT ON project_payment TO clerk")
    project.query("GRANT USAGE ON SEQUENCE project_payment_id_seq TO clerk")
    client = project.serve(DATABASE_USER="clerk", DATABASE_PASSWORD="clerk")
    for path in ("/inside", "/entered"):
        answers = [client.post(path, path, payment) for payment in ({"amount": 5}, {"amount": 5}, {"amount": 6})]
        assert [(answer.status, answer.is_replay) for answer in answers] == [(201, False), (201, True), (422, False)]
        assert answers[2].json["state"] == "completed"
        assert client.post(path, "fails", {"fail": "bug"}).status == 500
    assert project.query("SELECT count(*) FROM oncegate.records WHERE key = 'fails'") == [(0,)]


def test_without_its_schema_nothing_is_executed(project):
    client = project.serve()
    project.query("ALTER SCHEMA oncegate RENAME TO elsewhere")
    assert client.post("/inside", "key").status == 500
    assert project.payments() == {}


def test_without_its_database_a_request_with_a_key_is_503_and_not_executed(postgres, project):
    client = project.serve()
    client.post("/inside", "first")
    with postgres.connect() as connection:
        connection.execute(f"ALTER DATABASE {project.database} ALLOW_CONNECTIONS false")
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [project.database]
        )
        for path in ("/plain", "/entered"):
            answer = client.post(path, "second")
            assert (answer.status, answer.problem, answer.headers["retry-after"]) == (503, "store-unavailable", "1")
        connection.execute(f"ALTER DATABASE {project.database} ALLOW_CONNECTIONS true")
    assert client.post("/plain", "second").status == 201
