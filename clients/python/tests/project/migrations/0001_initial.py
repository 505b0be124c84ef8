"""The table of payments."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        migrations.CreateModel(
            name="Payment",
            fields=[
                ("id", models.BigAutoField(primary_key=True)),
                ("key", models.CharField(max_length=255)),
                ("amount", models.IntegerField()),
            ],
        )
    ]
