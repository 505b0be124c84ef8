"""What to count: every request that a guarded view was sent."""

from django.dispatch import Signal

answered = Signal()
"""Sent with `request`, `route` (the pattern, never the path), `outcome`: `executed`, `replayed`, `in_flight`,
`mismatch`, `unknown`, `rejected`, `unavailable`, or `bypassed` for a request without a key; and `is_anonymous`, whether
it is guarded in the scope that callers share whom nothing identifies. What a receiver raises is logged, no more."""
