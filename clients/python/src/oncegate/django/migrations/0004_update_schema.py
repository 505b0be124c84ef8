"""Brings the schema up to date where 0003 was applied by an earlier version: its files 11 and 12."""

from django.db import migrations

from oncegate.django.schema import apply


class Migration(migrations.Migration):
    dependencies = [("oncegate", "0003_update_schema")]
    operations = [migrations.RunPython(apply, migrations.RunPython.noop)]
