"""The schema `oncegate`: the numbered migrations, applied and noted as `oncegate migrate` does it.

Both may be used on one database: whoever comes second finds nothing left to do.
"""

import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

LOCK = int.from_bytes(b"oncegate", "big")
"""Excludes others who migrate at the same time."""

# Reads the catalogue itself: to_regclass would go by what the session remembers from before it had the lock.
ANYTHING = """
    SELECT count(*) FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = 'oncegate' AND c.relname = 'migrations'
"""
APPLIED = "SELECT number, name, checksum FROM oncegate.migrations ORDER BY number"
NOTE = "INSERT INTO oncegate.migrations (number, name, checksum) VALUES (%s, %s, %s)"


class SchemaDiffers(Exception):
    """The schema of the database is not one that this package would have made. Nothing was changed."""


@dataclass(frozen=True)
class Migration:
    """One file of the schema."""

    number: int
    name: str
    text: str

    def checksum(self) -> str:
        """SHA-256 of the text, hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def migrations() -> list[Migration]:
    """All files, in order; migration `n` leads from schema `n - 1` to `n`."""
    found = []
    for file in (files("oncegate") / "sql").iterdir():
        if match := re.fullmatch(r"(\d{3})_(\w+)\.sql", file.name):
            found.append(Migration(int(match[1]), match[2], file.read_bytes().decode()))
    return sorted(found, key=lambda migration: migration.number)


def migrate(cursor: Any) -> int:
    """Brings the schema up to date and answers how many steps there were.

    To be called in a transaction, which makes it all steps or none. Raises SchemaDiffers when a newer program has
    migrated the database, or another text was applied to it.
    """
    # Who has nothing to do takes no lock and needs no right to change anything.
    if not _pending(cursor):
        return 0
    cursor.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
    pending = _pending(cursor)
    for migration in pending:
        # Without parameters, so that a percent sign in the text is one.
        cursor.execute(migration.text)
        cursor.execute(NOTE, (migration.number, migration.name, migration.checksum()))
    return len(pending)


def _pending(cursor: Any) -> list[Migration]:
    known = migrations()
    applied = _applied(cursor)
    if len(applied) > len(known):
        newest, name, _ = applied[-1]
        text = f"the database has schema {newest} ({name}), and this package knows {len(known)} at most"
        raise SchemaDiffers(f"{text}: use the newer package")
    for migration, (number, name, checksum) in zip(known, applied, strict=False):
        if migration.number != number:
            raise SchemaDiffers(f"migration {migration.number} is missing in the database although later ones are not")
        if migration.checksum() != checksum:
            raise SchemaDiffers(f"migration {number} ({name}) was applied in another form than this package has")
    return known[len(applied) :]


def _applied(cursor: Any) -> list[tuple[int, str, str]]:
    cursor.execute(ANYTHING)
    if cursor.fetchone()[0] == 0:
        return []
    cursor.execute(APPLIED)
    return [(number, name, checksum) for number, name, checksum in cursor.fetchall()]
