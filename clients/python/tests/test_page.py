"""The pages that begin with an empty folder, followed word for word in one."""

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest

from client import Client
from oncegate.django.options import Options as DjangoOptions
from oncegate.options import Options
from servers.process import ServerProcess, eventually
from servers.project import listening_at
from servers.service import running_on

REPOSITORY = Path(__file__).parents[3]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVERS = {"gunicorn ": listening_at, "uvicorn ": running_on}


@pytest.fixture
def reader(postgres, tmp_path):
    """The reader's empty folder and database; ports are free ones, everything else is as the page says."""
    with postgres.connect() as connection:
        connection.execute("DROP DATABASE IF EXISTS shop")
        connection.execute("CREATE DATABASE shop")
    port = free_port()
    reader = Reader(tmp_path, port)
    reader.environment |= {
        "ONCEGATE": str(REPOSITORY),
        "PGHOST": "127.0.0.1",
        "PGPORT": str(postgres.port),
        "PGUSER": "postgres",
        "PGPASSWORD": postgres.password,
        "GUNICORN_CMD_ARGS": f"--bind=127.0.0.1:{port} --no-control-socket",
        "UVICORN_PORT": str(port),
        "UVICORN_TIMEOUT_KEEP_ALIVE": "75",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        # Not of all that is installed: pip takes this for the value of an option `compile`.
        "PIP_NO_COMPILE": "0",
    }
    yield reader
    reader.stop()


def free_port():
    """A port that nobody else is given until the page comes to it: below those that the kernel chooses from."""
    while True:
        port = random.randrange(20000, 32000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class Reader:
    """Types what the page says."""

    def __init__(self, directory, port):
        self.directory, self.port = directory, port
        self.environment = dict(os.environ)
        # A reader's Python keeps what it has compiled: four workers that all compile a framework take long.
        for ours in ("DJANGO_SETTINGS_MODULE", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"):
            self.environment.pop(ours, None)
        self.server = None
        self.has_installed = False
        self.printed = ""

    def follow(self, page):
        """Does it all, and compares what is shown; answers how often."""
        compared = 0
        for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
            if language == "sh":
                self.printed = ""
                for command in text.splitlines():
                    self.type(command)
            elif language == "python":
                self.write(text)
            else:
                shown = "".join(".*" if part == "…" else re.escape(part) for part in re.split("(…)", text))
                assert re.fullmatch(shown, self.printed), f"the page shows\n{text}\nand there came\n{self.printed}"
                compared += 1
        return compared

    def type(self, command):
        if self.has_installed and ("-m venv" in command or "pip install" in command):
            return
        ready = next((ready for server, ready in SERVERS.items() if f".venv/bin/{server}" in command), None)
        if ready is not None:
            options = {"cwd": self.directory, "env": self.environment}
            self.server = ServerProcess(["sh", "-c", f"exec {command}"], ready, signal.SIGKILL, **options)
            # Uvicorn says that it runs before its workers listen.
            eventually(self.is_answered, 120)
            return
        done = subprocess.run(
            ["sh", "-c", command.replace(":8000/", f":{self.port}/")],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        self.printed += done.stdout if done.stdout.endswith("\n") else done.stdout + "\n"

    def is_answered(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True

    def write(self, text):
        """A file is named in the first line; settings go to the end of what Django has made."""
        name = re.match(r"# (\S+)\n", text)[1]
        with open(self.directory / name, "a" if name.endswith("settings.py") else "w") as file:
            file.write(text)

    def stop(self):
        if self.server:
            self.server.stop()


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.xdist_group(page)) for page in ("docs/django.md", "docs/fastapi.md")]
)
def test_a_page_works_word_for_word(reader, page):
    assert reader.follow(REPOSITORY / page) == 1


def test_the_example_of_fastapi_works_word_for_word_and_in_a_storm(reader, postgres, storm_size):
    with postgres.connect() as connection:
        connection.execute("DROP DATABASE IF EXISTS orders")
    example = REPOSITORY / "examples/fastapi-orders"
    reader.directory = reader.directory / "orders"
    shutil.copytree(example, reader.directory)
    # What it installs is here already.
    (reader.directory / ".venv").symlink_to(sys.prefix)
    reader.has_installed = True
    assert reader.follow(example / "README.md") == 1

    client, (count, repeats) = Client(f"127.0.0.1:{reader.port}"), storm_size
    ordered = {}
    for path in ("/api/naive/orders", "/api/orders"):
        keys = [f"storm-{path.count('naive')}-{number}" for number in range(count)]
        came = client.storm(path, keys, repeats, payment={"item": "teapot", "quantity": 1})
        made = [client.post(f"/count?key={key}", method="GET").json["count"] for key in keys]
        statuses = Counter(answer.status for answers in came.values() for answer in answers)
        print(f"{path}: {sum(made)} orders of {count} keys x {repeats}, answers {dict(statuses)}")
        ordered[path] = made, statuses.keys()
    naive, right = ordered.values()
    assert max(naive[0]) > 1, "the usual form orders twice"
    assert right == ([1] * count, {201, 409} & right[1])


def test_the_example_of_fastapi_pins_what_it_is_tested_with():
    text = (REPOSITORY / "examples/fastapi-orders/requirements.txt").read_text(encoding="utf-8")
    pinned = re.findall(r"^(\w+)(?:\[\w+\])?==(\S+)", text, re.MULTILINE)
    assert len(pinned) == 4
    tested = (REPOSITORY / "clients/python/tests/requirements.txt").read_text(encoding="utf-8")
    for name, version in pinned:
        assert re.search(rf"^{name}(\[\w+\])?=={version}", tested, re.MULTILINE), name


@pytest.mark.parametrize(("page", "options"), [("docs/django.md", DjangoOptions), ("docs/fastapi.md", Options)])
def test_a_page_has_every_option_with_its_default(page, options):
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", (REPOSITORY / page).read_text(encoding="utf-8"), re.MULTILINE))
    shown = {option.name: option.default for option in fields(options)}
    assert rows.keys() == shown.keys()
    for name, default in rows.items():
        value = default.strip("`").replace("1 MiB", str(1024 * 1024))
        assert eval(value) == shown[name], name
