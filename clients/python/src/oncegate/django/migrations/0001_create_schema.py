"""Makes the schema `oncegate`, or brings an older one up to date, as `oncegate migrate` does."""

from typing import Any

from django.db import migrations

from oncegate.schema import migrate


def apply(apps: Any, schema_editor: Any) -> None:
    """Records itself in oncegate.migrations, so that it finds nothing to do where the gateway was first."""
    if schema_editor.connection.vendor != "postgresql":
        return
    with schema_editor.connection.cursor() as cursor:
        migrate(cursor)


class Migration(migrations.Migration):
    """Never undone: the records may be a gateway's too."""

    initial = True
    dependencies: list[tuple[str, str]] = []
    operations = [migrations.RunPython(apply, migrations.RunPython.noop)]
