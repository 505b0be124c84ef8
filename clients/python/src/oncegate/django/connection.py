"""The connection on which claims commit by themselves.

Outside of a transaction it is the view's own. Inside of one (ATOMIC_REQUESTS) a claim could not commit before the
effect, so each thread has a second connection then, which is kept and closed as the first is.
"""

import copy
import threading
from contextlib import suppress
from typing import Any

from django.core import signals
from django.db import Error, connections
from django.db.backends.postgresql.psycopg_any import IsolationLevel

_own = threading.local()


def claims_connection(using: str) -> Any:
    """A connection in autocommit and READ COMMITTED to the database `using`."""
    connection = connections[using]
    isolation = connection.settings_dict["OPTIONS"].get("isolation_level")
    is_committed = isolation in (None, IsolationLevel.READ_COMMITTED)
    if not connection.in_atomic_block and connection.get_autocommit() and is_committed:
        return connection
    kept: dict[str, Any] = _own.__dict__.setdefault("connections", {})
    # Tests change the database's name beneath a running process.
    if using in kept and kept[using].settings_dict["NAME"] != connection.settings_dict["NAME"]:
        kept.pop(using).close()
    if using not in kept:
        kept[using] = _second(connection)
        _close_together(connection, kept[using])
    return kept[using]


def _close_together(connection: Any, second: Any) -> None:
    """Whoever closes the view's connection means ours too: a database cannot be dropped while either is open."""
    close_first = connection.close

    def close() -> None:
        with suppress(Error):
            second.close()
        close_first()

    connection.close = close


def _second(connection: Any) -> Any:
    settings = copy.deepcopy(connection.settings_dict)
    # A pool of which all connections wait for a second one would wait for ever.
    settings["OPTIONS"].pop("pool", None)
    settings["OPTIONS"]["isolation_level"] = IsolationLevel.READ_COMMITTED
    settings["AUTOCOMMIT"] = True
    settings["ATOMIC_REQUESTS"] = False
    return type(connection)(settings, connection.alias)


def _close_old(**_: object) -> None:
    for connection in _own.__dict__.get("connections", {}).values():
        connection.close_if_unusable_or_obsolete()


signals.request_started.connect(_close_old)
signals.request_finished.connect(_close_old)
