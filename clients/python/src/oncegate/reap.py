"""Deletes records whose retention has ended: to be done where no gateway does it."""

from typing import Any

REAP = "SELECT oncegate.reap(%s)"
ROWS = 1000


def reap(cursor: Any) -> int:
    """Batch after batch, each a transaction of its own in autocommit, until one finds nothing more to do."""
    reaped = 0
    while True:
        cursor.execute(REAP, (ROWS,))
        batch = int(cursor.fetchone()[0])
        reaped += batch
        if batch < ROWS:
            return reaped
