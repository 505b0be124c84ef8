"""What clients hear of endpoints of FastAPI and Starlette, under Uvicorn and PostgreSQL."""

import http.client
import json

import pytest

from servers.process import eventually
from servers.service import Service

FORMS = ["inside", "entered", "commits", "begins", "core", "plain", "plain-class"]


@pytest.fixture(scope="module")
def shop(postgres, prepared):
    with Service(postgres, prepared) as service:
        # One connection for everything: whoever held one while asking for another would wait for ever.
        service.client = service.serve(POOL_SIZE="1")
        yield service


@pytest.fixture
def client(shop):
    return shop.client


@pytest.fixture
def key(request):
    return request.node.name.replace("[", ":").replace("]", "").replace(" ", "")[-200:]


def payments(shop, key):
    return shop.payments().get(key, 0)


@pytest.mark.parametrize("form", FORMS)
def test_a_repeat_gets_the_first_answer_from_every_form_of_endpoint(shop, client, form, key):
    first = client.post(f"/{form}", key)
    assert first.status == 201, first.body
    assert "internal" not in first.json, "FastAPI has made the answer of what the endpoint returned"
    assert "idempotency-expires" in first.headers
    assert not first.is_replay

    for spelling in (key, f'"{key}"', f" {key} "):
        repeat = client.post(f"/{form}", spelling)
        assert (repeat.status, repeat.body, repeat.is_replay) == (201, first.body, True)
        assert repeat.headers["content-type"] == "application/json"
        assert repeat.headers.get("location") == first.headers.get("location") == "/payments/1"
        assert "x-trace" not in repeat.headers
        assert {"idempotency-completed", "idempotency-expires"} <= repeat.headers.keys()
    stored = shop.query("SELECT key FROM project_payment WHERE key LIKE %s", f"%{key}%")
    assert len(stored) == 1, "quoted and bare are one key"


def test_another_request_with_the_key_is_422_and_names_the_first(client, key):
    client.post("/inside", key, {"amount": 5})
    for path, payment in [("/inside", {"amount": 6}), ("/commits", {"amount": 5}), ("/inside?a=1", {"amount": 5})]:
        answer = client.post(path, key, payment)
        assert (answer.status, answer.problem) == (422, "mismatch")
        assert answer.json["first_request"] == "POST /inside"
        assert answer.json["state"] == "completed"
        assert key not in answer.body.decode()


def test_what_means_the_same_is_the_same_request(client, key):
    first = client.post("/inside", key, b'{"amount": 5, "fail": "nothing"}')
    repeat = client.post("/inside", key, b'{"fail":"\\u006eothing","amount":5}')
    assert (repeat.is_replay, repeat.body) == (True, first.body)


def test_a_form_is_compared_by_its_parts_and_not_by_their_boundary(client, key):
    def sent(boundary, text):
        parts = [("amount", "", "5"), ("file", '; filename="a.txt"', text)]
        lines = "".join(
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n{value}\r\n'
            for name, more, value in parts
        )
        body = f"{lines}--{boundary}--\r\n".encode()
        return client.post("/form", key, body, Content_Type=f"multipart/form-data; boundary={boundary}")

    first, repeat, other = sent("first", "text"), sent("second", "text"), sent("first", "changed")
    assert (first.status, first.json["read"]) == (201, "text")
    assert (repeat.is_replay, repeat.body) == (True, first.body)
    assert other.problem == "mismatch"


def test_one_tenant_never_hears_the_answer_to_another(shop, client, key):
    answers = {name: client.post("/inside", key, Authorization=f"Bearer {name}") for name in ("a", "b")}
    assert [answer.status for answer in answers.values()] == [201, 201]
    assert answers["a"].body != answers["b"].body
    for name, first in answers.items():
        repeat = client.post("/inside", key, Authorization=f"Bearer {name}")
        assert (repeat.is_replay, repeat.body) == (True, first.body)
    assert client.post("/inside", key).json["id"] not in [answer.json["id"] for answer in answers.values()]
    scopes = {
        scope.partition("#")[0] for (scope,) in shop.query("SELECT scope FROM oncegate.records WHERE key = %s", key)
    }
    assert scopes == {"python;authorization", "python"}


def test_an_endpoint_may_say_itself_who_calls(client, key):
    bodies = [client.post("/tenants", key, X_Org=org, Authorization=token).body for org, token in
              [("a", "1"), ("a", "2"), ("b", "1")]]  # fmt: skip
    assert bodies[0] == bodies[1] != bodies[2]


@pytest.mark.parametrize("form", ["known", "entered"])
def test_who_is_not_authenticated_any_more_hears_nothing_of_the_record(shop, client, form, key):
    token = key[:100]
    shop.query("INSERT INTO caller VALUES (%s, true)", token)
    assert client.post(f"/{form}", key, Authorization=token).status == 201
    assert client.post(f"/{form}", key, Authorization=token).is_replay
    seen = "SELECT seen FROM caller WHERE token = %s"
    assert shop.query(seen, token) == [(2,)], "what a dependency writes commits before the claim"
    shop.query("UPDATE caller SET is_active = false WHERE token = %s", token)
    refused = client.post(f"/{form}", key, Authorization=token)
    assert refused.status == 401
    assert "idempotent-replayed" not in refused.headers


@pytest.mark.parametrize("value", ["", '""', "k" * 256, "a b", '"x";p=1'])
def test_what_is_no_key_is_400(shop, client, value):
    answer = client.post("/inside", value)
    assert (answer.status, answer.problem, answer.json["retry"]) == (400, "key-invalid", "new-key")
    assert payments(shop, value) == 0


def test_several_keys_are_400_in_one_line_or_in_two(client):
    assert client.post("/inside", "k1, k2").problem == "key-repeated"
    connection = http.client.HTTPConnection(client.address, timeout=60)
    connection.putrequest("POST", "/inside")
    for name, value in [("Idempotency-Key", "k"), ("Idempotency-Key", "k"), ("Content-Length", "2"),
                        ("Content-Type", "application/json")]:  # fmt: skip
        connection.putheader(name, value)
    connection.endheaders(b"{}")
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Oncegate-Problem"]) == (400, "key-repeated")
    connection.close()


def test_a_key_is_required_only_where_the_endpoint_says_so(client):
    assert client.post("/inside").status == 201
    assert client.post("/strict").problem == "key-missing"
    assert client.post("/strict", "anonymous").problem == "scope-missing"


def test_what_is_not_guarded_is_left_alone(shop, client, key):
    assert [client.post("/inside", key, method="GET").is_replay for _ in range(2)] == [False, False]
    assert [client.post("/unguarded", key).status for _ in range(2)] == [201, 201]
    assert payments(shop, key) == 2, "its session commits all the same"
    assert client.post("/unguarded", key, {"fail": "validation"}).status == 400
    assert payments(shop, key) == 2


def test_options_of_an_endpoint_are_kept(client, key):
    first = client.post("/strict", key, {"amount": 1, "sent_at": 1}, Authorization="Bearer a")
    repeat = client.post("/strict", key, {"amount": 1, "sent_at": 2}, Authorization="Bearer a")
    assert (repeat.status, repeat.body, repeat.headers["x-trace"]) == (201, first.body, "first")


@pytest.mark.parametrize(("how", "status"), [("validation", 400), ("handled", 409)])
@pytest.mark.parametrize("form", ["inside", "commits", "begins", "plain"])
def test_a_refusal_that_is_raised_leaves_no_payment_and_is_replayed(shop, client, form, how, status, key):
    answers = [client.post(f"/{form}", key, {"fail": how}) for _ in range(2)]
    assert [(answer.status, answer.is_replay) for answer in answers] == [(status, False), (status, True)]
    assert answers[0].body == answers[1].body
    assert payments(shop, key) == 0


def test_what_does_not_validate_is_refused_before_there_is_a_claim(shop, client, key):
    answers = [client.post("/inside", key, {"amount": "much"}) for _ in range(2)]
    assert [(answer.status, answer.is_replay) for answer in answers] == [(422, False)] * 2
    assert client.post("/inside", key).status == 201, "FastAPI has refused it, and no record was made"


@pytest.mark.parametrize(("how", "status"), [("bug", 500), ("unavailable", 503), ("commits", 500)])
@pytest.mark.parametrize("form", ["inside", "commits", "entered", "plain"])
def test_a_failure_leaves_no_payment_and_a_repeat_executes(shop, client, form, how, status, key):
    answers = [client.post(f"/{form}", key, {"fail": how}) for _ in range(2)]
    assert [(answer.status, answer.is_replay, answer.problem) for answer in answers] == [(status, False, None)] * 2
    assert payments(shop, key) == 0
    assert shop.query("SELECT count(*) FROM oncegate.records WHERE key = %s", key) == [(0,)]


@pytest.mark.parametrize(("status", "is_kept"), [(201, 1), (402, 1), (409, 1), (429, 0), (500, 0), (503, 0)])
def test_what_a_returned_answer_says_decides_about_its_payment(shop, client, status, is_kept, key):
    answers = [client.post("/returns", key, {"status": status}) for _ in range(2)]
    assert [answer.status for answer in answers] == [status, status]
    assert answers[1].is_replay == bool(is_kept)
    assert payments(shop, key) == is_kept


@pytest.mark.parametrize(("status", "is_replayed"), [(402, True), (404, True), (409, True), (429, False), (500, False)])
def test_what_is_raised_is_never_a_payment(shop, client, status, is_replayed, key):
    answers = [client.post("/raises", key, {"status": status}) for _ in range(2)]
    assert [(answer.status, answer.is_replay) for answer in answers] == [(status, False), (status, is_replayed)]
    assert payments(shop, key) == 0


@pytest.mark.parametrize(("status", "is_replay"), [(409, True), (201, False)])
def test_a_database_error_that_an_endpoint_has_caught_is_no_success(shop, client, status, is_replay, key):
    answers = [client.post("/returns", key, {"fail": "aborted", "status": status}) for _ in range(2)]
    told = 409 if status == 409 else 500
    assert [(answer.status, answer.is_replay) for answer in answers] == [(told, False), (told, is_replay)]
    assert payments(shop, key) == 0


def test_half_an_effect_is_none_although_its_exception_is_answered_with_a_success(shop, client, key):
    answers = [client.post("/queues", key) for _ in range(2)]
    assert [(answer.status, answer.is_replay) for answer in answers] == [(202, False)] * 2
    assert payments(shop, key) == 0


@pytest.mark.parametrize("form", ["retried", "retried-entered"])
def test_a_retry_around_the_guard_leaves_the_effect_of_its_last_run_alone(shop, client, form, key):
    first, repeat = client.post(f"/{form}", key), client.post(f"/{form}", key)
    assert (first.status, repeat.status, repeat.is_replay, repeat.body) == (201, 201, True, first.body)
    assert payments(shop, key) == 1


def test_what_fails_behind_the_endpoint_and_before_its_answer_leaves_no_payment(shop, client, key):
    answers = [client.post("/invalid", key) for _ in range(2)]
    assert [(answer.status, answer.is_replay) for answer in answers] == [(500, False)] * 2
    assert payments(shop, key) == 0


def test_what_was_only_added_is_written_and_what_a_constraint_refuses_has_the_applications_answer(shop, client, key):
    assert client.post("/pending", key).status == 201
    assert payments(shop, key) == 1
    answers = [client.post("/pending", f"{key}-2", {"amount": 5000}) for _ in range(2)]
    assert [(answer.status, answer.is_replay) for answer in answers] == [(409, False), (409, True)]


def test_an_endpoint_may_undo_what_it_did_and_go_on(shop, client, key):
    answers = [client.post("/rolls-back", key) for _ in range(2)]
    assert [(answer.status, answer.is_replay) for answer in answers] == [(201, False), (201, True)]
    assert shop.query("SELECT amount FROM project_payment WHERE key = %s", key) == [(7,)]


def test_a_success_whose_transaction_was_undone_is_not_replayed(shop, client, key):
    answers = [client.post("/undoes", key) for _ in range(2)]
    assert [(answer.status, answer.is_replay) for answer in answers] == [(201, False)] * 2
    assert payments(shop, key) == 0


def test_a_connection_cannot_be_committed_before_the_answer(shop, client, key):
    assert client.post("/core", key, {"fail": "commits"}).status == 500
    assert payments(shop, key) == 0
    assert client.post("/core", key, {"fail": "nothing"}).status == 201, "the claim was released"


@pytest.mark.parametrize(("form", "status"), [("lengthy", 201), ("streams", 201), ("returns", 206)])
def test_what_is_not_kept_is_not_executed_again(shop, client, form, status, key):
    assert client.post(f"/{form}", key, {"status": status}).status == status
    repeat = client.post(f"/{form}", key, {"status": status})
    assert (repeat.status, repeat.problem, repeat.json["first_status"]) == (410, "response-not-kept", status)
    assert payments(shop, key) == 1


def test_a_stream_begins_when_its_payment_is_committed(client, key):
    assert client.post("/streams", key).body == b"1 payments are committed"
    with pytest.raises(http.client.IncompleteRead):
        client.post("/streams", f"{key}-2", {"fail": "uses the session"})


def test_background_tasks_run_behind_the_commit(shop, client, key):
    assert client.post("/background", key).status == 201
    notes = eventually(lambda: shop.query("SELECT text FROM note WHERE key = %s", key))
    assert notes == [("background: 1 committed",)]
    assert client.post("/background", key).is_replay
    assert client.post("/background", f"{key}-2", {"fail": "validation"}).status == 400
    assert shop.query("SELECT count(*) FROM note WHERE key LIKE %s", f"{key}%") == [(1,)], "not for a repeat"


def test_what_is_cancelled_leaves_nothing_and_a_repeat_executes(shop, client, key):
    assert client.post("/cancels", key).status == 500
    eventually(lambda: shop.query("SELECT count(*) FROM oncegate.records WHERE key = %s", key) == [(0,)])
    assert payments(shop, key) == 0


def test_a_commit_whose_reply_was_lost_is_found_in_the_record(shop, client, key):
    answers = [client.post("/inside", key, X_Crash="lost reply"), client.post("/inside", key)]
    assert [(answer.status, answer.is_replay) for answer in answers] == [(201, True)] * 2
    assert payments(shop, key) == 1


def test_a_claim_whose_connection_was_lost_is_asked_again(shop, client, key):
    assert client.post("/inside", key).status == 201
    with shop.postgres.connect() as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [shop.database])
    assert client.post("/inside", f"{key}-2").status == 201


def test_a_client_that_has_gone_away_does_not_stop_its_payment(shop, client, key):
    body = json.dumps({"amount": 5}).encode()
    state = "SELECT state FROM oncegate.records WHERE key = %s"
    # Nobody can pay until the client has gone.
    with shop.postgres.connect(shop.database) as database, database.transaction():
        database.execute("LOCK TABLE project_payment IN EXCLUSIVE MODE")
        connection = http.client.HTTPConnection(client.address, timeout=60)
        connection.request("POST", "/inside", body, {"Content-Type": "application/json", "Idempotency-Key": key})
        eventually(lambda: shop.query(state, key) == [("in_flight",)])
        connection.close()
    eventually(lambda: shop.query(state, key) == [("completed",)])
    repeat = client.post("/inside", key, body)
    assert (repeat.status, repeat.is_replay) == (201, True)
    assert payments(shop, key) == 1


def test_a_decorator_in_the_wrong_place_is_told_before_anything_is_done(shop, client, key):
    assert client.post("/wrong-order", key).status == 500
    assert payments(shop, key) == 0
    eventually(lambda: "put it below" in shop.log())


def test_an_endpoint_without_the_session_is_warned_about(shop, client, key):
    assert client.post("/alone", key).status == 201
    eventually(lambda: "its effect commits apart from its answer" in shop.log())


def test_requests_are_counted_by_route_and_outcome(shop, prepared, postgres):
    with Service(postgres, prepared) as service:
        client = service.serve()
        for key, order in [("k", {}), ("k", {}), ("k", {"amount": 6}), ("k,l", {}), (None, {}), ("l", {"fail": "bug"})]:
            client.post("/inside", key, order)
        client.post("/unguarded", "k")
        client.post("/v1/shops/7/orders/1", "m")
        counted = client.outcomes()
    assert counted.pop(("/v1/shops/{shop}/orders/{number}", "executed")) == 1
    ours = {outcome: times for (route, outcome), times in counted.items() if route == "/inside"}
    assert ours == {"executed": 2, "replayed": 1, "mismatch": 1, "rejected": 1, "bypassed": 1}
    assert counted.keys() == {("/inside", outcome) for outcome in ours}, "what is unguarded is not counted"
