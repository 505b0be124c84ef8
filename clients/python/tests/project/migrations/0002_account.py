"""The table of accounts."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("project", "0001_initial"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]
    operations = [
        migrations.CreateModel(
            name="Account",
            fields=[
                ("id", models.BigAutoField(primary_key=True)),
                ("balance", models.BigIntegerField(default=0)),
                ("user", models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=django.db.models.deletion.CASCADE)),
            ],
        )
    ]
