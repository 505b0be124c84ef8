"""Makes the schema `oncegate`, or brings an older one up to date."""

from django.db import migrations

from oncegate.django.schema import apply


class Migration(migrations.Migration):
    """Never undone: the records may be a gateway's too."""

    initial = True
    dependencies: list[tuple[str, str]] = []
    operations = [migrations.RunPython(apply, migrations.RunPython.noop)]
