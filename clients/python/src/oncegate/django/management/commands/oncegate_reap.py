"""Deletes records whose retention has ended: to be run where no gateway does it."""

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import connections

from oncegate.reap import reap


class Command(BaseCommand):
    """`manage.py oncegate_reap`"""

    help = "Deletes expired records in small batches; of many that run at once, one does it."

    def add_arguments(self, parser: CommandParser) -> None:
        """`--every` goes on for ever."""
        parser.add_argument("--database", default="default", help="the database that has the schema (default: default)")
        parser.add_argument("--every", type=float, metavar="SECONDS", help="go on, with a pause of so many seconds")

    def handle(self, *args: Any, **options: Any) -> None:
        """One pass, or one after the other."""
        while True:
            with connections[options["database"]].cursor() as cursor:
                self.stdout.write(f"{reap(cursor)} records reaped")
            if options["every"] is None:
                return
            time.sleep(options["every"])
