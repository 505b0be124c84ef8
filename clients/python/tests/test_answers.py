"""What clients hear, from every form of view, under Gunicorn and PostgreSQL."""

import pytest

from oncegate.schema import migrations
from servers.project import Project

DRF = ["inside", "outside", "between", "method", "class", "wrapped", "listed", "entered", "payments",
       "payments/guarded_inside", "payments/guarded_outside"]  # fmt: skip
PLAIN = ["plain", "plain-view"]
BY_MIDDLEWARE = ["unguarded", "plain-unguarded", "payments/unguarded", *DRF, *PLAIN]


@pytest.fixture(scope="module")
def shop(postgres, migrated):
    with Project(postgres, migrated) as project:
        project.client = project.serve()
        project.atomic = project.serve(ATOMIC_REQUESTS="1")
        project.middleware = project.serve(MIDDLEWARE="1", SERVER_SIDE_BINDING="1")
        project.atomic_middleware = project.serve(MIDDLEWARE="1", ATOMIC_REQUESTS="1")
        yield project


@pytest.fixture(params=["client", "atomic"])
def client(shop, request):
    return getattr(shop, request.param)


@pytest.fixture
def key(request):
    return request.node.name.replace("[", ":").replace("]", "").replace(" ", "")[-200:]


def payments(shop, key):
    return shop.payments().get(key, 0)


@pytest.mark.parametrize("form", [*DRF, *PLAIN])
def test_a_repeat_gets_the_first_answer_from_every_form_of_view(shop, client, form, key):
    first = client.post(f"/{form}", key)
    assert first.status == 201, first.body
    assert "idempotency-expires" in first.headers
    assert not first.is_replay

    for spelling in (key, f'"{key}"', f" {key} "):
        repeat = client.post(f"/{form}", spelling)
        assert (repeat.status, repeat.body, repeat.is_replay) == (201, first.body, True)
        assert repeat.headers["content-type"] == "application/json"
        assert repeat.headers.get("location") == first.headers.get("location")
        assert "x-trace" not in repeat.headers
        assert {"idempotency-completed", "idempotency-expires"} <= repeat.headers.keys()
    stored = shop.query("SELECT key FROM project_payment WHERE key LIKE %s", f"%{key}%")
    assert len(stored) == 1, "quoted and bare are one key"


@pytest.mark.parametrize("form", BY_MIDDLEWARE)
@pytest.mark.parametrize("served", ["middleware", "atomic_middleware"])
def test_the_middleware_guards_every_view_once(shop, served, form, key):
    client = getattr(shop, served)
    first, repeat = client.post(f"/{form}", key), client.post(f"/{form}", key)
    assert (first.status, repeat.status, repeat.is_replay) == (201, 201, True), (first.body, repeat.body)
    assert repeat.body == first.body
    assert payments(shop, key) == 1
    assert client.post("/exempted", key).status == 201
    assert payments(shop, key) == 2, "an exempted view is left alone"


@pytest.mark.parametrize("served", ["middleware", "atomic_middleware"])
def test_a_view_keeps_options_of_its_own_under_the_middleware(shop, served, key):
    client = getattr(shop, served)
    assert client.post("/strict").problem == "key-missing"
    first = client.post("/strict", key, {"amount": 1, "sent_at": 1}, Authorization="Token a")
    repeat = client.post("/strict", key, {"amount": 1, "sent_at": 2}, Authorization="Token a")
    assert (repeat.status, repeat.body, repeat.is_replay) == (201, first.body, True)


def test_the_middleware_refuses_to_be_followed_by_another(shop):
    with pytest.raises(AssertionError, match="must be the last in MIDDLEWARE"):
        shop.manage("shell", "-c", "from django.test import Client; Client().get('/healthz')", MIDDLEWARE="first")


def test_an_unguarded_use_of_a_class_that_is_guarded_elsewhere_stays_unguarded(shop, client, key):
    client.post("/wrapped", "another")
    assert [client.post("/unguarded", key).status for _ in range(2)] == [201, 201]
    assert payments(shop, key) == 2


def test_another_request_with_the_key_is_422_and_names_the_first(client, key):
    client.post("/inside", key, {"amount": 5})
    for path, payment, options in [
        ("/inside", {"amount": 6}, {}),
        ("/outside", {"amount": 5}, {}),
        ("/inside?a=1", {"amount": 5}, {}),
    ]:
        answer = client.post(path, key, payment, **options)
        assert (answer.status, answer.problem) == (422, "mismatch")
        assert answer.json["first_request"] == "POST /inside"
        assert answer.json["state"] == "completed"
        assert key not in answer.body.decode()


def test_what_means_the_same_is_the_same_request(client, key):
    first = client.post("/inside", key, b'{"amount": 5, "note": "x"}')
    repeat = client.post("/inside", key, b'{"note":"\\u0078","amount":5}')
    assert (repeat.is_replay, repeat.body) == (True, first.body)


def test_one_tenant_never_hears_the_answer_to_another(shop, client, key):
    answers = {name: client.post("/inside", key, Authorization=f"Token {name}") for name in ("a", "b")}
    assert [answer.status for answer in answers.values()] == [201, 201]
    assert answers["a"].body != answers["b"].body
    assert payments(shop, key) == 2
    for name, first in answers.items():
        repeat = client.post("/inside", key, Authorization=f"Token {name}")
        assert (repeat.is_replay, repeat.body) == (True, first.body)
    assert client.post("/inside", key).json["id"] not in [answer.json["id"] for answer in answers.values()]


def test_a_plain_view_tells_callers_apart_by_their_credential(shop, client, key):
    bodies = {client.post("/plain", key, Authorization=f"Bearer {name}").body for name in ("a", "b")}
    assert len(bodies) == 2
    scopes = shop.query("SELECT scope FROM oncegate.records WHERE key = %s", key)
    assert all(scope.startswith("python;authorization#32:") for (scope,) in scopes)


@pytest.mark.parametrize("form", ["inside", "outside", "method", "wrapped"])
def test_who_is_not_authenticated_any_more_hears_nothing_of_the_record(shop, client, form, key):
    token = f"Token {key[:100]}"
    assert client.post(f"/{form}", key, Authorization=token).status == 201
    assert client.post(f"/{form}", key, Authorization=token).is_replay
    shop.query("UPDATE auth_user SET is_active = false WHERE username = %s", key[:100])
    refused = client.post(f"/{form}", key, Authorization=token)
    assert refused.status == 401
    assert "idempotent-replayed" not in refused.headers


@pytest.mark.parametrize("value", ["", '""', "k" * 256, "a b", '"x";p=1'])
def test_what_is_no_key_is_400(shop, client, value):
    answer = client.post("/inside", value)
    assert (answer.status, answer.problem, answer.json["retry"]) == (400, "key-invalid", "new-key")
    assert payments(shop, value) == 0


def test_several_keys_are_400(client):
    answer = client.post("/inside", "k1, k2")
    assert (answer.status, answer.problem) == (400, "key-repeated")


def test_a_key_is_required_only_where_the_view_says_so(shop, client):
    assert client.post("/inside").status == 201
    assert client.post("/strict").problem == "key-missing"
    assert client.post("/strict", "anonymous").problem == "scope-missing"


def test_a_get_is_never_guarded(client, key):
    answers = [client.post("/inside", key, method="GET") for _ in range(2)]
    assert [answer.is_replay for answer in answers] == [False, False]


def test_options_of_a_view_are_kept(client, key):
    first = client.post("/strict", key, {"amount": 1, "sent_at": 1}, Authorization="Token a")
    repeat = client.post("/strict", key, {"amount": 1, "sent_at": 2}, Authorization="Token a")
    assert (repeat.status, repeat.body, repeat.headers["x-trace"]) == (201, first.body, "first")


@pytest.mark.parametrize("form", ["inside", "outside", "method", "class", "wrapped", "payments"])
def test_a_handled_exception_leaves_no_payment_and_its_400_is_replayed(shop, client, form, key):
    answers = [client.post(f"/{form}", key, {"fail": "validation"}) for _ in range(2)]
    assert [(answer.status, answer.is_replay) for answer in answers] == [(400, False), (400, True)]
    assert answers[0].body == answers[1].body
    assert payments(shop, key) == 0


@pytest.mark.parametrize(("how", "status"), [("bug", 500), ("unavailable", 503)])
@pytest.mark.parametrize("form", ["inside", "outside", "method", "entered"])
def test_a_failure_leaves_no_payment_and_a_repeat_executes(shop, client, form, how, status, key):
    answers = [client.post(f"/{form}", key, {"fail": how}) for _ in range(2)]
    assert [(answer.status, answer.is_replay, answer.problem) for answer in answers] == [(status, False, None)] * 2
    assert payments(shop, key) == 0
    assert shop.query("SELECT count(*) FROM oncegate.records WHERE key = %s", key) == [(0,)]


def test_a_plain_view_that_fails_is_executed_again(shop, client, key):
    with_bug = client.post("/plain", key, b"not read")
    assert with_bug.status == 201, "a plain view reads no body here"


@pytest.mark.parametrize(("status", "is_kept"), [(201, 1), (404, 1), (409, 1), (429, 0), (500, 0), (503, 0)])
def test_what_an_answer_says_decides_about_its_payment(shop, client, status, is_kept, key):
    answers = [client.post("/returns", key, {"status": status}) for _ in range(2)]
    assert [answer.status for answer in answers] == [status, status]
    assert answers[1].is_replay == bool(is_kept)
    assert payments(shop, key) == is_kept


def test_a_database_error_that_a_view_has_caught_is_no_success(shop, client, key):
    answers = [client.post("/inside", key, {"fail": "aborted"}) for _ in range(2)]
    assert [(answer.status, answer.is_replay) for answer in answers] == [(409, False), (409, True)]
    assert payments(shop, key) == 0


def test_a_success_that_was_rolled_back_is_not_replayed(shop, client, key):
    answers = [client.post("/rolls-back", key) for _ in range(2)]
    assert [answer.is_replay for answer in answers] == [False, False]
    assert payments(shop, key) == 0


def test_hooks_of_the_commit_run_once_and_behind_it(shop, client, key):
    for payment in ({"fail": "validation"}, {"fail": "bug"}):
        client.post("/hooked", f"{key}-{payment['fail']}", payment)
    assert [client.post("/hooked", key).status for _ in range(2)] == [201, 201]
    hooks = shop.query("SELECT key, amount FROM project_payment WHERE key LIKE %s", f"{key}%-hook")
    assert hooks == [(f"{key}-hook", 1)]


@pytest.mark.parametrize("form", ["orphaned", "orphaned-entered"])
def test_what_is_refused_when_it_is_committed_leaves_no_payment_and_no_record(shop, form, key):
    for _ in range(2):
        assert shop.client.post(f"/{form}", key).status == 500
    assert payments(shop, key) == 0
    assert shop.query("SELECT count(*) FROM oncegate.records WHERE key = %s", key) == [(0,)]


@pytest.mark.parametrize("form", ["inside", "entered"])
def test_a_connection_that_is_lost_before_the_commit_leaves_no_payment_and_a_repeat_executes(shop, form, key):
    client = shop.client
    shop.query("""
        CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER dies AFTER INSERT ON project_payment
        INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die();
    """)
    try:
        assert client.post(f"/{form}", key).status == 500
    finally:
        shop.query("DROP FUNCTION die CASCADE")
    assert payments(shop, key) == 0
    answer = client.post(f"/{form}", key)
    assert (answer.status, answer.is_replay) == (201, False)


@pytest.mark.parametrize(("form", "first"), [("inside", 201), ("entered", 500)])
def test_a_commit_whose_reply_was_lost_is_found_in_the_record(shop, form, first, key):
    answers = [shop.client.post(f"/{form}", key, X_Crash="lost reply"), shop.client.post(f"/{form}", key)]
    assert [answer.status for answer in answers] == [first, 201]
    assert answers[1].is_replay
    assert payments(shop, key) == 1


@pytest.mark.parametrize(("form", "status"), [("lengthy", 201), ("streams", 201), ("returns", 206)])
def test_what_is_not_kept_is_not_executed_again(shop, client, form, status, key):
    assert client.post(f"/{form}", key, {"status": status}).status == status
    repeat = client.post(f"/{form}", key, {"status": status})
    assert (repeat.status, repeat.problem, repeat.json["first_status"]) == (410, "response-not-kept", status)
    assert payments(shop, key) == 1


def test_the_migration_notes_itself_as_the_gateway_would(shop):
    noted = shop.query("SELECT number, name, checksum FROM oncegate.migrations ORDER BY number")
    assert noted == [(m.number, m.name, m.checksum()) for m in migrations()]
    shop.manage("migrate", "oncegate", "zero")
    shop.manage("migrate")
    assert shop.query("SELECT count(*) FROM oncegate.migrations") == [(len(noted),)], "it finds nothing left to do"


def test_requests_are_counted_by_route_and_outcome(shop, key):
    client = shop.serve(workers=1)
    pay = [("1", {}), ("1", {}), ("1", {"amount": 6}), ("1,2", {}), (None, {}), ("2", {"fail": "bug"})]
    for form in ("inside", "entered"):
        for which, payment in pay:
            client.post(f"/{form}", which and f"{key}-{form}-{which}", payment)
    client.post("/unguarded", key)
    expected = {"executed": 2, "replayed": 1, "mismatch": 1, "rejected": 1, "bypassed": 1}
    assert client.outcomes() == {
        (form, outcome): times for form in ("inside", "entered") for outcome, times in expected.items()
    }
