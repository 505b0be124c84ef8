"""The flow of a guarded request: key, scope, fingerprint, claim, execute, complete, replay.

The claim commits by itself before the endpoint runs. The completion is in the transaction of the endpoint, so that both
commit or neither does. What is settled after a rollback has a transaction of its own.
"""

import logging
from urllib.parse import quote

from sqlalchemy.exc import SQLAlchemyError, TimeoutError
from starlette.requests import Request

from oncegate import problem
from oncegate.answer import Answer, problem_answer
from oncegate.attempt import Attempt, attempt_of, gateway_attempt
from oncegate.options import Options
from oncegate.reading import SHARED, Reading, Received, Refused, read, read_key
from oncegate.scope import scope_part
from oncegate.starlette.exchange import Exchange
from oncegate.starlette.execution import Execution
from oncegate.starlette.records import Records, is_lost
from oncegate.starlette.transaction import Database
from oncegate.verb import Claim

logger = logging.getLogger("oncegate")

PATH_SAFE = "/:;@&=+$,!~*'()"
"""What a path keeps as it is: two spellings of one path are the same request."""


class Guard:
    """The guard of endpoints with these options."""

    def __init__(self, database: Database, options: Options) -> None:
        self.options = options
        self.records = Records(database, options)
        self._has_warned = False

    async def admit(self, exchange: Exchange) -> Answer | None:
        """None: the endpoint executes. Otherwise the answer that is known already."""
        if attempt := gateway_attempt(exchange.headers, self.options.gateway_secrets):
            # The gateway has judged key and method.
            self._execute(exchange, attempt, None)
            return None
        if exchange.scope["method"] not in self.options.methods:
            return None
        try:
            key = read_key(_header(exchange, self.options.header), self.options.header)
            if key is None and self.options.required:
                raise Refused(problem.key_missing(self.options.header))
            if key is None:
                exchange.outcome = "bypassed"
                return None
            received = _received(exchange, await exchange.body.whole())
            reading = read(received, key, _caller(exchange, self.options), self.options)
        except Refused as refused:
            exchange.outcome = "rejected"
            return problem_answer(refused.problem)
        return await self._guarded(exchange, reading)

    async def _guarded(self, exchange: Exchange, reading: Reading) -> Answer | None:
        if reading.is_anonymous:
            exchange.is_anonymous = True
            self._warn_of_sharing(exchange)
        # What authentication and the like have done stays done, and its connection is free for the claim.
        await exchange.transaction.commit()
        try:
            claim = await (self._enter(exchange, reading) if self.options.enter else self.records.claim(reading))
        except SQLAlchemyError as error:
            # No connection of the pool became free in time, or those that did lead nowhere.
            if not isinstance(error, TimeoutError) and not is_lost(error):
                raise
            logger.exception("the store of idempotency records cannot be asked")
            exchange.outcome = "unavailable"
            return problem_answer(problem.store_unavailable())
        if claim.outcome == "acquired":
            self._execute(exchange, attempt_of(claim), reading)
            return None
        await exchange.transaction.rollback()
        exchange.outcome, answer = await self.records.told(claim)
        return answer

    def _warn_of_sharing(self, exchange: Exchange) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(SHARED, exchange.route)

    async def _enter(self, exchange: Exchange, reading: Reading) -> Claim:
        return await exchange.transaction.run(lambda cursor: reading.enter(cursor, self.options))

    def _execute(self, exchange: Exchange, attempt: Attempt, reading: Reading | None) -> None:
        exchange.outcome = "executed"
        exchange.execution = Execution(self.records, exchange.transaction, attempt, reading)


def _header(exchange: Exchange, name: str) -> str | None:
    """The value of a header; several lines as a proxy would join them."""
    lines = exchange.headers.getlist(name)
    return ", ".join(lines) if lines else None


def _received(exchange: Exchange, body: bytes) -> Received:
    scope, headers = exchange.scope, exchange.headers
    return Received(
        method=scope["method"],
        path=quote(scope["path"], safe=PATH_SAFE),
        query=scope["query_string"].decode("latin-1"),
        content_type=headers.get("Content-Type", "").encode("latin-1"),
        coding=headers.get("Content-Encoding", "").encode("latin-1"),
        body=body,
    )


def _caller(exchange: Exchange, options: Options) -> list[str]:
    """What the scope function says; by default the digest of the credential."""
    if options.scope is not None:
        value = options.scope(Request(exchange.scope))
        return [] if value is None else [scope_part("scope", value.encode())]
    authorization = exchange.headers.get("Authorization", "").encode("latin-1")
    return [scope_part("authorization", authorization, credential=True)] if authorization else []
