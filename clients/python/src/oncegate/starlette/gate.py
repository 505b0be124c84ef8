"""What all requests of an application have in common."""

import logging
from dataclasses import dataclass
from typing import Protocol

from oncegate.options import Options
from oncegate.starlette.transaction import Database

logger = logging.getLogger("oncegate")


class Observer(Protocol):
    """Whoever counts."""

    def __call__(self, route: str, outcome: str, *, is_anonymous: bool) -> None:
        """One answered request; `is_anonymous`: it is guarded in the scope that all share whom nothing identifies."""


@dataclass(frozen=True, eq=False)
class Gate:
    """The database, the options that endpoints may replace, and who counts."""

    database: Database
    options: Options
    observer: Observer | None

    def observe(self, route: str, outcome: str, is_anonymous: bool) -> None:
        """Tells the observer of one answered request. What it raises must not cost a payment its answer."""
        if self.observer is None:
            return
        try:
            self.observer(route, outcome, is_anonymous=is_anonymous)
        except Exception:
            logger.exception("the observer of guarded requests has failed")
