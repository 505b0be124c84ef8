"""Requests by route and outcome, for Prometheus: as the gateway counts them. It takes `prometheus_client`.

FastAPI and Starlette: app.add_middleware(IdempotencyMiddleware, observer=RequestCounter(), ...)
Django, in the `ready` of an AppConfig: answered.connect(RequestCounter(), weak=False)
"""

from prometheus_client import REGISTRY, CollectorRegistry, Counter

NAME = "oncegate_requests"
"""As in the gateway; the client library adds `_total`."""

ANONYMOUS = "oncegate_anonymous_requests"


class RequestCounter:
    """Counts each request to a guarded handler in `oncegate_requests_total{route, outcome}`, and in
    `oncegate_anonymous_requests_total` those of callers whom nothing identifies, who share one space of keys.

    A registry can have one. With several worker processes, prometheus_client adds their numbers up if
    PROMETHEUS_MULTIPROC_DIR is set.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._requests = Counter(NAME, "Requests to guarded handlers", ["route", "outcome"], registry=registry)
        text = "Guarded requests in the scope that callers without an identity share"
        self._anonymous = Counter(ANONYMOUS, text, registry=registry)

    def __call__(self, route: str, outcome: str, is_anonymous: bool = False, **_: object) -> None:
        """Counts one; signals of Django tell more, which is left out."""
        self._requests.labels(route, outcome).inc()
        if is_anonymous:
            self._anonymous.inc()
