"""Brings the schema up to date where 0001 was applied by an earlier version: its files 7 to 9."""

from django.db import migrations

from oncegate.django.schema import apply


class Migration(migrations.Migration):
    dependencies = [("oncegate", "0001_create_schema")]
    operations = [migrations.RunPython(apply, migrations.RunPython.noop)]
