"""What must hold when workers die, stall, and everybody repeats: payments = keys, and nobody hears a false success."""

import http.client
import json
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from client import Client
from servers.database import Database
from servers.project import Project
from servers.service import Service

LEASE = 1
"""Short, so that a dead worker is taken over from soon; a test waits for that."""

FORMS = {
    "decorator": (Project, "/inside", {}),
    "atomic requests": (Project, "/method", {"ATOMIC_REQUESTS": "1"}),
    "middleware": (Project, "/unguarded", {"MIDDLEWARE": "1"}),
    "atomic middleware": (Project, "/plain-unguarded", {"MIDDLEWARE": "1", "ATOMIC_REQUESTS": "1"}),
    "entered": (Project, "/entered", {}),
    "endpoint": (Service, "/commits", {}),
    "plain endpoint": (Service, "/plain", {}),
    "entered endpoint": (Service, "/entered", {}),
}

STEPS = ["before claim", "after claim", "before insert", "after insert", "before complete", "after complete",
         "after commit"]  # fmt: skip
ENTERED_STEPS = ["before enter", "after enter", "before insert", "after insert", "after complete", "after commit"]


@dataclass(frozen=True)
class Served:
    """A form of guard in an application that 4 workers serve."""

    application: Database
    path: str
    client: Client

    def assert_paid_once(self, answers):
        """`answers` has the success that each key's client was told."""
        paid = self.application.payments()
        assert {key: paid.get(key) for key in answers} == dict.fromkeys(answers, 1)
        made = dict(self.application.query("SELECT key, id FROM project_payment"))
        told = {key: answer.json["id"] for key, answer in answers.items()}
        assert told == {key: made[key] for key in answers}, "nobody hears a false success"


def forms(*names):
    """One process has all tests of a form, so that it is served once."""
    return pytest.mark.parametrize(
        "form", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in names], ids=names
    )


@pytest.fixture(scope="module")
def serve(postgres, migrated, prepared):
    """Serves a form, which goes on until the last test."""
    templates, served = {Project: migrated, Service: prepared}, {}
    with ExitStack() as until_the_end:

        def serve(form):
            if form not in served:
                framework, path, variables = FORMS[form]
                application = until_the_end.enter_context(framework(postgres, templates[framework]))
                client = application.serve(workers=4, ONCEGATE=json.dumps({"lease": LEASE}), **variables)
                served[form] = Served(application, path, client)
            return served[form]

        yield serve


@forms(*FORMS)
def test_in_a_storm_every_key_is_one_payment(serve, storm_size, form):
    served, (count, repeats) = serve(form), storm_size
    keys = [f"key-{number}" for number in range(count)]

    came = served.client.storm(served.path, keys, repeats)
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
    served.assert_paid_once({key: served.client.post(served.path, key) for key in keys})
    assert served.application.payments().keys() == set(keys)
    print(f"{form}: {count} keys x {repeats}, {len(refused)} times 409")


@forms("decorator", "atomic requests", "entered", "endpoint", "entered endpoint")
def test_a_worker_that_is_killed_at_any_step_costs_no_payment_and_no_key(serve, kills, form):
    served, steps = serve(form), ENTERED_STEPS if "entered" in form else STEPS
    client, path = served.client, served.path
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
    served.assert_paid_once(answers)
    assert served.application.query("SELECT count(*) FROM oncegate.records WHERE state <> 'completed'") == [(0,)]
    print(f"{len(answers)} keys, {len(steps) * kills} kills")


@forms("decorator", "atomic requests", "endpoint")
def test_a_worker_that_outlives_its_lease_pays_nothing_and_says_what_the_record_says(serve, form):
    served = serve(form)
    taken_over = served.client.outlived(served.application, served.path, "outlived")
    served.assert_paid_once({"outlived": taken_over})


@pytest.mark.parametrize("framework", ["project", "service"])
def test_a_role_with_no_right_but_that_of_applications_is_enough(request, framework):
    application = request.getfixturevalue(framework)
    application.query(
        "DO $$BEGIN CREATE ROLE clerk LOGIN PASSWORD 'clerk'; EXCEPTION WHEN duplicate_object THEN NULL; END$$"
    )
    application.query("GRANT oncegate_app TO clerk")
    application.query("GRANT SELECT, INSERT ON project_payment TO clerk")
    application.query("GRANT USAGE ON SEQUENCE project_payment_id_seq TO clerk")
    client = application.serve(DATABASE_USER="clerk", DATABASE_PASSWORD="clerk")
    for path in ("/inside", "/entered"):
        answers = [client.post(path, path, payment) for payment in ({"amount": 5}, {"amount": 5}, {"amount": 6})]
        assert [(answer.status, answer.is_replay) for answer in answers] == [(201, False), (201, True), (422, False)]
        assert answers[2].json["state"] == "completed"
        assert client.post(path, "fails", {"fail": "bug"}).status == 500
    assert application.query("SELECT count(*) FROM oncegate.records WHERE key = 'fails'") == [(0,)]


@forms("decorator", "endpoint")
def test_without_its_schema_nothing_is_executed(serve, form):
    served = serve(form)
    served.application.query("ALTER SCHEMA oncegate RENAME TO elsewhere")
    try:
        assert served.client.post("/inside", "no-schema").status == 500
    finally:
        served.application.query("ALTER SCHEMA elsewhere RENAME TO oncegate")
    assert "no-schema" not in served.application.payments()


@forms("decorator", "endpoint")
def test_without_its_database_a_request_with_a_key_is_503_and_not_executed(postgres, serve, form):
    served = serve(form)
    client, database = served.client, served.application.database
    assert client.post("/inside", "before").status == 201
    with postgres.connect() as connection:
        connection.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS false")
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [database])
        for path in ("/plain", "/entered"):
            answer = client.post(path, "meanwhile")
            assert (answer.status, answer.problem, answer.headers["retry-after"]) == (503, "store-unavailable", "1")
        connection.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS true")
    assert client.post("/plain", "meanwhile").status == 201
