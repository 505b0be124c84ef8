"""docs/django.md, followed word for word in an empty folder."""

import os
import re
import signal
import socket
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from oncegate.django.options import Options
from servers.process import ServerProcess
from servers.project import listening_at

REPOSITORY = Path(__file__).parents[3]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def shop(postgres, tmp_path):
    """The reader's empty folder and database; ports are free ones, everything else is as the page says."""
    with postgres.connect() as connection:
        connection.execute("CREATE DATABASE shop")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    reader = Reader(tmp_path, port)
    reader.environment |= {
        "ONCEGATE": str(REPOSITORY),
        "PGHOST": "127.0.0.1",
        "PGPORT": str(postgres.port),
        "PGUSER": "postgres",
        "PGPASSWORD": postgres.password,
        "GUNICORN_CMD_ARGS": f"--bind=127.0.0.1:{port} --no-control-socket",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_COMPILE": "1",
    }
    yield reader
    reader.stop()


class Reader:
    """Types what the page says."""

    def __init__(self, directory, port):
        self.directory, self.port = directory, port
        self.environment = dict(os.environ)
        self.environment.pop("DJANGO_SETTINGS_MODULE", None)
        self.server = None
        self.printed = ""

    def type(self, command):
        if "gunicorn " in command and "pip" not in command:
            options = {"cwd": self.directory, "env": self.environment}
            self.server = ServerProcess(["sh", "-c", f"exec {command}"], listening_at, signal.SIGKILL, **options)
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

    def write(self, text):
        """A file is named in the first line; settings go to the end of what Django has made."""
        name = re.match(r"# (\S+)\n", text)[1]
        with open(self.directory / name, "a" if name.endswith("settings.py") else "w") as file:
            file.write(text)

    def stop(self):
        if self.server:
            self.server.stop()


def test_the_page_on_django_works_word_for_word(shop):
    page = (REPOSITORY / "docs/django.md").read_text(encoding="utf-8")
    compared = 0
    for language, text in BLOCK.findall(page):
        if language == "sh":
            shop.printed = ""
            for command in text.splitlines():
                shop.type(command)
        elif language == "python":
            shop.write(text)
        else:
            shown = "".join(".*" if part == "…" else re.escape(part) for part in re.split("(…)", text))
            assert re.fullmatch(shown, shop.printed), f"the page shows\n{text}\nand there came\n{shop.printed}"
            compared += 1
    assert compared == 1


def test_the_page_has_every_option_with_its_default():
    page = (REPOSITORY / "docs/django.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", page, re.MULTILINE))
    shown = {option.name: option.default for option in fields(Options)}
    assert rows.keys() == shown.keys()
    for name, default in rows.items():
        value = default.strip("`").replace("1 MiB", str(1024 * 1024))
        assert eval(value) == shown[name], name
