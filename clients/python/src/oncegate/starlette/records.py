"""The records, as endpoints with certain options ask them: each verb here commits by itself."""

import asyncio
import logging
import uuid

from sqlalchemy.exc import InterfaceError, OperationalError, SQLAlchemyError

from oncegate import problem, verb
from oncegate.answer import Answer, problem_answer, told_answer
from oncegate.attempt import Attempt, attempt_of
from oncegate.options import Options
from oncegate.reading import Reading
from oncegate.replay import kept_headers
from oncegate.starlette.answer import Passing
from oncegate.starlette.running import keep_running
from oncegate.starlette.transaction import Cursor, Database
from oncegate.verb import READ_ONLY, Claim, sqlstate

logger = logging.getLogger("oncegate")


class Records:
    """The records of one database."""

    def __init__(self, database: Database, options: Options) -> None:
        self.database = database
        self.options = options
        self._has_warned = False

    async def claim(self, reading: Reading) -> Claim:
        """Claims. When the request is cancelled meanwhile, nobody executes: what was acquired then is released."""
        claiming = keep_running(self._claim(reading))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            keep_running(self._withdraw(claiming))
            raise

    async def _claim(self, reading: Reading) -> Claim:
        """Asks twice when the connection is lost: the owner makes the second recognise what the first has written."""
        owner = uuid.uuid4()

        def ask(cursor: Cursor) -> Claim:
            return reading.claim(cursor, self.options, owner)

        try:
            return await self.database.run(ask)
        except SQLAlchemyError as error:
            if not is_lost(error):
                raise
            return await self.database.run(ask)

    async def _withdraw(self, claiming: "asyncio.Task[Claim]") -> None:
        try:
            claim = await claiming
        except Exception:
            return
        if claim.outcome == "acquired":
            await self.release(attempt_of(claim))

    async def told(self, claim: Claim) -> tuple[str, Answer]:
        """Outcome and answer of a claim that does not execute."""
        first_use = None
        if claim.outcome == "mismatch":
            first_use = await self.database.run(lambda cursor: verb.first_use(cursor, claim.record))
        return told_answer(claim, first_use)

    async def says(self, reading: Reading | None) -> Answer:
        """The answer of an attempt that was fenced off: never its own."""
        if reading is None:
            # The gateway that has claimed looks at the record itself.
            return problem_answer(problem.in_flight(1))
        claim = await self.claim(reading)
        if claim.outcome == "acquired":
            # The record went meanwhile. Who has failed once does not execute again behind the client's back.
            await self.release(attempt_of(claim))
            return problem_answer(problem.in_flight(1))
        return (await self.told(claim))[1]

    async def refuse(self, attempt: Attempt, answer: Passing) -> None:
        """Stores a refusal, which has no effect to commit with."""
        await self.database.run(lambda cursor: self.complete(cursor, attempt, answer))

    async def release(self, attempt: Attempt) -> bool | None:
        """Whether there was anything to give back; None: the database cannot be asked, and the lease ends by itself."""
        try:
            return await self.database.run(lambda cursor: verb.release(cursor, attempt.record, attempt.fence))
        except SQLAlchemyError:
            logger.warning("a claim could not be released; a repeat executes when the lease has ended")
            return None

    def warn_of_other_session(self) -> None:
        """Says once that the promise is void for an endpoint."""
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "a guarded endpoint has no part in oncegate's session: its effect commits apart from its answer"
            )

    def complete(self, cursor: Cursor, attempt: Attempt, answer: Passing) -> None:
        """Stores the answer, in whatever transaction the cursor is, and marks it as a first answer."""
        body = answer.stored_body(self.options.stored_body_bytes_max)
        headers = kept_headers(answer.headers(), self.options.replay_headers)
        at = verb.complete(cursor, attempt.record, attempt.fence, answer.status, headers, body)
        answer.mark(at + self.options.retention)


def is_lost(error: SQLAlchemyError) -> bool:
    """Whether another connection may have an answer."""
    return isinstance(error, (OperationalError, InterfaceError)) or sqlstate(error) == READ_ONLY
