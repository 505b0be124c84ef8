"""The flow of a guarded request: key, scope, fingerprint, claim, execute, complete, replay.

The claim commits by itself before the view runs. The completion is in the transaction of the view, so that both commit
or neither does. What is settled after a rollback has a transaction of its own.
"""

import logging
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from django.db import Error, InterfaceError, OperationalError, connections, transaction
from django.http import HttpRequest, HttpResponse

from oncegate import problem, verb
from oncegate.answer import problem_answer, told_answer
from oncegate.attempt import Attempt, attempt_of, gateway_attempt
from oncegate.django.answer import response_of
from oncegate.django.commit import may_commit
from oncegate.django.connection import claims_connection
from oncegate.django.options import Options
from oncegate.django.reading import read
from oncegate.django.signals import answered
from oncegate.problem import Problem
from oncegate.reading import SHARED, Reading, Refused, read_key
from oncegate.replay import EXPIRES, http_date, kept_headers
from oncegate.status import Disposition, disposition, is_refusal
from oncegate.verb import READ_ONLY, TRANSACTION_ABORTED, Claim, Fenced, sqlstate

logger = logging.getLogger("oncegate")

RUNNING = "_oncegate_running"
"""On a request whose view runs under a claim. `request.oncegate` cannot tell: it stays when that run has failed, and
what retries the view around the guard must find it guarded again."""

NOTED = "_oncegate_noted"
"""On a request whose outcome was told to whoever counts."""


@dataclass(frozen=True)
class Call:
    """A call of a view, by whichever way it came to us."""

    request: HttpRequest
    caller: Any
    """The request that knows its user: DRF's own, or Django's."""
    execute: Callable[[], HttpResponse]
    """Runs the view."""
    recover: Callable[[Exception], HttpResponse]
    """Makes an answer of an exception, or raises it again."""
    finish: Callable[[HttpResponse], HttpResponse]
    """Renders a response, so that it is the bytes to be stored."""
    is_anonymous: bool = False
    """Whether it is guarded in the scope that all share whom nothing identifies."""

    @property
    def route(self) -> str:
        """The pattern, never the path: that has values in it."""
        match = self.request.resolver_match
        return match.route if match else ""


class _Undone(Exception):
    """Rolls back what this answer must not leave behind."""

    def __init__(self, response: HttpResponse) -> None:
        super().__init__(response.status_code)
        self.response = response


class Guard:
    """The guard of views with these options."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._has_warned = False

    def answer(self, call: Call) -> HttpResponse:
        """Executes, or answers what is known."""
        if getattr(call.request, RUNNING, False):
            return call.execute()
        if attempt := self.gateway_attempt(call.request):
            return self._executed(call, Execution(self, call, None, attempt))
        if call.request.method not in self.options.methods:
            return call.execute()
        try:
            key = read_key(call.request.headers.get(self.options.header), self.options.header)
            if key is not None:
                return self._guarded(call, read(call.request, call.caller, key, self.options))
            if self.options.required:
                raise Refused(problem.key_missing(self.options.header))
        except Refused as refused:
            return self._noted(call, "rejected", problem_response(refused.problem))
        return self._bypassed(call)

    def _bypassed(self, call: Call) -> HttpResponse:
        try:
            return call.execute()
        finally:
            # A guarded handler may call another, such as `post` of a generic view `create`: one request, one outcome.
            if not getattr(call.request, NOTED, False):
                self._note(call, "bypassed")

    def _guarded(self, call: Call, reading: Reading) -> HttpResponse:
        if reading.is_anonymous:
            call = replace(call, is_anonymous=True)
            self._warn_of_sharing(call)
        if self.options.enter:
            return self._entered(call, Execution(self, call, reading, None))
        try:
            claim = self._claim(reading)
        except Error as error:
            if not _is_lost(error):
                raise
            logger.exception("the store of idempotency records cannot be asked")
            return self._noted(call, "unavailable", problem_response(problem.store_unavailable()))
        if claim.outcome != "acquired":
            return self._noted(call, *self.told(claim))
        return self._executed(call, Execution(self, call, reading, attempt_of(claim)))

    def _entered(self, call: Call, execution: "Execution") -> HttpResponse:
        try:
            return self._noted(call, *execution.run_entered())
        except Exception:
            if execution.attempt is not None:
                self._note(call, "executed")
            raise

    def _executed(self, call: Call, execution: "Execution") -> HttpResponse:
        try:
            return execution.run()
        finally:
            self._note(call, "executed")

    def _claim(self, reading: Reading) -> Claim:
        """Asks twice when the connection is lost: the owner makes the second recognise what the first has written."""
        owner = uuid.uuid4()
        connection = claims_connection(self.options.using)
        try:
            return self._claim_once(connection, reading, owner)
        except Error as error:
            if not _is_lost(error):
                raise
            connection.close()
            return self._claim_once(connection, reading, owner)

    def _claim_once(self, connection: Any, reading: Reading, owner: uuid.UUID) -> Claim:
        with connection.cursor() as cursor:
            return reading.claim(cursor, self.options, owner)

    def told(self, claim: Claim) -> tuple[str, HttpResponse]:
        """Outcome and answer of a claim that does not execute."""
        first_use = None
        if claim.outcome == "mismatch":
            with claims_connection(self.options.using).cursor() as cursor:
                first_use = verb.first_use(cursor, claim.record)
        outcome, answer = told_answer(claim, first_use)
        return outcome, response_of(answer)

    def record_says(self, reading: Reading | None) -> HttpResponse:
        """The answer of an attempt that was fenced off: never its own."""
        if reading is None:
            # The gateway that has claimed looks at the record itself.
            return problem_response(problem.in_flight(1))
        claim = self._claim(reading)
        if claim.outcome == "acquired" and claim.fence is not None:
            # The record went meanwhile. Who has failed once does not execute again behind the client's back.
            self.release(attempt_of(claim))
            return problem_response(problem.in_flight(1))
        return self.told(claim)[1]

    def release(self, attempt: Attempt) -> bool:
        """Whether there was anything to give back."""
        with claims_connection(self.options.using).cursor() as cursor:
            return verb.release(cursor, attempt.record, attempt.fence)

    def complete(self, cursor: Any, attempt: Attempt, response: HttpResponse, *, commits: bool = False) -> None:
        """Stores the response, and marks it as a first answer; `commits` as in `verb.complete`."""
        body = None
        if not response.streaming and response.status_code != 206:
            body = response.content if len(response.content) <= self.options.stored_body_bytes_max else None
        headers = kept_headers(response.items(), self.options.replay_headers)
        status = response.status_code
        at = verb.complete(cursor, attempt.record, attempt.fence, status, headers, body, commits=commits)
        response[EXPIRES] = http_date(at + self.options.retention)

    def gateway_attempt(self, request: HttpRequest) -> Attempt | None:
        """The claim of a gateway in front, if the request proves that it comes from there."""
        return gateway_attempt(request.headers, self.options.gateway_secrets)

    def _noted(self, call: Call, outcome: str, response: HttpResponse) -> HttpResponse:
        self._note(call, outcome)
        return response

    def _note(self, call: Call, outcome: str) -> None:
        setattr(call.request, NOTED, True)
        # What counts must not turn an answer whose payment is committed into a failure; Django logs what went wrong.
        answered.send_robust(
            type(self), request=call.request, route=call.route, outcome=outcome, is_anonymous=call.is_anonymous
        )

    def _warn_of_sharing(self, call: Call) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(SHARED, call.route)


class Execution:
    """One execution of a view under a claim; without a reading, under a gateway's."""

    def __init__(self, guard: Guard, call: Call, reading: Reading | None, attempt: Attempt | None) -> None:
        self.guard = guard
        self.call = call
        self.reading = reading
        self.attempt = attempt
        self.executed: HttpResponse | None = None
        self.using = guard.options.using

    def run(self) -> HttpResponse:
        """Executes and completes in one transaction."""
        try:
            with transaction.atomic(using=self.using), connections[self.using].cursor() as cursor:
                return self._execute_and_complete(cursor)
        except _Undone as undone:
            return self._settle(undone.response)
        except Fenced:
            return self.guard.record_says(self.reading)
        except Exception as error:
            return self._after(error)

    def run_entered(self) -> tuple[str, HttpResponse]:
        """Claims, executes and completes in one transaction, which leaves all of it or nothing."""
        reading = self.reading
        assert reading is not None
        try:
            with transaction.atomic(using=self.using), connections[self.using].cursor() as cursor:
                claim = reading.enter(cursor, self.guard.options)
                if claim.outcome == "acquired":
                    self.attempt = attempt_of(claim)
                    return "executed", self._execute_and_complete(cursor)
        except _Undone as undone:
            return "executed", undone.response
        except Exception as error:
            if self.attempt is None and _is_lost(error):
                logger.exception("the store of idempotency records cannot be asked")
                self._disconnect()
                return "unavailable", problem_response(problem.store_unavailable())
            if self.attempt is None or self.executed is not None:
                raise
            return "executed", self.call.finish(self.call.recover(error))
        return self.guard.told(claim)

    def _disconnect(self) -> None:
        """So that the next request gets a connection to the server that is the primary by then."""
        connection = connections[self.using]
        if not connection.in_atomic_block:
            connection.close()

    def _execute_and_complete(self, cursor: Any) -> HttpResponse:
        assert self.attempt is not None
        response = self._execute()
        self.executed = response
        connection = connections[self.using]
        if disposition(response.status_code) is Disposition.RELEASE or connection.needs_rollback:
            raise _Undone(response)
        self.guard.complete(cursor, self.attempt, response, commits=may_commit(connection))
        return response

    def _execute(self) -> HttpResponse:
        request = self.call.request
        # For the view to read.
        request.oncegate = self.attempt
        # A guard further inside sees that this one is at work.
        setattr(request, RUNNING, True)
        try:
            return self.call.finish(self.call.execute())
        finally:
            setattr(request, RUNNING, False)

    def _after(self, error: Exception) -> HttpResponse:
        """Everything is rolled back. An error of the view may have an answer; one of the commit has none."""
        if self.executed is None:
            try:
                return self._settle(self.call.finish(self.call.recover(error)))
            except Exception:
                self._give_back()
                raise
        if sqlstate(error) == TRANSACTION_ABORTED and 400 <= self.executed.status_code < 500:
            # The view has caught the error that aborted its transaction, and made a refusal of it.
            return self._settle(self.executed)
        if self._give_back() is False and self.reading is not None:
            # Nothing was in flight under our fence: the commit has reached the database. Its reply was lost, or one of
            # its hooks has failed, which nobody would hear of otherwise.
            logger.error("the transaction of a guarded view has committed, and failed behind that", exc_info=error)
            return self.guard.record_says(self.reading)
        raise error

    def _settle(self, response: HttpResponse) -> HttpResponse:
        """After the rollback: stores the refusal, or gives the claim back. Nothing that claims success is stored."""
        assert self.attempt is not None
        if is_refusal(response.status_code):
            try:
                with claims_connection(self.using).cursor() as cursor:
                    self.guard.complete(cursor, self.attempt, response)
            except Fenced:
                return self.guard.record_says(self.reading)
            except Error:
                logger.exception("a refusal could not be stored; a repeat executes when the lease has ended")
            return response
        self._give_back()
        return response

    def _give_back(self) -> bool | None:
        """Whether the claim was given back; None: the database cannot be asked, and the lease ends by itself."""
        if self.reading is None or self.attempt is None:
            return None
        with suppress(Error):
            return self.guard.release(self.attempt)
        logger.warning("a claim could not be released; a repeat executes when the lease has ended")
        return None


def _is_lost(error: Exception) -> bool:
    """Whether another connection may have an answer."""
    return isinstance(error, (OperationalError, InterfaceError)) or sqlstate(error) == READ_ONLY


def problem_response(told: Problem) -> HttpResponse:
    """A problem document."""
    return response_of(problem_answer(told))
