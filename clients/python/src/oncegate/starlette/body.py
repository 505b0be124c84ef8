"""The body of a request, kept while whoever reads it reads it."""

from collections import deque

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from oncegate import problem
from oncegate.fingerprint import DECODED_BYTES_MAX
from oncegate.reading import Refused


class Body:
    """Stands between the server and the application; its `receive` takes the place of the server's."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._kept = bytearray()
        self._is_whole = False
        self._is_too_large = False
        self._ahead: deque[Message] = deque()

    async def receive(self) -> Message:
        """The next message; those that were read ahead come first."""
        return self._ahead.popleft() if self._ahead else await self._next()

    async def whole(self) -> bytes:
        """All of it, also what the application has not read yet. Refused above the limit; ClientDisconnect when the
        client leaves before the end."""
        while not self._is_whole:
            message = await self._next()
            self._ahead.append(message)
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
        if self._is_too_large:
            raise Refused(problem.request_too_large())
        return bytes(self._kept)

    async def _next(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._keep(message.get("body", b""))
            self._is_whole = not message.get("more_body", False)
        return message

    def _keep(self, piece: bytes) -> None:
        self._is_too_large = self._is_too_large or len(self._kept) + len(piece) > DECODED_BYTES_MAX
        if self._is_too_large:
            self._kept.clear()
        else:
            self._kept += piece
