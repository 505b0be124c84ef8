"""What the guard does inside of a process: retries around it, who calls, what is logged and counted."""

import functools

from django.contrib.auth.models import Group, User
from django.db import OperationalError
from django.http import JsonResponse
from django.test import RequestFactory, TransactionTestCase
from django.utils.functional import SimpleLazyObject

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


class ClerkUser(User):
    class Meta:
        proxy = True
        app_label = "project"


class TokenUser:
    """No model, as users of signed tokens are."""

    pk = 5
    is_authenticated = True


class Merchant(Group):
    """Users of a second kind, with numbers of their own."""

    is_authenticated = True

    class Meta:
        proxy = True
        app_label = "project"


class CallerTests(TransactionTestCase):
    def paid(self, key, user):
        request = sent(key, authorization="Bearer of the first")
        if user is not None:
            request.user = user
        return idempotent(pay)(request)

    def test_users_of_two_kinds_with_one_number_are_two_callers(self):
        callers = [User(pk=5), Merchant(pk=5), TokenUser(), None]
        firsts = [self.paid("kinds", user) for user in callers]
        self.assertEqual([first.status_code for first in firsts], [201] * 4)
        repeats = [self.paid("kinds", user) for user in callers]
        self.assertEqual([repeat.content for repeat in repeats], [first.content for first in firsts])
        self.assertEqual(Payment.objects.filter(key="kinds").count(), 4)

    def test_one_user_is_one_caller_in_whatever_form_a_request_has_it(self):
        for kind in (User, TokenUser):
            made = {"pk": 6} if kind is User else {}
            wrapped = SimpleLazyObject(functools.partial(kind, **made))
            same = [kind(**made), wrapped] + [ClerkUser(pk=6)] * (kind is User)
            with self.subTest(kind):
                self.assertEqual(len({self.paid(kind.__name__, user).content for user in same}), 1)
