"""The example's service, which also does what a test asks for in the header `Misbehave`. Reports on standard error."""

import os
import signal
import sys

sys.path.insert(0, os.environ["EXAMPLE"])

import payments  # noqa: E402 - found by the line above


class Refused(Exception):
    """Rolls the transaction back."""


class Worker(payments.Payments):
    def pay(self, amount):
        try:
            status, body = super().pay(amount)
            if self.is_asked_to("deliver twice"):
                status, body = super().pay(amount)
        except Refused:
            return 500, b"refused"
        if status == 409:
            self.report("fenced")
        return status, body

    def insert(self, connection, amount):
        body = super().insert(connection, amount)
        if self.is_asked_to("stop before completing"):
            self.stop()
        return body

    def complete(self, connection, status, body):
        if self.is_asked_to("forget to complete"):
            return
        super().complete(connection, status, body)
        if self.is_asked_to("refuse"):
            raise Refused
        if self.is_asked_to("stop before committing"):
            self.stop()

    def answer(self, status, body):
        if self.is_asked_to("fail after the commit"):
            status, body = 500, b"failed"
        if self.is_asked_to("cut after the commit"):
            return
        if self.is_asked_to("stay silent after the commit"):
            # Until the gateway hangs up.
            self.rfile.read(1)
            return
        try:
            super().answer(status, body)
        except ConnectionError:
            # The gateway has given up on a worker that was stopped.
            self.close_connection = True

    def is_asked_to(self, deed):
        return self.headers["Misbehave"] == deed

    def stop(self):
        """Until somebody sends SIGCONT."""
        self.report("stops")
        os.kill(os.getpid(), signal.SIGSTOP)

    def report(self, event):
        os.write(2, f"{event} {self.headers['Idempotency-Key']} {os.getpid()}\n".encode())


if __name__ == "__main__":
    payments.serve(Worker)
