"""What to run where no gateway is, with Django and without."""

import json
import subprocess
import sys

import pytest


@pytest.fixture(params=["manage.py", "python -m oncegate"])
def run(project, request):
    """Runs a command of the package to its end; AssertionError with what it printed unless it ends well."""
    if request.param == "manage.py":
        return lambda command, *arguments: project.manage(f"oncegate_{command}", *arguments)

    def run(*command):
        address = {"PGHOST": "DATABASE_HOST", "PGPORT": "DATABASE_PORT", "PGUSER": "DATABASE_USER",
                   "PGPASSWORD": "DATABASE_PASSWORD", "PGDATABASE": "DATABASE_NAME"}  # fmt: skip
        environment = project.environment({})
        environment |= {theirs: environment[ours] for theirs, ours in address.items()}
        done = subprocess.run(
            [sys.executable, "-m", "oncegate", *command], env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run


def test_reaping_deletes_what_has_expired_and_nothing_else(project, run):
    for key, retention in [("old", "100 ms"), ("new", "1 h")]:
        project.query(
            "SELECT FROM oncegate.claim('s', %s, '\\x01', lease => '100 ms', retention => %s::interval)", key, retention
        )
    # A pass leaves what was born within the last two seconds to the next one.
    project.query("UPDATE oncegate.records SET created_at = created_at - interval '1 min'")
    project.query("SELECT FROM pg_sleep(0.1)")
    assert "1 records reaped" in run("reap")
    assert project.query("SELECT key FROM oncegate.records") == [("new",)]


def test_watching_says_whose_worker_died_and_who_makes_new_keys(project, run):
    assert json.loads(run("watch", "--json")) == {"abandoned": [], "suspected": []}
    for key in ("first-key", "second-key"):
        project.query("SELECT FROM oncegate.claim('s', %s, '\\x01', lease => '100 ms', operation => 'POST /x')", key)
    project.query("SELECT FROM pg_sleep(0.1)")

    with pytest.raises(AssertionError) as told:
        run("watch")
    told = str(told.value)
    assert "2 abandoned" in told
    assert "1 suspected" in told
    assert "operation=POST /x" in told
    assert "first-key" not in told, "whoever has a key can repeat the request"


@pytest.mark.parametrize("atomic", ["0", "1"])
def test_an_applications_own_tests_run_in_their_own_database(project, atomic):
    assert "OK" in project.manage("test", "project", ATOMIC_REQUESTS=atomic)
