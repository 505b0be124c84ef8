"""Idempotency keys on the SQL functions of the schema `oncegate`.

This package has what every framework needs: keys, scopes, fingerprints, problem documents and the calls of the SQL
functions. `oncegate.django` guards views of Django and Django REST Framework.
"""

from oncegate.fingerprint import BodyTooLarge, Rules, fingerprint
from oncegate.key import KeyInvalid, parse_key
from oncegate.problem import Problem
from oncegate.scope import scope_text
from oncegate.verb import Claim, Fenced, claim, complete, enter, extend, release

__version__ = "0.1.0"

__all__ = [
    "BodyTooLarge",
    "Claim",
    "Fenced",
    "KeyInvalid",
    "Problem",
    "Rules",
    "claim",
    "complete",
    "enter",
    "extend",
    "fingerprint",
    "parse_key",
    "release",
    "scope_text",
]
