"""Brings the schema up to date where 0004 was applied by an earlier version: its file 13."""

from django.db import migrations

from oncegate.django.schema import apply


class Migration(migrations.Migration):
    dependencies = [("oncegate", "0004_update_schema")]
    operations = [migrations.RunPython(apply, migrations.RunPython.noop)]
