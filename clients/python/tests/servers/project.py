"""The project beside this file, with a database of its own, run by manage.py and served by Gunicorn."""

import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from client import Client
from servers.database import Database
from servers.process import ServerProcess

TESTS = Path(__file__).parent.parent


class Project(Database):
    """Django's project."""

    def manage(self, *command, **variables):
        """Runs one of Django's commands to its end, and answers what it printed."""
        program = [sys.executable, "-m", "django", *command]
        done = subprocess.run(
            program, cwd=TESTS, env=self.environment(variables), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        return done.stdout

    def serve(self, workers=2, threads=4, **variables):
        """Serves the project, with these variables in its environment; answers a client of it."""
        command = [Path(sys.executable).with_name("gunicorn"), "--bind=127.0.0.1:0", f"--workers={workers}"]
        command += [f"--threads={threads}", "--preload", "--keep-alive=75", "--backlog=2048"]
        command += ["--no-control-socket", "project.wsgi"]
        server = ServerProcess(command, listening_at, signal.SIGKILL, cwd=TESTS, env=self.environment(variables))
        self.servers.append(server)
        return Client(server.found)

    def environment(self, variables):
        """With its settings."""
        return super().environment({"DJANGO_SETTINGS_MODULE": "project.settings", **variables})


def listening_at(line):
    """Finds `Listening at: http://ADDRESS (PID)`."""
    _, found, rest = line.partition("Listening at: ")
    return urlsplit(rest.split()[0]).netloc if found else None
