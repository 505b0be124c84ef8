"""What to run where no gateway is."""

import json

import pytest


def test_reaping_deletes_what_has_expired_and_nothing_else(project):
    for key, retention in [("old", "100 ms"), ("new", "1 h")]:
        project.query(
            "SELECT FROM oncegate.claim('s', %s, '\\x01', lease => '100 ms', retention => %s::interval)", key, retention
        )
    # A pass leaves what was born within the last two seconds to the next one.
    project.query("UPDATE oncegate.records SET created_at = created_at - interval '1 min'")
    project.query("SELECT FROM pg_sleep(0.1)")
    assert "1 records reaped" in project.manage("oncegate_reap")
    assert project.query("SELECT key FROM oncegate.records") == [("new",)]


def test_watching_says_whose_worker_died_and_who_makes_new_keys(project):
    assert json.loads(project.manage("oncegate_watch", "--json")) == {"abandoned": [], "suspected": []}
    for key in ("first-key", "second-key"):
        project.query("SELECT FROM oncegate.claim('s', %s, '\\x01', lease => '100 ms', operation => 'POST /x')", key)
    project.query("SELECT FROM pg_sleep(0.1)")

    with pytest.raises(AssertionError) as told:
        project.manage("oncegate_watch")
    told = str(told.value)
    assert "2 abandoned" in told
    assert "1 suspected" in told
    assert "operation=POST /x" in told
    assert "first-key" not in told, "whoever has a key can repeat the request"


@pytest.mark.parametrize("atomic", ["0", "1"])
def test_an_applications_own_tests_run_in_their_own_database(project, atomic):
    assert "OK" in project.manage("test", "project", ATOMIC_REQUESTS=atomic)
