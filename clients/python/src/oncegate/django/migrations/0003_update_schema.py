"""Brings the schema up to date where 0002 was applied by an earlier version: its file 10."""

from django.db import migrations

from oncegate.django.schema import apply


class Migration(migrations.Migration):
    dependencies = [("oncegate", "0002_update_schema")]
    operations = [migrations.RunPython(apply, migrations.RunPython.noop)]
