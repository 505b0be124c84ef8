"""Responses that are ours: problems and replays."""

from django.http import HttpResponse

from oncegate import problem
from oncegate.problem import Problem
from oncegate.replay import COMPLETED, EXPIRES, REPLAYED, http_date
from oncegate.verb import Claim


def problem_response(told: Problem) -> HttpResponse:
    """A problem document."""
    return HttpResponse(told.body(), status=told.status, headers=dict(told.headers()))


def told_response(claim: Claim, first_use: tuple[str, str] | None = None) -> HttpResponse:
    """The answer to a request that does not execute."""
    if claim.outcome == "completed":
        return _replay(claim)
    if claim.outcome == "mismatch":
        return problem_response(problem.mismatch(*(first_use or (None, None))))
    if claim.outcome == "unknown":
        return problem_response(problem.unknown())
    if claim.outcome == "rules_changed":
        return problem_response(problem.rules_changed())
    return problem_response(problem.in_flight(claim.retry_after or 1))


def _replay(claim: Claim) -> HttpResponse:
    """The stored response again."""
    status = claim.status or 200
    if claim.body is None:
        return problem_response(problem.response_not_kept(status))
    response = HttpResponse(claim.body, status=status)
    del response["Content-Type"]
    for name, value in claim.headers or []:
        name = "-".join(word.capitalize() for word in name.split("-"))
        # A header that was sent in several lines means the same in one.
        response[name] = f"{response[name]}, {value}" if response.has_header(name) else value
    response[REPLAYED] = "true"
    response[COMPLETED] = http_date(claim.completed_at or 0)
    response[EXPIRES] = http_date(claim.expires_at or 0)
    return response
