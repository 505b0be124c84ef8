"""A database of a test's own, and the servers that work on it."""

import itertools
import os
import sys

NUMBERS = itertools.count(1)


class Database:
    """A context manager that stops what was served. The database is empty, or a copy of another."""

    def __init__(self, postgres, template="template1"):
        self.postgres = postgres
        self.database = f"test_{next(NUMBERS)}"
        self.servers = []
        with postgres.connect() as connection:
            connection.execute(f"CREATE DATABASE {self.database} TEMPLATE {template}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers:
            server.stop()

    def query(self, statement, *values):
        """The rows of a statement, asked of the database itself."""
        with self.postgres.connect(self.database) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else None

    def payments(self):
        """How many payments there are, by key."""
        return dict(self.query("SELECT key, count(*) FROM project_payment GROUP BY key"))

    def environment(self, variables):
        """What a server finds, with these variables over it."""
        return {
            **os.environ,
            "DATABASE_HOST": "127.0.0.1",
            "DATABASE_PORT": str(self.postgres.port),
            "DATABASE_NAME": self.database,
            "DATABASE_USER": "postgres",
            "DATABASE_PASSWORD": self.postgres.password,
            # The sources stay as they are, and nothing is compiled twice.
            "PYTHONPYCACHEPREFIX": os.path.join(sys.prefix, "compiled"),
            **variables,
        }
