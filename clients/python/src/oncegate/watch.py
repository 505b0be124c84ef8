"""What somebody should look at: workers that died, and clients that make a new key for each repeat."""

import json
from dataclasses import dataclass
from typing import Any

# The client's key is not shown: whoever has it can repeat the request.
ABANDONED = """
    SELECT record::text, operation, fence, attempt, created_at::text, extract(epoch FROM since)::float8
    FROM oncegate.abandoned ORDER BY created_at
"""
SUSPECTED = """
    SELECT record::text, operation, earlier_record::text, created_at::text, extract(epoch FROM apart)::float8
    FROM oncegate.suspected ORDER BY created_at
"""
ABANDONED_COLUMNS = ("record", "operation", "fence", "attempt", "created_at", "seconds_past_lease")
SUSPECTED_COLUMNS = ("record", "operation", "earlier_record", "created_at", "seconds_apart")

Row = dict[str, object]


@dataclass(frozen=True)
class Seen:
    """Both lists."""

    abandoned: list[Row]
    suspected: list[Row]

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing to look at."""
        return not self.abandoned and not self.suspected

    def as_json(self) -> str:
        """One object."""
        return json.dumps({"abandoned": self.abandoned, "suspected": self.suspected})

    def as_text(self) -> str:
        """For people."""
        lines = _listed("abandoned: its worker died, the next repeat takes over", self.abandoned)
        lines += _listed("suspected: one request under two keys within ten minutes", self.suspected)
        return "\n".join(lines)


def watch(cursor: Any) -> Seen:
    """Reads both views."""
    abandoned = _rows(cursor, ABANDONED, ABANDONED_COLUMNS)
    return Seen(abandoned, _rows(cursor, SUSPECTED, SUSPECTED_COLUMNS))


def _listed(title: str, rows: list[Row]) -> list[str]:
    shown = ["  " + "  ".join(f"{name}={value}" for name, value in row.items()) for row in rows]
    return [f"{len(rows)} {title}", *shown]


def _rows(cursor: Any, statement: str, columns: tuple[str, ...]) -> list[Row]:
    cursor.execute(statement)
    return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
