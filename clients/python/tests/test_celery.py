"""The tasks of docs/celery.md, run by a worker of Celery that gets them more than once."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from oncegate.schema import migrate

REPOSITORY = Path(__file__).parents[3]
BLOCK = re.compile(r"^```python\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TABLES = """
    CREATE TABLE payment (id bigint GENERATED ALWAYS AS IDENTITY, amount int);
    CREATE TABLE charge (id bigint GENERATED ALWAYS AS IDENTITY, receipt text)
"""
# Each delivery has one id; whoever finds another at work tries again, as a task of that id.
DELIVER = """
import json, sys, threading
from celery.contrib.testing.worker import start_worker
from celery.signals import task_success
import charges, tasks

results, enough = [], threading.Event()

@task_success.connect
def note(sender, result, **_):
    results.append([sender.request.id, result])
    if len(results) == 16:
        enough.set()

app = tasks.app
app.conf.update(broker_transport_options={"polling_interval": 0.01})
with start_worker(app, pool="threads", concurrency=4, perform_ping_check=False):
    for task in (tasks.pay, charges.charge):
        for number in range(2):
            for _ in range(4):
                task.apply_async([100 + number], task_id=f"{task.__name__}-{number}")
    assert enough.wait(60), results
print(json.dumps(results))
"""


@pytest.fixture
def shop(postgres, tmp_path):
    with postgres.connect() as connection:
        connection.execute("DROP DATABASE IF EXISTS shop")
        connection.execute("CREATE DATABASE shop")
    with postgres.connect("shop") as connection:
        with connection.transaction():
            migrate(connection.cursor())
            connection.execute(TABLES)
        for name, text in BLOCK.findall((REPOSITORY / "docs/celery.md").read_text(encoding="utf-8")):
            (tmp_path / name).write_text(text)
        (tmp_path / "deliver.py").write_text(DELIVER)
        yield connection, tmp_path


def test_a_task_that_is_delivered_four_times_has_one_effect_and_one_result(postgres, shop):
    connection, directory = shop
    address = {"PGHOST": "127.0.0.1", "PGPORT": str(postgres.port), "PGUSER": "postgres"}
    done = subprocess.run(
        [sys.executable, "deliver.py"],
        cwd=directory,
        env={**os.environ, **address, "PGPASSWORD": postgres.password, "BROKER": "memory://"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    by_id = {}
    for task_id, result in results:
        by_id.setdefault(task_id, []).append(json.dumps(result))
    assert {task_id: (len(told), len(set(told))) for task_id, told in by_id.items()} == {
        name: (4, 1) for name in ("pay-0", "pay-1", "charge-0", "charge-1")
    }
    assert connection.execute("SELECT count(*), count(DISTINCT amount) FROM payment").fetchone() == (2, 2)
    assert connection.execute("SELECT count(*), count(DISTINCT receipt) FROM charge").fetchone() == (2, 2)
    states = "SELECT state, count(*) FROM oncegate.records GROUP BY state"
    assert connection.execute(states).fetchall() == [("completed", 4)]
