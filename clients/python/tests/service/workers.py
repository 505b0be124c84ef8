"""Uvicorn in worker processes that are forked when the application is imported: one that was killed is back at once,
where Uvicorn's own supervisor takes seconds to import everything again.

    python -m service.workers COUNT
"""

import os
import signal
import socket
import sys

import uvicorn

from service.app import app


def main():
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    # Who stops this one stops its whole group.
    print(f"Uvicorn running on http://127.0.0.1:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
    workers = {fork(listener) for _ in range(int(sys.argv[1]))}
    while True:
        ended, _ = os.wait()
        workers.remove(ended)
        workers.add(fork(listener))


def fork(listener):
    if worker := os.fork():
        return worker
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    config = uvicorn.Config(app, access_log=False, timeout_keep_alive=75, log_level="warning")
    uvicorn.Server(config).run(sockets=[listener])
    os._exit(0)


main()
