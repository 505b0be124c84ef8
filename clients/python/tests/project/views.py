"""One payment, guarded in every form that views have."""

import os
import time

from django.db import connection, transaction
from django.http import HttpResponse, JsonResponse, StreamingHttpResponse
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from prometheus_client import generate_latest
from rest_framework.decorators import action, api_view
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import ViewSet

from oncegate.django import exempt, idempotent
from project.crash import crash_at
from project.models import Account, Payment


def pay(request):
    """The payment, and what a test wants to go wrong behind it."""
    body = request.data if hasattr(request, "data") else {}
    crash_at("before insert")
    payment = Payment.objects.create(key=request.headers.get("Idempotency-Key", ""), amount=body.get("amount", 5))
    crash_at("after insert")
    # Stalls as long as there is this file. Only the first attempt does: a takeover finds the way clear.
    attempt = getattr(request, "oncegate", None)
    while os.path.exists(body.get("stall", "")) and (attempt is None or not attempt.is_takeover):
        time.sleep(0.02)
    fail(body.get("fail"))
    return {"id": payment.pk, "attempt": getattr(attempt, "number", None)}


def fail(how):
    if how == "validation":
        raise ValidationError({"amount": ["too much"]})
    if how == "bug":
        raise ZeroDivisionError
    if how == "unavailable":
        error = APIException("not now")
        error.status_code = 503
        raise error
    if how == "aborted":
        # Catches the error, but PostgreSQL has aborted the transaction.
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1/0")
        except Exception:
            raise RefusedError from None


class RefusedError(Exception):
    """The view makes a 409 of a database error that it has caught."""


def created(request):
    try:
        return Response(pay(request), 201, headers={"Location": "/payments/1", "X-Trace": "first"})
    except RefusedError:
        return Response({"detail": "refused"}, 409)


@api_view(["POST", "GET"])
@idempotent
def inside(request):
    return created(request)


@idempotent
@api_view(["POST"])
def outside(request):
    return created(request)


@never_cache
@idempotent
@csrf_exempt
@api_view(["POST"])
def between(request):
    return created(request)


class MethodView(APIView):
    @idempotent
    def post(self, request):
        return created(request)


@idempotent
class ClassView(APIView):
    def post(self, request):
        return created(request)


class UnguardedView(APIView):
    def post(self, request):
        return created(request)


class Payments(ViewSet):
    @idempotent
    def create(self, request):
        return created(request)

    @action(detail=False, methods=["post"])
    @idempotent
    def guarded_inside(self, request):
        return created(request)

    @idempotent
    @action(detail=False, methods=["post"])
    def guarded_outside(self, request):
        return created(request)

    @action(detail=False, methods=["post"])
    def unguarded(self, request):
        return created(request)


@csrf_exempt
@idempotent
def plain(request):
    return JsonResponse(pay(request), status=201)


class PlainView(View):
    @method_decorator(csrf_exempt)
    def dispatch(self, *args, **kwargs):
        return super().dispatch(*args, **kwargs)

    @idempotent
    def post(self, request):
        return JsonResponse(pay(request), status=201)


@csrf_exempt
def plain_unguarded(request):
    return JsonResponse(pay(request), status=201)


@exempt
@csrf_exempt
def exempted(request):
    return JsonResponse(pay(request), status=201)


@api_view(["POST"])
def waits(request):
    """What repeats often do instead: each waits for a lock, in a thread of a worker. For scripts/bench-waiting."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [request.headers["Idempotency-Key"]]
            )
        made = Payment.objects.filter(key=request.headers["Idempotency-Key"]).first()
        return Response({"id": made.pk if made else pay(request)["id"]}, 201)


@api_view(["POST"])
@idempotent(enter=True)
def entered(request):
    return created(request)


@api_view(["POST"])
@idempotent(required=True, anonymous="reject", ignore=["/sent_at"], replay_headers=["X-Trace"])
def strict(request):
    return created(request)


@api_view(["POST"])
@idempotent
def returns(request):
    """Pays, and answers the status that it is told."""
    pay(request)
    return Response({"told": True}, request.data["status"])


@api_view(["POST"])
@idempotent(stored_body_bytes_max=10)
def lengthy(request):
    return Response({**pay(request), "text": "x" * 100}, 201)


@csrf_exempt
@idempotent
def streams(request):
    pay(request)
    return StreamingHttpResponse(iter([b"a", b"b"]), status=201)


@api_view(["POST"])
@idempotent
def rolls_back(request):
    """Answers a success after it has undone it."""
    payment = pay(request)
    transaction.set_rollback(True)
    return Response(payment, 201)


@api_view(["POST"])
@idempotent
def hooked(request):
    """Notes what there is when it is committed."""
    key = request.headers["Idempotency-Key"]

    def note():
        assert connection.get_autocommit()
        Payment.objects.create(key=f"{key}-hook", amount=Payment.objects.filter(key=key).count())

    transaction.on_commit(note)
    return created(request)


def orphan(request):
    """Leaves behind what the database refuses when it is committed."""
    Account.objects.create(user_id=-1)
    return created(request)


@api_view(["POST"])
@idempotent
def orphaned(request):
    return orphan(request)


@api_view(["POST"])
@idempotent(enter=True)
def orphaned_entered(request):
    return orphan(request)


def metrics(request):
    return HttpResponse(generate_latest())


def healthz(request):
    return HttpResponse("ok")


def transfer(request):
    """What a payment usually takes: who pays is known, has the money, and has less of it afterwards."""
    account, _ = Account.objects.select_for_update().get_or_create(user=request.user)
    payment = Payment.objects.create(key=request.headers.get("Idempotency-Key", ""), amount=request.data["amount"])
    account.balance -= payment.amount
    account.save(update_fields=["balance"])
    return Response({"id": payment.pk}, 201)


@api_view(["POST"])
@transaction.atomic
def transfer_unguarded(request):
    return transfer(request)


@api_view(["POST"])
@idempotent(enter=True)
def transfer_entered(request):
    return transfer(request)


@api_view(["POST"])
@idempotent
def transfer_claimed(request):
    return transfer(request)
