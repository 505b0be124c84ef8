"""One execution of an endpoint: how its transaction ends, and its claim with it."""

import logging

from sqlalchemy.exc import PendingRollbackError, SQLAlchemyError

from oncegate.answer import Answer
from oncegate.attempt import Attempt
from oncegate.reading import Reading
from oncegate.starlette.answer import Passing
from oncegate.starlette.records import Records
from oncegate.starlette.transaction import Transaction
from oncegate.status import is_refusal
from oncegate.verb import TRANSACTION_ABORTED, Fenced, sqlstate

logger = logging.getLogger("oncegate")


class Execution:
    """An execution under a claim; without a reading, under a gateway's."""

    def __init__(self, records: Records, transaction: Transaction, attempt: Attempt, reading: Reading | None) -> None:
        self.records = records
        self.transaction = transaction
        self.attempt = attempt
        self.reading = reading
        # What is entered is a part of the endpoint's transaction: after a rollback nothing is left to settle.
        self.is_entered = records.options.enter and reading is not None

    async def settle(self, answer: Passing, *, is_kept: bool) -> Answer | None:
        """Ends the transaction. What is answered takes the place of the endpoint's answer, which has lost its claim."""
        if not is_kept or self.transaction.is_undone:
            return await self._undo(answer)
        try:
            await self.transaction.run(lambda cursor: self.records.complete(cursor, self.attempt, answer))
            await self.transaction.commit()
        except Fenced:
            await self.transaction.rollback()
            return await self.records.says(self.reading)
        except Exception as error:
            return await self._after(error, answer)
        if answer.status < 400 and not self.transaction.has_session:
            self.records.warn_of_other_session()
        return None

    async def give_back(self) -> bool | None:
        """After a rollback: whether the claim was released; None: it is not ours, or the database cannot be asked."""
        if self.reading is None or self.is_entered:
            return None
        return await self.records.release(self.attempt)

    async def _undo(self, answer: Passing) -> Answer | None:
        """Rolls back, and stores the refusal or releases the claim. Nothing that claims success is stored."""
        await self.transaction.rollback()
        if not is_refusal(answer.status) or self.is_entered:
            await self.give_back()
            return None
        try:
            await self.records.refuse(self.attempt, answer)
        except Fenced:
            return await self.records.says(self.reading)
        except SQLAlchemyError:
            logger.exception("a refusal could not be stored; a repeat executes when the lease has ended")
        return None

    async def _after(self, error: Exception, answer: Passing) -> Answer | None:
        """The answer could not be stored, or not be committed."""
        is_aborted = isinstance(error, PendingRollbackError) or sqlstate(error) == TRANSACTION_ABORTED
        if is_aborted and 400 <= answer.status < 500:
            # The endpoint has caught the error that aborted its transaction, and made a refusal of it.
            return await self._undo(answer)
        await self.transaction.rollback()
        if await self.give_back() is False:
            # Nothing was in flight under our fence: the commit has reached the database. Its reply was lost, or what
            # listens to it has failed, which nobody would hear of otherwise.
            logger.error("the transaction of a guarded endpoint has committed, and failed behind that", exc_info=error)
            return await self.records.says(self.reading)
        raise error
