"""`python -m oncegate`: what to run where neither Django's commands nor a gateway are.

It takes psycopg. The database is named as everywhere with PostgreSQL: by PGHOST, PGDATABASE and their like, or by
`--database`, a connection string.
"""

import argparse
import sys
import time

import psycopg

from oncegate.reap import reap
from oncegate.schema import SchemaDiffers, migrate
from oncegate.watch import watch


def main() -> int:
    """Runs one command; answers the exit code."""
    arguments = _parser().parse_args()
    try:
        with psycopg.connect(arguments.database, autocommit=True) as connection:
            code: int = arguments.run(connection, arguments)
            return code
    except (psycopg.Error, SchemaDiffers) as error:
        print(f"oncegate {arguments.command}: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m oncegate")
    commands = parser.add_subparsers(dest="command", required=True)
    for run, text in [
        (_migrate, "make the schema, or bring it up to date"),
        (_reap, "delete expired records"),
        (_watch, "show abandoned records and suspected duplicates; status 1 if there are any"),
    ]:
        command = commands.add_parser(run.__name__.strip("_"), help=text)
        command.set_defaults(run=run)
        command.add_argument("--database", default="", help="a connection string (default: the variables PGHOST, …)")
        if run is _reap:
            command.add_argument(
                "--every", type=float, metavar="SECONDS", help="go on, with a pause of so many seconds"
            )
        if run is _watch:
            command.add_argument("--json", action="store_true", help="one JSON object instead of text")
    return parser


def _migrate(connection: "psycopg.Connection[tuple[object, ...]]", _: argparse.Namespace) -> int:
    with connection.transaction():
        print(f"{migrate(connection.cursor())} migrations applied")
    return 0


def _reap(connection: "psycopg.Connection[tuple[object, ...]]", arguments: argparse.Namespace) -> int:
    while True:
        print(f"{reap(connection.cursor())} records reaped", flush=True)
        if arguments.every is None:
            return 0
        time.sleep(arguments.every)


def _watch(connection: "psycopg.Connection[tuple[object, ...]]", arguments: argparse.Namespace) -> int:
    seen = watch(connection.cursor())
    print(seen.as_json() if arguments.json else seen.as_text())
    return 0 if seen.is_quiet else 1


if __name__ == "__main__":
    sys.exit(main())
