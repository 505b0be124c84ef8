"""A payment service that completes the gateway's record in the transaction of the payment.

Run it behind `oncegate serve`, on a route with `backend = "transactional"` and with its store in the same database.
One process per request, so that it needs nothing but the standard library and psycopg; a real service has a pool.
"""

import json
import os
import socketserver
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

import psycopg

# What PostgreSQL reads of its own environment: PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE.
DATABASE = os.environ.get("DATABASE", "")

CREATE_TABLE = "CREATE TABLE IF NOT EXISTS payments (id bigserial PRIMARY KEY, key text NOT NULL, amount int NOT NULL)"
INSERT = "INSERT INTO payments (key, amount) VALUES (coalesce(%s, 'no key'), %s) RETURNING id"
COMPLETE = "SELECT oncegate.complete(%s::uuid, %s::bigint, %s::int, %s::jsonb, %s::bytea)"

# Raised by oncegate.complete unless this very call completed the record.
FENCED = "OG001"


class Payments(BaseHTTPRequestHandler):
    def do_POST(self):
        amount = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["amount"]
        # Answers only after the commit.
        self.answer(*self.pay(amount))

    def pay(self, amount):
        """The payment and the answer to it, in one transaction."""
        try:
            # Commits at its end; an exception rolls everything back.
            with psycopg.connect(DATABASE) as connection:
                status, body = 201, self.insert(connection, amount)
                self.complete(connection, status, body)
            return status, body
        except psycopg.Error as error:
            if error.sqlstate == FENCED:
                # Another attempt has the record. The gateway answers what the record says.
                return 409, b'{"error": "another attempt has this payment"}'
            # Nothing is committed, or its answer was lost. The gateway looks at the record before it believes this.
            return 500, b'{"error": "the database failed"}'

    def insert(self, connection, amount):
        (payment,) = connection.execute(INSERT, [self.headers["Idempotency-Key"], amount]).fetchone()
        return json.dumps({"payment": payment, "amount": amount}).encode()

    def complete(self, connection, status, body):
        # Without the headers the request is not guarded: it has no key, or the gateway is not in front.
        if record := self.headers["Oncegate-Record"]:
            headers = json.dumps([["content-type", "application/json"]])
            connection.execute(COMPLETE, [record, int(self.headers["Oncegate-Fence"]), status, headers, body])

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


class Server(socketserver.ForkingMixIn, HTTPServer):
    request_queue_size = 128
    max_children = 400


def serve(handler):
    with psycopg.connect(DATABASE) as connection:
        connection.execute(CREATE_TABLE)
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    with Server(("127.0.0.1", port), handler) as server:
        print(f"listening on 127.0.0.1:{server.server_port}", file=sys.stderr, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    serve(Payments)
