"""What all requests of an application have in common."""

from collections.abc import Callable
from dataclasses import dataclass

from oncegate.options import Options
from oncegate.starlette.transaction import Database

Observer = Callable[[str, str], None]


@dataclass(frozen=True, eq=False)
class Gate:
    """The database, the options that endpoints may replace, and who counts."""

    database: Database
    options: Options
    observer: Observer | None

    def observe(self, route: str, outcome: str) -> None:
        """Tells the observer of one answered request."""
        if self.observer is not None:
            self.observer(route, outcome)
