"""ASGI's messages of a response as a proxy answer, which is stored, and back."""

from __future__ import annotations

import base64
import sys
from typing import TYPE_CHECKING, Any

from oncekey.http.event import Shape
from oncekey.http.headers import header_lines, with_cookies_for
from oncekey.problem import NotNowBytes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping

    from oncekey.http.answer import Answer

    Message = MutableMapping[str, Any]
    Send = Callable[[Message], Awaitable[None]]

_EVENT_STREAM = "text/event-stream"
# RFC 9110, sections 15.3.5 and 15.4.5: these have neither a body nor its length.
_BODILESS = frozenset({204, 304})


class Collected:
    """The response that an app sends, held back until the app has ended."""

    def __init__(self) -> None:
        self._status: int | None = None
        self._headers: list[tuple[str, str]] = []
        self._parts: list[bytes] = []
        self._is_whole = False
        self._outside = sys.exception()
        # Whether the app answers an exception. It then sends while it handles the exception.
        self.is_for_exception = False

    async def send(self, message: Message) -> None:
        """Take one message of the app. See `take`."""
        self.take(message)

    def take(self, message: Message) -> None:
        """Take one message of the app.

        Raises:
            TypeError: the response is a stream of events, which has no end to store, or the
                message is no part of a response.
        """
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self.is_for_exception = sys.exception() is not self._outside
            self._headers = [
                (bytes(name).decode("latin-1").lower(), bytes(value).decode("latin-1"))
                for name, value in message.get("headers", ())
            ]
            if any(n == "content-type" and v.startswith(_EVENT_STREAM) for n, v in self._headers):
                raise TypeError(
                    "oncekey: a stream of events cannot be stored and replayed: answer with a whole"
                    " body, or leave the route unprotected with routes={'POST /...': None}"
                )
        elif message["type"] == "http.response.body":
            part = message.get("body", b"")
            self._parts.append(part if type(part) is NotNowBytes else bytes(part))
            self._is_whole = not message.get("more_body", False)
        else:
            raise TypeError(f"oncekey: a message {message['type']!r} cannot be stored and replayed")

    def answer(self) -> Answer:
        """The whole response.

        Raises:
            TypeError: the app sent none, or not all of it.
        """
        if self._status is None:
            raise TypeError("oncekey: the app ended without a response")
        if not self._is_whole:
            raise TypeError("oncekey: the app ended before the end of its response's body")
        parts = [part for part in self._parts if part]
        # If the app passes on another operation's refusal, it is still known as one.
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        many: dict[str, list[str]] = {}
        for name, value in self._headers:
            many.setdefault(name, []).append(value)
        many.pop("content-length", None)
        cookies = many.pop("set-cookie", None)
        answer: Answer = {
            "statusCode": self._status,
            "headers": {name: values[0] for name, values in many.items() if len(values) == 1},
            **_as_text(body),
        }
        repeated = {name: values for name, values in many.items() if len(values) > 1}
        if cookies:
            repeated["set-cookie"] = cookies
        if repeated:
            answer["multiValueHeaders"] = repeated
        return answer


class PassedOn:
    """The response of an app that runs without a record, on its way to the server.

    It is held back if the handler has collected writes when it begins: they are applied after the
    app has ended, and until then no client may be told of a success.

    Attributes:
        status_code: its status, which decides whether they are applied.
        has_begun: whether a part of it was sent on.
        is_for_exception: as for `Collected`.
        is_our_refusal: whether it is the refusal of another operation, passed on.
    """

    def __init__(self, send: Send, has_collected: Callable[[], bool]) -> None:
        self.status_code: int | None = None
        self.has_begun = False
        self.is_for_exception = False
        self.is_our_refusal = False
        self._send = send
        self._has_collected = has_collected
        self._held: list[Message] | None = None
        self._outside = sys.exception()

    async def send(self, message: Message) -> None:
        """Send one message of the app on, or hold it back."""
        if message["type"] == "http.response.start":
            self.status_code = message["status"]
            self.is_for_exception = sys.exception() is not self._outside
            self._held = [] if self._has_collected() else None
        elif type(body := message.get("body")) is NotNowBytes:
            self.is_our_refusal = body.text.status == self.status_code
        if self._held is not None:
            self._held.append(message)
            return
        self.has_begun = True
        await self._send(message)

    @property
    def as_answer(self) -> Answer | None:
        """What is held back, as an author's rule reads it; None if the response was sent on.

        Raises:
            TypeError: as for `Collected`.
        """
        if self._held is None:
            return None
        whole = Collected()
        for message in self._held:
            whole.take(message)
        return whole.answer()

    async def release(self) -> None:
        """Send what was held back."""
        for message in self._held or ():
            await self._send(message)


async def send_answer(answer: Mapping[str, Any], send: Send) -> None:
    """Send `answer`, which may have been stored for an event of any shape."""
    status, body = int(answer["statusCode"]), _as_bytes(answer)
    lines = [(n, v) for n, v in _lines(answer) if n.lower() != "content-length"]
    if status not in _BODILESS:
        lines.append(("content-length", str(len(body))))
    headers = [(n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in lines]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _lines(answer: Mapping[str, Any]) -> list[tuple[str, str]]:
    unified = with_cookies_for(dict(answer), Shape.PAYLOAD_2)
    return [
        *((name, line) for name, lines in header_lines(unified).items() for line in lines),
        *(("set-cookie", cookie) for cookie in unified.get("cookies") or ()),
    ]


def _as_text(body: bytes) -> dict[str, Any]:
    if type(body) is NotNowBytes:
        return {"body": body.text, "isBase64Encoded": False}
    # Text that is valid UTF-8 becomes the same bytes again.
    try:
        return {"body": body.decode("utf-8"), "isBase64Encoded": False}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode("ascii"), "isBase64Encoded": True}


def _as_bytes(answer: Mapping[str, Any]) -> bytes:
    text: str = answer.get("body") or ""
    if answer.get("isBase64Encoded"):
        return base64.b64decode(text)
    return text.encode("utf-8")
