"""A PostgreSQL server in a temporary directory."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import uuid
from pathlib import Path

import psycopg

from servers.process import ServerProcess

PACKAGED = Path("/usr/lib/postgresql")


class PostgresServer:
    """A fresh cluster on a free loopback port; a context manager that stops it.

    Without `syncs` it does not wait for the disk: tests kill processes only.
    """

    def __init__(self, syncs=False):
        self.syncs = syncs

    def __enter__(self):
        self.directory = Path(tempfile.mkdtemp(prefix="oncegate-postgres-"))
        self.password, self.name = str(uuid.uuid4()), str(uuid.uuid4())
        self.owner = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        password_file = self.directory / "password"
        password_file.write_text(self.password)
        if self.owner:
            for path in (self.directory, password_file):
                os.chown(path, self.owner.pw_uid, self.owner.pw_gid)
        try:
            where = ["--pgdata", self.data, "--pwfile", password_file]
            what = ["--auth=scram-sha-256", "--username=postgres", "--encoding=UTF8", "--locale=C"]
            self._run("initdb", *where, *what, "--no-sync", "--no-instructions")
            self.process = self._start()
        except BaseException:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise
        return self

    def __exit__(self, *_):
        self.process.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def data(self):
        return self.directory / "data"

    def connect(self, database="postgres"):
        """A connection of the superuser, in autocommit."""
        address = {"host": "127.0.0.1", "port": self.port, "user": "postgres", "password": self.password}
        return psycopg.connect(**address, dbname=database, autocommit=True)

    def _start(self):
        refused = None
        # Somebody else may take a free port between our look and the server's start.
        for _ in range(5):
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.port = free.getsockname()[1]
            settings = {
                "listen_addresses": "127.0.0.1",
                "port": self.port,
                "unix_socket_directories": self.directory,
                "cluster_name": self.name,
                "fsync": "on" if self.syncs else "off",
            }
            options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
            try:
                process = ServerProcess(
                    [self._program("postgres"), "-D", self.data, *options],
                    lambda line: "ready to accept connections" in line or None,
                    **self._as_owner(),
                )
            except RuntimeError as error:
                refused = error
                continue
            with self.connect() as connection:
                (name,) = connection.execute("SHOW cluster_name").fetchone()
            assert name == self.name, "another server answers on our port"
            return process
        raise refused

    def _run(self, name, *arguments):
        subprocess.run(
            [self._program(name), *arguments], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            **self._as_owner(),
        )  # fmt: skip

    def _as_owner(self):
        # No PG* variable of ours may mislead it.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        owner = {"user": self.owner.pw_uid, "group": self.owner.pw_gid, "extra_groups": []} if self.owner else {}
        return {"cwd": self.directory, "env": environment, **owner}

    @staticmethod
    def _program(name):
        if found := shutil.which(name):
            return os.path.realpath(found)
        newest = sorted(PACKAGED.glob("*/bin"), key=lambda path: int(path.parent.name))
        if not newest:
            raise RuntimeError("PostgreSQL is not installed: apt-get install postgresql")
        return newest[-1] / name
