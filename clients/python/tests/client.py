"""A client that repeats."""

import http.client
import json
import re
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from servers.process import eventually

PARALLEL_MAX = 64

IDLE_SECONDS_MAX = 3
"""Less than Uvicorn keeps a connection that nobody uses, if nothing else is said."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def is_replay(self):
        return self.headers.get("idempotent-replayed") == "true"

    @property
    def problem(self):
        return self.headers.get("oncegate-problem")


class Client:
    """Talks to one server; the connection of a thread is kept, as phones do."""

    def __init__(self, address):
        self.address = address
        self.kept = threading.local()

    def post(self, path, key=None, payment=None, method="POST", **headers):
        """Sends one request; OSError or HTTPException when no whole answer comes."""
        fields = {"Content-Type": "application/json"}
        if key is not None:
            fields["Idempotency-Key"] = key
        fields.update({name.replace("_", "-"): value for name, value in headers.items() if value is not None})
        body = payment if isinstance(payment, bytes) else json.dumps(payment or {"amount": 5}).encode()
        connection = self._connection()
        try:
            # Who answers before the body has come may have closed the connection by then.
            with suppress(BrokenPipeError):
                connection.request(method, path, body, fields)
            response = connection.getresponse()
            if response.status == 500:
                # Uvicorn closes the connection behind it, and does not say so.
                self.kept.connection = None
            names = {name.lower(): value for name, value in response.getheaders()}
            answer = Answer(response.status, names, response.read())
            self.kept.since = time.monotonic()
            return answer
        except (OSError, http.client.HTTPException):
            self.kept.connection = None
            connection.close()
            raise

    def post_until_decided(self, path, key, seconds=60, **options):
        """Repeats until there is a success, as a client does whose connection breaks or that is told 409 or 5xx."""

        def decided():
            try:
                answer = self.post(path, key, **options)
            except (OSError, http.client.HTTPException):
                return None
            return answer if answer.status < 300 else None

        return eventually(decided, seconds)

    def outlived(self, application, path, key):
        """Has a worker stall until a repeat has taken over; answers the success that both are told."""
        with tempfile.NamedTemporaryFile() as stall:
            payment, zombie = {"amount": 5, "stall": stall.name}, []
            worker = threading.Thread(target=lambda: zombie.append(self.post(path, key, payment)))
            worker.start()
            eventually(lambda: application.query("SELECT 1 FROM oncegate.abandoned"))
            taken_over = self.post_until_decided(path, key, payment=payment)
        worker.join()

        assert taken_over.json["attempt"] == 2
        assert (zombie[0].status, zombie[0].is_replay, zombie[0].body) == (201, True, taken_over.body)
        return taken_over

    def storm(self, path, keys, repeats, **options):
        """Sends each key this many times at once; answers what came back, by key."""
        wanted = [key for key in keys for _ in range(repeats)]
        with ThreadPoolExecutor(min(PARALLEL_MAX, len(wanted))) as pool:
            came = list(pool.map(lambda key: (key, self.post(path, key, **options)), wanted))
        return {key: [answer for other, answer in came if other == key] for key in keys}

    def outcomes(self):
        """What the server has counted, by route and outcome."""
        text = self.post("/metrics", method="GET").body.decode()
        found = re.findall(r'^oncegate_requests_total\{outcome="(\w+)",route="(.*)"\} (\d+)', text, re.MULTILINE)
        return {(route, outcome): int(times) for outcome, route, times in found}

    def _connection(self):
        kept = getattr(self.kept, "connection", None)
        if kept is not None and time.monotonic() - self.kept.since > IDLE_SECONDS_MAX:
            kept.close()
            kept = None
        if kept is None:
            kept = http.client.HTTPConnection(self.address, timeout=60)
            self.kept.connection, self.kept.since = kept, time.monotonic()
        return kept
