"""What the example stores: payments, and the keys that two of its endpoints remember."""

from django.db import models

KEY_LENGTH_MAX = 255


class Payment(models.Model):
    """One effect. Two rows with one key are the double charge that this example is about."""

    amount = models.DecimalField(max_digits=12, decimal_places=2)
    currency = models.CharField(max_length=3)
    # The Idempotency-Key header as received, empty without one. Not unique: the table must be able to show duplicates.
    key = models.CharField(max_length=KEY_LENGTH_MAX, blank=True, db_index=True)
    created_at = models.DateTimeField(auto_now_add=True)


class IdempotencyRecord(models.Model):
    """What the naive and the get-or-create endpoint remember about a key."""

    key = models.CharField(max_length=KEY_LENGTH_MAX, unique=True)
    # Empty until the payment is made; only the get-or-create endpoint stores a record that early.
    payment = models.ForeignKey(Payment, on_delete=models.CASCADE, null=True)
