"""The FastAPI service beside this file, with a database of its own, served by Uvicorn."""

import re
import signal
import sys
from pathlib import Path

from client import Client
from oncegate.schema import migrate
from servers.database import Database
from servers.process import ServerProcess

TESTS = Path(__file__).parent.parent
TABLES = """
    CREATE TABLE project_payment (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text, amount int CHECK (amount < 1000)
    );
    CREATE TABLE caller (token text PRIMARY KEY, is_active boolean NOT NULL, seen int NOT NULL DEFAULT 0);
    CREATE TABLE note (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key text, text text)
"""


class Service(Database):
    """The service."""

    def prepare(self):
        """Makes the tables, and the schema."""
        with self.postgres.connect(self.database) as connection, connection.transaction():
            migrate(connection.cursor())
            connection.execute(TABLES)

    def serve(self, workers=1, **variables):
        """Serves it, with these variables in its environment; answers a client of it."""
        command = [sys.executable, "-m", "uvicorn", "--port=0", "--no-access-log", "--timeout-keep-alive=75"]
        command += ["--timeout-graceful-shutdown=1", "service.app:app"]
        if workers > 1:
            command = [sys.executable, "-m", "service.workers", str(workers)]
        server = ServerProcess(command, running_on, signal.SIGKILL, cwd=TESTS, env=self.environment(variables))
        self.servers.append(server)
        return Client(server.found)

    def log(self):
        """What the last server has said last."""
        return "".join(self.servers[-1].log)


def running_on(line):
    """Finds `Uvicorn running on http://ADDRESS`."""
    found = re.search(r"Uvicorn running on http://([\d.:]+)", line)
    return found and found[1]
