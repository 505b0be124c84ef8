"""The SQL functions, called over any DB-API cursor whose parameters are `%s`.

`cursor` may be psycopg's or Django's. What commits, and when, is the caller's: a claim stands alone, in autocommit,
before anything is executed; a completion is in the transaction of the effect.
"""

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

FENCED = "OG001"
TRANSACTION_ABORTED = "25P02"
READ_ONLY = "25006"
"""A standby: where the database has failed over, a connection that is kept leads to the wrong server."""


class Fenced(Exception):
    """This call did not complete the record: another attempt has it, or it is completed already. Roll back."""


@dataclass(frozen=True)
class Claim:
    """What a claim was told. `outcome` is `acquired`, `completed`, `in_flight`, `mismatch`, `unknown` or
    `rules_changed`; what does not belong to it is None. Times are in seconds."""

    outcome: str
    record: uuid.UUID
    fence: int | None = None
    attempt: int | None = None
    status: int | None = None
    headers: list[tuple[str, str]] | None = None
    body: bytes | None = None
    completed_at: float | None = None
    expires_at: float | None = None
    retry_after: float | None = None


# What a statement says is parsed and planned anew each time, so it says no more than it must: lengths and casts are
# left to the types of the functions' arguments.
ANSWER = """
    SELECT outcome, record, fence, attempt, status, headers::text, body, extract(epoch FROM completed_at),
           extract(epoch FROM clock_timestamp() + expires_in), extract(epoch FROM retry_after)
"""
ARGUMENTS = "(%s, %s, %s, %s, %s, %s, %s, %s)"
CLAIM = f"{ANSWER} FROM oncegate.claim{ARGUMENTS}"
ENTER = f"{ANSWER} FROM oncegate.enter{ARGUMENTS}"
ENTER_NEW = "SELECT oncegate.enter_new(%s, %s, %s, %s, %s)::text"
COMPLETE = "SELECT oncegate.complete(%s, %s, %s, %s, %s, %s), extract(epoch FROM clock_timestamp())"
COMPLETE_AND_COMMIT = f"{COMPLETE}; COMMIT"
EXTEND = "SELECT oncegate.extend(%s::uuid, %s, make_interval(secs => %s))"
RELEASE = "SELECT oncegate.release(%s::uuid, %s)"
FIRST_USE = "SELECT operation, state FROM oncegate.records WHERE record = %s::uuid"


def claim(
    cursor: Any,
    scope: str,
    key: str,
    fingerprint: bytes,
    *,
    lease: float = 30,
    retention: float = 86400,
    operation: str = "",
    on_abandoned: str = "takeover",
    owner: uuid.UUID | None = None,
) -> Claim:
    """The one atomic attempt to become the executor. In a transaction of its own: OG003 is raised otherwise.

    A claim whose reply was lost may be sent again with the same `owner`: it recognises its own row.
    """
    held = str(owner) if owner else None
    values = (scope, key, fingerprint, _seconds(lease), _seconds(retention), operation, on_abandoned, held)
    return _ask(cursor, CLAIM, values)


def enter(
    cursor: Any, scope: str, key: str, fingerprint: bytes, *, retention: float = 86400, operation: str = ""
) -> Claim:
    """A claim in the caller's own transaction, outside of savepoints; that transaction must complete too."""
    life = _seconds(retention)
    cursor.execute(ENTER_NEW, (scope, key, fingerprint, life, operation))
    # A row as text, `(record,fence)`: to select from the function would cost the database a quarter more of the call.
    record, fence = cursor.fetchone()[0][1:-1].split(",")
    if record:
        return Claim("acquired", _record(record), int(fence), 1)
    return _ask(cursor, ENTER, (scope, key, fingerprint, "30 s", life, operation, "takeover", None))


def complete(
    cursor: Any,
    record: uuid.UUID,
    fence: int,
    status: int,
    headers: Sequence[tuple[str, str]],
    body: bytes | None,
    *,
    retention: float | None = None,
    commits: bool = False,
) -> float:
    """Stores the response, in the transaction of the effect, and answers the time of that by the database's clock.

    `body` None: it is not kept. Raises Fenced unless this very call completed the record; then roll back. `commits`:
    ends the transaction in the same round trip, by a cursor that sends several statements as one string; where the
    record is not completed, the server does not come to the COMMIT.
    """
    life = None if retention is None else _seconds(retention)
    values = (str(record), fence, status, json.dumps([list(pair) for pair in headers]), body, life)
    try:
        cursor.execute(COMPLETE_AND_COMMIT if commits else COMPLETE, values)
    except Exception as error:
        if sqlstate(error) == FENCED:
            raise Fenced(str(error)) from error
        raise
    _, completed_at = cursor.fetchone()
    return float(completed_at)


def extend(cursor: Any, record: uuid.UUID, fence: int, lease: float) -> bool:
    """Pushes the lease's end further; False: it is another's by now, so stop."""
    return _tell(cursor, EXTEND, (str(record), fence, lease))


def release(cursor: Any, record: uuid.UUID, fence: int) -> bool:
    """Gives the lease back, so that a repeat executes; False: there was none to give."""
    return _tell(cursor, RELEASE, (str(record), fence))


def first_use(cursor: Any, record: uuid.UUID) -> tuple[str, str] | None:
    """The operation and the state of a record, for the text of a mismatch."""
    cursor.execute(FIRST_USE, (str(record),))
    row = cursor.fetchone()
    return (row[0], row[1]) if row else None


def sqlstate(error: BaseException) -> str | None:
    """The server's code of an error, also of one that a framework has wrapped."""
    for candidate in (error, error.__cause__):
        code = getattr(candidate, "sqlstate", None) or getattr(candidate, "pgcode", None)
        if code:
            return str(code)
    return None


def _ask(cursor: Any, statement: str, values: Sequence[object]) -> Claim:
    cursor.execute(statement, values)
    outcome, record, fence, attempt, status, headers, body, completed_at, expires_at, retry_after = cursor.fetchone()
    return Claim(
        outcome=outcome,
        record=_record(record),
        fence=fence,
        attempt=attempt,
        status=status,
        headers=None if headers is None else [(name, value) for name, value in json.loads(headers)],
        body=None if body is None else bytes(body),
        completed_at=_number(completed_at),
        expires_at=_number(expires_at),
        retry_after=_number(retry_after),
    )


def _record(value: Any) -> uuid.UUID:
    return value if isinstance(value, uuid.UUID) else uuid.UUID(value)


def _seconds(length: float) -> str:
    """An interval, as PostgreSQL reads one."""
    return f"{length} s"


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _tell(cursor: Any, statement: str, values: Sequence[object]) -> bool:
    cursor.execute(statement, values)
    return bool(cursor.fetchone()[0])
