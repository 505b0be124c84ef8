"""Answers that are ours, whatever class the framework has for them: problems and replays."""

from dataclasses import dataclass

from oncegate import problem
from oncegate.problem import Problem
from oncegate.replay import COMPLETED, EXPIRES, REPLAYED, http_date
from oncegate.verb import Claim

OUTCOMES = {"completed": "replayed", "rules_changed": "mismatch"}
"""What is counted under another word than the claim has for it."""


@dataclass(frozen=True)
class Answer:
    """A whole response; a name may come more than once."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


def problem_answer(told: Problem) -> Answer:
    """A problem document."""
    return Answer(told.status, told.headers(), told.body())


def told_answer(claim: Claim, first_use: tuple[str, str] | None = None) -> tuple[str, Answer]:
    """Outcome and answer of a request that does not execute."""
    return OUTCOMES.get(claim.outcome, claim.outcome), _told(claim, first_use)


def _told(claim: Claim, first_use: tuple[str, str] | None) -> Answer:
    if claim.outcome == "completed":
        return _replay(claim)
    if claim.outcome == "mismatch":
        return problem_answer(problem.mismatch(*(first_use or (None, None))))
    if claim.outcome == "unknown":
        return problem_answer(problem.unknown())
    if claim.outcome == "rules_changed":
        return problem_answer(problem.rules_changed())
    return problem_answer(problem.in_flight(claim.retry_after or 1))


def _replay(claim: Claim) -> Answer:
    """The stored response again."""
    status = claim.status or 200
    if claim.body is None:
        return problem_answer(problem.response_not_kept(status))
    headers = [(name.title(), value) for name, value in claim.headers or []]
    headers.append((REPLAYED, "true"))
    headers.append((COMPLETED, http_date(claim.completed_at or 0)))
    headers.append((EXPIRES, http_date(claim.expires_at or 0)))
    return Answer(status, headers, claim.body)
