"""Four ways to create a payment. Three of them do not survive repeats that arrive together.

Those are written as they are met in real projects; each docstring names what breaks first. There are two cures:
`oncegate serve` in front of the service lets one request of each key through and needs no change here; and the fourth
way is guarded by the view itself.
"""

from django.db import connection
from django.urls import reverse
from rest_framework import status
from rest_framework.decorators import api_view
from rest_framework.exceptions import ValidationError
from rest_framework.generics import get_object_or_404
from rest_framework.response import Response

from oncegate.django import idempotent
from payments import card_network
from payments.models import KEY_LENGTH_MAX, IdempotencyRecord, Payment
from payments.serializers import PaymentSerializer


@api_view(["POST"])
def create_payment(request):
    """No idempotency at all: every repeat is another payment."""
    return created(charge(request, received_key(request)))


@api_view(["POST"])
def create_payment_naive(request):
    """Check, then act, then record.

    Every repeat that arrives before the first one has recorded its key passes the check and charges again. The
    unique index notices only afterwards: the losers have charged and answer 500.
    """
    key = required_key(request)
    if IdempotencyRecord.objects.filter(key=key).exists():
        return created(IdempotencyRecord.objects.get(key=key).payment)
    payment = charge(request, key)
    IdempotencyRecord.objects.create(key=key, payment=payment)
    return created(payment)


@api_view(["POST"])
def create_payment_get_or_create(request):
    """get_or_create on a unique key, before acting.

    The row is created once, but nothing says that its creator is still at work: a record without a payment looks the
    same whether the first request is running or has died. Whoever finds one charges, so that a dead worker does not
    block the key for ever, and all repeats that overlap the first request charge with it.
    """
    key = required_key(request)
    record, _ = IdempotencyRecord.objects.get_or_create(key=key)
    if record.payment is not None:
        return created(record.payment)
    record.payment = charge(request, key)
    record.save()
    return created(record.payment)


@api_view(["POST"])
@idempotent(required=True)
def create_payment_once(request):
    """The right form: claim, act, and record in the transaction of the act.

    The key is claimed in a commit of its own before this begins, so repeats get 409 while it is at work. The answer is
    stored in the transaction that stores the payment: both commit, or neither does. A worker that dies is taken over
    from when its lease has ended, by one repeat; if it was only slow, it cannot commit any more.

    The card network is outside of that transaction. It gets an idempotency key of its own, the same for each attempt.
    """
    return created(charge(request, received_key(request), request.oncegate.record))


@api_view(["GET"])
def show_payment(request, payment_id):
    """One payment, where the Location of a 201 points to."""
    return Response(PaymentSerializer(get_object_or_404(Payment, pk=payment_id)).data)


@api_view(["GET"])
def count_payments(request):
    """How many payments were made: in all, or with ?key= for one key."""
    payments = Payment.objects.all()
    if "key" in request.query_params:
        payments = payments.filter(key=request.query_params["key"])
    return Response({"count": payments.count()})


@api_view(["GET"])
def healthz(request):
    """Answers 200 when requests can be served, which takes the database."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return Response({"status": "ok"})


def charge(request, key, card_key=None):
    """The business operation: check the request, ask the card network, store the payment."""
    serializer = PaymentSerializer(data=request.data)
    serializer.is_valid(raise_exception=True)
    card_network.authorise(**serializer.validated_data, key=card_key)
    return serializer.save(key=key)


def created(payment):
    """The answer to a payment that was made."""
    location = reverse("payment", args=[payment.pk])
    return Response(PaymentSerializer(payment).data, status.HTTP_201_CREATED, headers={"Location": location})


def received_key(request):
    """The Idempotency-Key header, empty without one."""
    key = request.headers.get("Idempotency-Key", "")
    if len(key) > KEY_LENGTH_MAX:
        raise ValidationError(
            {"Idempotency-Key": [f"Ensure this header has no more than {KEY_LENGTH_MAX} characters."]}
        )
    return key


def required_key(request):
    """The Idempotency-Key header, for the endpoints that need one."""
    key = received_key(request)
    if not key:
        raise ValidationError({"Idempotency-Key": ["This header is required."]})
    return key
