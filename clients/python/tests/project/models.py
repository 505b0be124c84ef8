"""What a payment leaves behind."""

from django.conf import settings
from django.db import models


class Payment(models.Model):
    """Two rows with one key are the double charge that must not be."""

    key = models.CharField(max_length=255)
    amount = models.IntegerField()


class Account(models.Model):
    """What a caller's payments are taken from."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    balance = models.BigIntegerField(default=0)
