"""What the guard does inside of a process: retries around it, who calls, what is logged and counted."""

import functools

from django.db import OperationalError
from django.http import JsonResponse
from django.test import RequestFactory, TransactionTestCase

from oncegate.django import idempotent
from project.models import Payment


def sent(key="key", path="/pay", **headers):
    """A request with a key, None: without."""
    named = {f"HTTP_{name.upper()}": value for name, value in headers.items()}
    if key is not None:
        named["HTTP_IDEMPOTENCY_KEY"] = key
    return RequestFactory().post(path, {"amount": 5}, content_type="application/json", **named)


def pay(request):
    payment = Payment.objects.create(key=request.headers.get("Idempotency-Key", ""), amount=5)
    return JsonResponse({"id": payment.pk}, status=201)


def retried(view):
    """As one retries after a deadlock."""

    @functools.wraps(view)
    def again(request):
        try:
            return view(request)
        except OperationalError:
            return view(request)

    return again


def deadlocked_once(view):
    runs = []

    def deadlocked(request):
        runs.append(request)
        response = view(request)
        if len(runs) == 1:
            raise OperationalError("deadlock detected")
        return response

    return deadlocked


class RetryTests(TransactionTestCase):
    def test_a_retry_around_the_guard_is_guarded_as_the_first_run_is(self):
        for enter in (False, True):
            with self.subTest(enter=enter):
                key = f"retried-{enter}"
                view = retried(idempotent(enter=enter)(deadlocked_once(pay)))
                first, repeat = view(sent(key)), view(sent(key))
                self.assertEqual((first.status_code, repeat.content), (201, first.content))
                self.assertEqual(repeat.headers.get("Idempotent-Replayed"), "true")
                self.assertEqual(Payment.objects.filter(key=key).count(), 1)

    def test_a_guard_inside_of_another_leaves_the_work_to_it(self):
        view = idempotent(idempotent(pay))
        first, repeat = view(sent("inside")), view(sent("inside"))
        self.assertEqual((first.status_code, repeat.content), (201, first.content))
        self.assertEqual(Payment.objects.filter(key="inside").count(), 1)
