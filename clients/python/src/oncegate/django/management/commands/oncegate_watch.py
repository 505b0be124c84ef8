"""Shows what somebody should look at: workers that died, and clients that make a new key for each repeat."""

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import connections

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


class Command(BaseCommand):
    """`manage.py oncegate_watch`"""

    help = "Shows abandoned records and suspected duplicates; ends with status 1 if there are any."

    def add_arguments(self, parser: CommandParser) -> None:
        """What to look at, and how to print it."""
        parser.add_argument("--database", default="default", help="the database that has the schema (default: default)")
        parser.add_argument("--json", action="store_true", help="one JSON object instead of text")

    def handle(self, *args: Any, **options: Any) -> None:
        """Prints both lists."""
        with connections[options["database"]].cursor() as cursor:
            abandoned = _rows(cursor, ABANDONED, ABANDONED_COLUMNS)
            suspected = _rows(cursor, SUSPECTED, SUSPECTED_COLUMNS)
        if options["json"]:
            self.stdout.write(json.dumps({"abandoned": abandoned, "suspected": suspected}))
        else:
            self._show("abandoned: its worker died, the next repeat takes over", abandoned)
            self._show("suspected: one request under two keys within ten minutes", suspected)
        if abandoned or suspected:
            sys.exit(1)

    def _show(self, title: str, rows: list[dict[str, object]]) -> None:
        self.stdout.write(f"{len(rows)} {title}")
        for row in rows:
            self.stdout.write("  " + "  ".join(f"{name}={value}" for name, value in row.items()))


def _rows(cursor: Any, statement: str, columns: tuple[str, ...]) -> list[dict[str, object]]:
    cursor.execute(statement)
    return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
