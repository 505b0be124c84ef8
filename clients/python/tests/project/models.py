"""What a payment leaves behind."""

from django.db import models


class Payment(models.Model):
    """Two rows with one key are the double charge that must not be."""

    key = models.CharField(max_length=255)
    amount = models.IntegerField()
