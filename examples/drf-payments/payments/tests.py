"""What the four endpoints do one request at a time, and what a repeat does that arrives while the first is at work."""

from unittest import mock

from django.test import TransactionTestCase, override_settings
from rest_framework.test import APIClient

from payments import card_network

PLAIN = "/api/payments"
NAIVE = "/api/naive/payments"
GET_OR_CREATE = "/api/get-or-create/payments"
ONCE = "/api/once/payments"
ALL = (PLAIN, NAIVE, GET_OR_CREATE, ONCE)
PAYMENT = {"amount": "12.50", "currency": "EUR"}


@override_settings(PAYMENT_DELAY_MS=0)
class PaymentTests(TransactionTestCase):
    """Transactions are real, since an IntegrityError must end the request's own and no other."""

    client_class = APIClient

    def setUp(self):
        self.client.raise_request_exception = False  # a client sees the 500, not the traceback

    def post(self, path, key, payment=PAYMENT):
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.client.post(path, payment, format="json", headers=headers)

    def post_with_a_repeat_on_the_way(self, path, key):
        """Sends a request and, while its card network call runs, the same request again; returns both answers."""
        repeats = []

        def repeat(**_):
            network.side_effect = None
            repeats.append(self.post(path, key))

        with mock.patch.object(card_network, "authorise", side_effect=repeat) as network:
            first = self.post(path, key)
        return first, repeats[0]

    def count(self, **query):
        return self.client.get("/count", query).json()["count"]

    def test_a_payment_is_created_and_found_at_its_location(self):
        for path in ALL:
            with self.subTest(path):
                response = self.post(path, f"key-of-{path}")
                self.assertEqual(response.status_code, 201)
                body = response.json()
                self.assertEqual(body, {**PAYMENT, "id": body["id"], "key": f"key-of-{path}"})
                self.assertEqual(self.client.get(response["Location"]).json(), body)

    def test_a_refused_payment_leaves_no_row(self):
        wrong = [
            {"amount": "0.00", "currency": "EUR"},
            {"amount": "-1.00", "currency": "EUR"},
            {"amount": "1.005", "currency": "EUR"},
            {"amount": "NaN", "currency": "EUR"},
            {"amount": "a lot", "currency": "EUR"},
            {"currency": "EUR"},
            {"amount": "12.50", "currency": "euro"},
            {"amount": "12.50"},
            [PAYMENT],
        ]
        for path in ALL:
            for number, payment in enumerate(wrong):
                with self.subTest(path, payment=payment):
                    self.assertEqual(self.post(path, f"refused-{number}", payment).status_code, 400)
        self.assertEqual(self.count(), 0)

    def test_a_key_is_required_only_where_it_is_used(self):
        self.assertEqual(self.post(PLAIN, None).status_code, 201)
        self.assertEqual(self.post(NAIVE, None).status_code, 400)
        self.assertEqual(self.post(GET_OR_CREATE, None).status_code, 400)
        self.assertEqual(self.post(ONCE, None).status_code, 400)

    def test_a_key_longer_than_the_column_is_refused(self):
        for path in ALL:
            with self.subTest(path):
                self.assertEqual(self.post(path, "k" * 255).status_code, 201)
                self.assertEqual(self.post(path, "k" * 256).status_code, 400)

    def test_payments_are_counted_by_key_and_in_all(self):
        for key in ("one", "two", "two"):
            self.post(PLAIN, key)
        self.assertEqual(self.count(key="one"), 1)
        self.assertEqual(self.count(key="two"), 2)
        self.assertEqual(self.count(key="never sent"), 0)
        self.assertEqual(self.count(), 3)

    def test_without_idempotency_every_repeat_is_another_payment(self):
        self.assertNotEqual(self.post(PLAIN, "same").json()["id"], self.post(PLAIN, "same").json()["id"])
        self.assertEqual(self.count(key="same"), 2)

    def test_a_repeat_after_the_first_answer_gets_that_answer(self):
        """Which is why all three look right when they are tried by hand."""
        for path in (NAIVE, GET_OR_CREATE, ONCE):
            with self.subTest(path):
                first, repeat = self.post(path, path), self.post(path, path)
                self.assertEqual((repeat.status_code, repeat.json()), (201, first.json()))
                self.assertEqual(self.count(key=path), 1)

    def test_naive_a_repeat_on_the_way_charges_again_and_one_of_both_answers_500(self):
        with self.assertLogs("django.request", "ERROR"):
            first, repeat = self.post_with_a_repeat_on_the_way(NAIVE, "same")
        self.assertEqual(repeat.status_code, 201)
        self.assertEqual(first.status_code, 500)
        self.assertEqual(self.count(key="same"), 2)

    def test_get_or_create_a_repeat_on_the_way_charges_again_and_answers_another_payment(self):
        first, repeat = self.post_with_a_repeat_on_the_way(GET_OR_CREATE, "same")
        self.assertEqual((first.status_code, repeat.status_code), (201, 201))
        self.assertNotEqual(first.json()["id"], repeat.json()["id"])
        self.assertEqual(self.count(key="same"), 2)

    def test_once_a_repeat_on_the_way_is_told_to_wait_and_then_gets_the_first_answer(self):
        first, repeat = self.post_with_a_repeat_on_the_way(ONCE, "together")
        self.assertEqual((first.status_code, repeat.status_code), (201, 409))
        self.assertEqual(repeat["Retry-After"], "2")
        again = self.post(ONCE, "together")
        self.assertEqual((again.status_code, again.content), (201, first.content))
        self.assertEqual(again["Idempotent-Replayed"], "true")
        self.assertEqual(self.count(key="together"), 1)

    def test_once_a_payment_that_fails_is_made_by_the_repeat(self):
        with (
            mock.patch.object(card_network, "authorise", side_effect=TimeoutError),
            self.assertLogs("django.request", "ERROR"),
        ):
            self.assertEqual(self.post(ONCE, "fails").status_code, 500)
        self.assertEqual(self.post(ONCE, "fails").status_code, 201)
        self.assertEqual(self.count(key="fails"), 1)

    def test_once_the_card_network_hears_the_same_key_from_every_attempt(self):
        keys = []
        for outcome in (TimeoutError, None):
            with mock.patch.object(card_network, "authorise", side_effect=outcome) as network:
                self.post(ONCE, "card")
            keys.append(network.call_args.kwargs["key"])
        self.assertIsNotNone(keys[0])
        self.assertEqual(keys[0], keys[1])

    def test_once_another_payment_under_the_key_is_refused(self):
        self.assertEqual(self.post(ONCE, "other").status_code, 201)
        self.assertEqual(self.post(ONCE, "other", {**PAYMENT, "amount": "99.00"}).status_code, 422)
        self.assertEqual(self.count(key="other"), 1)

    def test_the_service_says_that_it_is_up(self):
        self.assertEqual(self.client.get("/healthz").status_code, 200)
