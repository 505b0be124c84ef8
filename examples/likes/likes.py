"""Counts likes. Each POST adds one: that a request is a repeat is known to the gate, and not to this service."""

import json
import sys
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock


class Likes(BaseHTTPRequestHandler):
    counts, lock = Counter(), Lock()

    def do_POST(self):
        with self.lock:
            self.counts[self.path] += 1
            count = self.counts[self.path]
        self.answer(201, count)

    def do_GET(self):
        self.answer(200, self.counts[self.path])

    def answer(self, status, count):
        body = json.dumps({"likes": count}).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    ThreadingHTTPServer(("127.0.0.1", port), Likes).serve_forever()
