"""A PostgreSQL of the tests' own, and the project that they serve from it."""

import os
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from servers.postgres import PostgresServer  # noqa: E402
from servers.project import Project  # noqa: E402
from servers.service import Service  # noqa: E402

# Who stops the tests stops their servers too.
signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Two processes share the tests. One has all of a file, whose servers they share, if they do not say otherwise."""
    # The longest first, so that nobody waits for them in the end.
    items.sort(key=lambda item: item.path.name != "test_page.py")
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.name))


@pytest.fixture(scope="session")
def postgres():
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def migrated(postgres):
    """The name of a database with the project's tables and ours."""
    project = Project(postgres)
    project.manage("migrate")
    return project.database


@pytest.fixture
def project(postgres, migrated):
    """The project with a fresh database; `project.serve(...)` starts Gunicorn."""
    with Project(postgres, migrated) as project:
        yield project


@pytest.fixture(scope="session")
def prepared(postgres):
    """The name of a database with the service's tables and ours."""
    service = Service(postgres)
    service.prepare()
    return service.database


@pytest.fixture
def service(postgres, prepared):
    """The service with a fresh database; `service.serve(...)` starts Uvicorn."""
    with Service(postgres, prepared) as service:
        yield service


@pytest.fixture(scope="session")
def kills():
    """How often a worker is killed at each step; 20 on demand."""
    return int(os.environ.get("ONCEGATE_KILLS", "1"))


@pytest.fixture(scope="session")
def storm_size():
    """Keys and repeats; 100 x 300 on demand."""
    return (100, 300) if os.environ.get("ONCEGATE_STORM_FULL") == "1" else (5, 30)
