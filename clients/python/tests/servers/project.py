"""The project beside this file, with a database of its own, run by manage.py and served by Gunicorn."""

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from client import Client
from servers.process import ServerProcess

TESTS = Path(__file__).parent.parent
NUMBERS = itertools.count(1)


class Project:
    """A context manager that stops what it has served. Its database is empty, or a copy of another's."""

    def __init__(self, postgres, template="template1"):
        self.postgres = postgres
        self.database = f"project_{next(NUMBERS)}"
        self.servers = []
        with postgres.connect() as connection:
            connection.execute(f"CREATE DATABASE {self.database} TEMPLATE {template}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.stop()

    def manage(self, *command, **variables):
        """Runs one of Django's commands to its end, and answers what it printed."""
        program = [sys.executable, "-m", "django", *command]
        done = subprocess.run(
            program, cwd=TESTS, env=self._environment(variables), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    def serve(self, workers=2, **variables):
        """Serves the project, with these variables in its environment; answers a client of it."""
        command = [Path(sys.executable).with_name("gunicorn"), "--bind=127.0.0.1:0", f"--workers={workers}"]
        command += ["--worker-class=gthread", "--threads=4", "--preload", "--keep-alive=75", "--backlog=2048"]
        command += ["--no-control-socket", "project.wsgi"]
        server = ServerProcess(command, listening_at, signal.SIGKILL, cwd=TESTS, env=self._environment(variables))
        self.servers.append(server)
        return Client(server.found)

    def query(self, statement, *values):
        """The rows of a statement, asked of the database itself."""
        with self.postgres.connect(self.database) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else None

    def payments(self):
        """How many payments there are, by key."""
        return dict(self.query("SELECT key, count(*) FROM project_payment GROUP BY key"))

    def _environment(self, variables):
        return {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "project.settings",
            "DATABASE_HOST": "127.0.0.1",
            "DATABASE_PORT": str(self.postgres.port),
            "DATABASE_NAME": self.database,
            "DATABASE_USER": "postgres",
            "DATABASE_PASSWORD": self.postgres.password,
            "PYTHONDONTWRITEBYTECODE": "1",
            **variables,
        }


def listening_at(line):
    """Finds `Listening at: http://ADDRESS (PID)`."""
    _, found, rest = line.partition("Listening at: ")
    return urlsplit(rest.split()[0]).netloc if found else None
