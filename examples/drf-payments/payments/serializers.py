"""The JSON form of a payment."""

from decimal import Decimal

from rest_framework import serializers

from payments.models import Payment


class PaymentSerializer(serializers.ModelSerializer):
    """Checks what a client may choose (amount, currency) and shows what was stored."""

    amount = serializers.DecimalField(max_digits=12, decimal_places=2, min_value=Decimal("0.01"))
    currency = serializers.RegexField(r"\A[A-Z]{3}\Z")

    class Meta:
        model = Payment
        fields = ("id", "amount", "currency", "key")
        read_only_fields = ("id", "key")  # the key is a header, never part of the body
