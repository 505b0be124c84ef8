"""Shows what somebody should look at: workers that died, and clients that make a new key for each repeat."""

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import connections

from oncegate.watch import watch


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
            seen = watch(cursor)
        self.stdout.write(seen.as_json() if options["json"] else seen.as_text())
        if not seen.is_quiet:
            sys.exit(1)
