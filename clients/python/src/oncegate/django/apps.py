"""The Django application: it has the migration that makes the schema `oncegate`."""

from django.apps import AppConfig


class OncegateConfig(AppConfig):
    """`oncegate.django` in INSTALLED_APPS."""

    name = "oncegate.django"
    label = "oncegate"
    verbose_name = "Idempotency keys"
