"""What each of Django's migrations does: the schema as this package knows it, as `oncegate migrate` makes it."""

from typing import Any

from oncegate.schema import migrate


def apply(apps: Any, schema_editor: Any) -> None:
    """Records itself in oncegate.migrations, so that it finds nothing to do where the gateway was first."""
    if schema_editor.connection.vendor != "postgresql":
        return
    with schema_editor.connection.cursor() as cursor:
        migrate(cursor)
