"""What the guard does inside of a process: retries around it, who calls, what is logged and counted."""

import functools

from asgiref.sync import markcoroutinefunction
from django.contrib.auth.models import Group, User
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, connection, transaction
from django.http import JsonResponse
from django.test import Client, RequestFactory, TransactionTestCase, override_settings
from django.urls import path
from django.utils.functional import SimpleLazyObject
from django.views import View
from prometheus_client import CollectorRegistry

from oncegate.django import answered, exempt, idempotent
from oncegate.prometheus import RequestCounter
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


@idempotent
class GenericView(View):
    """As generic views do it: what answers the method calls what makes the object."""

    def post(self, request):
        return self.create(request)

    def create(self, request):
        return pay(request)


class CountedTests(TransactionTestCase):
    def setUp(self):
        self.registry = CollectorRegistry()
        self.connect(RequestCounter(self.registry))

    def connect(self, receiver):
        answered.connect(receiver, weak=False)
        self.addCleanup(answered.disconnect, receiver)

    def counted(self, name, **labels):
        return self.registry.get_sample_value(name, labels)

    def test_callers_that_nothing_identifies_are_counted_and_warned_about_once(self):
        view = idempotent(pay)
        view(sent("of-somebody", authorization="Bearer token"))
        with self.assertNoLogs("oncegate"):
            view(sent("of-somebody", authorization="Bearer token"))
        with self.assertLogs("oncegate", "WARNING") as logs:
            for _ in range(2):
                view(sent("of-nobody"))
        self.assertEqual(len(logs.records), 1)
        self.assertEqual(self.counted("oncegate_anonymous_requests_total"), 2)

    def test_a_request_without_a_key_is_counted_once_however_many_of_its_handlers_are_guarded(self):
        self.assertEqual(GenericView.as_view()(sent(None)).status_code, 201)
        self.assertEqual(self.counted("oncegate_requests_total", route="", outcome="bypassed"), 1)

    def test_what_fails_to_count_costs_no_answer(self):
        def broken(**_):
            raise ZeroDivisionError

        self.connect(broken)
        for key, told in [("not-counted", "true"), (None, None)]:
            first, repeat = (idempotent(pay)(sent(key)) for _ in range(2))
            self.assertEqual((first.status_code, repeat.status_code), (201, 201))
            self.assertEqual(repeat.headers.get("Idempotent-Replayed"), told)


class FailureTests(TransactionTestCase):
    def test_a_hook_of_the_commit_that_fails_is_heard_of_although_the_payment_stays(self):
        @idempotent
        def hooked(request):
            transaction.on_commit(lambda: 1 / 0)
            return pay(request)

        with self.assertLogs("oncegate", "ERROR") as logs:
            told = hooked(sent("hooked"))
        self.assertEqual((told.status_code, told["Idempotent-Replayed"]), (201, "true"))
        self.assertEqual([record.exc_info[0] for record in logs.records], [ZeroDivisionError])

    def test_a_connection_that_leads_to_a_standby_is_replaced(self):
        for enter, statuses in [(False, [201]), (True, [503, 201])]:
            with self.subTest(enter=enter):
                with connection.cursor() as cursor:
                    cursor.execute("SET default_transaction_read_only = on")
                view = idempotent(enter=enter)(pay)
                told = [view(sent(f"standby-{enter}")).status_code for _ in statuses]
                self.assertEqual(told, statuses)


@exempt
class ExemptView(View):
    def post(self, request):
        return pay(request)


class HeirView(ExemptView):
    pass


class AsyncView(View):
    async def post(self, request):
        return pay(request)


async def async_view(request):
    return pay(request)


urlpatterns = [
    path("pay", pay),
    path("exempt", ExemptView.as_view()),
    path("heir", HeirView.as_view()),
    path("async", async_view),
    path("async-class", AsyncView.as_view()),
]

MIDDLEWARE = ["django.middleware.csrf.CsrfViewMiddleware", "oncegate.django.IdempotencyMiddleware"]


@override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=MIDDLEWARE)
class MiddlewareTests(TransactionTestCase):
    def test_a_form_that_csrf_protection_has_read_is_compared(self):
        browser, token = Client(enforce_csrf_checks=True), "c" * 32
        browser.cookies["csrftoken"] = token

        def submitted(amount):
            form = {"amount": amount, "csrfmiddlewaretoken": token}
            return browser.post("/pay", form, HTTP_IDEMPOTENCY_KEY="form")

        first, repeat, other = submitted(5), submitted(5), submitted(6)
        self.assertEqual((first.status_code, repeat.content), (201, first.content))
        self.assertEqual(repeat["Idempotent-Replayed"], "true")
        self.assertEqual(other["Oncegate-Problem"], "mismatch")

    def test_without_the_middleware_a_form_that_was_read_is_refused_with_advice(self):
        request = RequestFactory().post("/pay", {"amount": 5}, HTTP_IDEMPOTENCY_KEY="read")
        self.assertEqual(request.POST["amount"], "5")
        with self.assertRaisesMessage(ImproperlyConfigured, "IdempotencyMiddleware last in MIDDLEWARE"):
            idempotent(pay)(request)

    def test_a_class_that_is_exempt_is_left_alone_with_all_that_inherit_from_it(self):
        for where in ("/exempt", "/heir"):
            for _ in range(2):
                self.client.post(where, HTTP_IDEMPOTENCY_KEY=where)
            self.assertEqual(Payment.objects.filter(key=where).count(), 2, where)

    def test_what_is_async_is_refused_before_there_is_a_claim(self):
        class Callable:
            def __call__(self, request): ...

        for view in (async_view, AsyncView, AsyncView.as_view(), markcoroutinefunction(Callable())):
            with self.assertRaisesMessage(ImproperlyConfigured, "is async"):
                idempotent(view)
        for where in ("/async", "/async-class"):
            with self.assertRaisesMessage(ImproperlyConfigured, "is async"):
                self.client.post(where, HTTP_IDEMPOTENCY_KEY="async")
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM oncegate.records WHERE key = 'async'")
            self.assertEqual(cursor.fetchone(), (0,))
