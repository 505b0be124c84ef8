"""Tests as an application has them, with Django's own runner."""

from django.db import connection
from django.test import TestCase, TransactionTestCase
from django.test.utils import CaptureQueriesContext


class Repeats:
    def post(self, path, key, fail="nothing"):
        self.client.raise_request_exception = False
        headers = {"HTTP_IDEMPOTENCY_KEY": key}
        return self.client.post(path, {"fail": fail}, content_type="application/json", **headers)


class EnteredTests(Repeats, TestCase):
    """The whole test is one transaction, and the claim a part of it."""

    def test_a_repeat_gets_the_first_answer(self):
        first, repeat = self.post("/entered", "key"), self.post("/entered", "key")
        self.assertEqual((first.status_code, repeat.content), (201, first.content))
        self.assertEqual(repeat["Idempotent-Replayed"], "true")

    def test_what_fails_leaves_the_test_usable(self):
        with self.assertLogs("django.request", "ERROR"):
            self.assertEqual(self.post("/entered", "key", "bug").status_code, 500)
        self.assertEqual(self.post("/entered", "key", "validation").status_code, 400)


class ClaimedTests(Repeats, TransactionTestCase):
    def test_a_repeat_gets_the_first_answer(self):
        first, repeat = self.post("/inside", "key"), self.post("/inside", "key")
        self.assertEqual((first.status_code, repeat.content), (201, first.content))

    def test_the_completion_and_the_commit_are_one_round_trip(self):
        with CaptureQueriesContext(connection) as sent:
            self.assertEqual(self.post("/plain", "another").status_code, 201)
        completions = [query["sql"] for query in sent if "oncegate.complete(" in query["sql"]]
        self.assertEqual([sql.endswith("; COMMIT") for sql in completions], [True])


class ClaimedInsideTests(Repeats, TestCase):
    """The claim commits beside the test's transaction, whose completion nobody else sees."""

    def test_a_repeat_is_told_to_wait(self):
        self.assertEqual([self.post("/inside", "of its own").status_code for _ in range(2)], [400, 400])
        self.assertEqual([self.post("/inside", "its-own").status_code for _ in range(2)], [201, 409])
