"""The one transaction of a request: what its endpoint writes and the answer commit together.

The session that an endpoint has works in a savepoint of it. So `commit()` in an endpoint writes, and nothing more:
what was written is durable when the answer is, and never without it.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from sqlalchemy import Connection, event
from sqlalchemy.exc import SQLAlchemyError, StatementError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from oncegate.verb import READ_ONLY, sqlstate

Result = TypeVar("Result")

OWNER = "oncegate"
"""Where a session's info has the transaction that it works in."""


class Cursor:
    """What `oncegate.verb` asks of a cursor, on a connection of SQLAlchemy."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.row: Any = None

    def execute(self, statement: str, values: tuple[object, ...]) -> None:
        """Runs one statement that has one row to tell."""
        try:
            self.row = self.connection.exec_driver_sql(statement, values).fetchone()
        except StatementError as error:
            # Keys and answers are nobody's business who reads a log.
            error.hide_parameters = True
            if sqlstate(error) == READ_ONLY:
                self.connection.invalidate(error)
            raise

    def fetchone(self) -> Any:
        """That row."""
        return self.row


class Database:
    """The engine of an application. At most one of its connections is a request's at a time, so that no pool is too
    small for us."""

    def __init__(self, engine: AsyncEngine, session_class: type[AsyncSession]) -> None:
        self.engine = engine
        # Shares the pool. A verb that stands alone is one statement, and needs no BEGIN and COMMIT around it.
        self.alone = engine.execution_options(isolation_level="AUTOCOMMIT")
        self.session_class = session_class
        self.joined_class: Any = type("JoinedSession", (_Joined, session_class.sync_session_class), {})

    async def run(self, call: Callable[[Cursor], Result]) -> Result:
        """Runs one verb, which commits by itself."""
        async with self.alone.connect() as connection:
            return await connection.run_sync(lambda plain: call(Cursor(plain)))


class _Joined:
    """A session whose statements all go to the transaction of the request."""

    info: dict[str, Any]

    def get_bind(self, *_: object, **__: object) -> Connection:
        transaction: Transaction = self.info[OWNER]
        return transaction.connection()


class Transaction:
    """Begins with the first statement of whoever uses the session, and ends with the answer."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._connection: Connection | None = None
        self._session: AsyncSession | None = None
        self.has_session = False
        """Whether the endpoint, or what it depends on, has asked for the session."""
        self._is_ending = False
        self.is_over = False
        """The answer has left: no statement more."""

    def session(self) -> AsyncSession:
        """The session of the request, the same whoever asks."""
        self.has_session = True
        return self._joined()

    @property
    def is_begun(self) -> bool:
        """Whether anything may have to be ended."""
        return self._session is not None

    @property
    def is_undone(self) -> bool:
        """Whether the endpoint has rolled back the connection itself, behind the session's back."""
        return self._connection is not None and not self._connection.in_transaction()

    def connection(self) -> Connection:
        """The connection, in the transaction. To be called where SQLAlchemy may wait: inside of its greenlet."""
        if self.is_over:
            raise RuntimeError("the transaction of the request has ended with its answer: begin a session of your own")
        if self._connection is None:
            self._connection = self.database.engine.sync_engine.connect()
            self._connection.begin()
            if getattr(self._connection.connection.dbapi_connection, "autocommit", False):
                raise RuntimeError("the engine is in AUTOCOMMIT, where nothing commits together: give us another")
            event.listen(self._connection, "commit", self._refuse_commit)
        return self._connection

    async def run(self, call: Callable[[Cursor], Result]) -> Result:
        """Runs one verb in the transaction, outside of the session's savepoint."""
        await self._joined().commit()
        return await self._joined().run_sync(lambda _: call(Cursor(self.connection())))

    async def commit(self) -> None:
        """Commits what there is; the next statement begins another."""
        await self._joined().commit()
        await self._joined().run_sync(lambda _: self._end(is_kept=True))

    async def rollback(self) -> None:
        """Undoes what there is; the next statement begins another."""
        # The savepoint first, though the transaction would take it along: SQLAlchemy warns of the other order.
        with suppress(SQLAlchemyError):
            await self._joined().rollback()
        await self._joined().run_sync(lambda _: self._end(is_kept=False))

    async def close(self) -> None:
        """Undoes what was not committed, and refuses what comes then."""
        if self._session is not None:
            await self.rollback()
            await self._session.close()
        self.is_over = True

    def _joined(self) -> AsyncSession:
        if self._session is None:
            self._session = self.database.session_class(
                sync_session_class=self.database.joined_class,
                join_transaction_mode="create_savepoint",
                # What was loaded stays readable behind a commit: reading it again cannot be awaited.
                expire_on_commit=False,
                info={OWNER: self},
            )
        return self._session

    def _end(self, *, is_kept: bool) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self._is_ending = True
        try:
            if is_kept:
                connection.commit()
        finally:
            self._is_ending = False
            # Rolls back what was not committed.
            connection.close()

    def _refuse_commit(self, connection: Connection) -> None:
        if not self._is_ending:
            # SQLAlchemy takes its transaction for ended after this; the server's must not go back to the pool open.
            connection.invalidate()
            raise RuntimeError("the connection of a request commits with its answer, and never before it")
