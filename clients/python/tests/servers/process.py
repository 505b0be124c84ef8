"""A server in a process of its own: awaited by what it logs, and stopped with its test."""

import collections
import contextlib
import os
import signal
import subprocess
import threading
import time

START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30


class ServerProcess:
    """Started, and ready; `stop` ends it by its id and waits for its end."""

    def __init__(self, command, ready, stop=signal.SIGQUIT, **options):
        self._signal = stop
        self.log = collections.deque(maxlen=200)
        self._found = None
        self._known = threading.Event()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )
        self._reader = threading.Thread(target=self._follow, args=(ready,), daemon=True)
        self._reader.start()
        self._known.wait(START_SECONDS_MAX)
        if self._found is None:
            self.stop()
            raise RuntimeError("it did not start:\n" + "".join(self.log))

    @property
    def found(self):
        """What `ready` found in the log."""
        return self._found

    @property
    def pid(self):
        """Of the process; it may have children."""
        return self._process.pid

    def stop(self):
        """Ends it and all its children at once: SIGQUIT where they clean up behind themselves, then SIGKILL."""
        if self._process.poll() is None:
            self._process.send_signal(self._signal)
        try:
            self._process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        # Children that outlive it are in its own group, and in nobody else's.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        # The log ends when the last child has ended.
        self._reader.join(STOP_SECONDS_MAX)

    def terminate(self):
        """Asks it to end, as whoever deploys does."""
        self._process.terminate()

    def _follow(self, ready):
        for line in self._process.stderr:
            self.log.append(line)
            if self._found is None and (found := ready(line)) is not None:
                self._found = found
                self._known.set()
        self._known.set()


def eventually(condition, seconds=60):
    """Waits until a condition holds, and answers what it said."""
    deadline = time.monotonic() + seconds
    while not (held := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"did not come to hold within {seconds} s")
        time.sleep(0.02)
    return held
