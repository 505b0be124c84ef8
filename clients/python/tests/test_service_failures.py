"""What else must hold of a FastAPI service when something fails; test_failures.py has what holds of all of them."""

import contextlib
import http.client
import json
import threading

from servers.process import eventually

SECRET = "0123456789abcdef0123456789abcdef"


def test_a_task_in_the_background_runs_only_of_what_was_committed(service):
    client = service.serve(ONCEGATE=json.dumps({"lease": 0.5}))
    client.outlived(service, "/background", "key")
    # One process serves: the zombie's task would have been noted before this one's.
    assert client.post("/background", "another").status == 201
    notes = "SELECT count(*) FROM note WHERE key = %s"
    eventually(lambda: service.query(notes, "another") == [(1,)])
    assert service.query(notes, "key") == [(1,)]


def test_a_stop_of_the_server_gives_back_what_it_interrupts(service):
    client = service.serve(ONCEGATE=json.dumps({"lease": 60}))
    interrupted = threading.Thread(target=ignored, args=(client, "key", {"stall": __file__}))
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


def test_an_engine_that_commits_each_statement_is_refused(service):
    client = service.serve(EXECUTION_OPTIONS=json.dumps({"isolation_level": "AUTOCOMMIT"}))
    for path in ("/inside", "/entered", "/unguarded"):
        assert client.post(path, "key").status == 500
    assert service.payments() == {}
    eventually(lambda: "the engine is in AUTOCOMMIT" in service.log())


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


def test_a_standby_is_not_asked_again_and_the_log_has_no_keys(service):
    client = service.serve()
    readonly = f"ALTER DATABASE {service.database} SET default_transaction_read_only = {{}}"
    service.query(readonly.format("on"))
    for path in ("/inside", "/entered"):
        answer = client.post(path, "secret-key")
        assert (answer.status, answer.problem) == (503, "store-unavailable"), answer.body
    eventually(lambda: "on the primary server" in service.log())
    assert "secret-key" not in service.log()
    with service.postgres.connect() as connection:
        connection.execute(readonly.format("off"))
    # Those that were made meanwhile would refuse until they are recycled.
    assert [client.post(path, f"{path}-key").status for path in ("/inside", "/entered")] == [201, 201]
