"""Reads the raw bodies of requests, up to a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp.web import RequestPayloadError

if TYPE_CHECKING:
    from aiohttp import web


class TooLarge(Exception):  # noqa: N818 - the name of the answer
    """The body is longer than the limit. Its rest is lost with the connection."""


class Unreadable(Exception):  # noqa: N818 - the name of the answer
    """The client closed the connection in the middle of the body, or sent a malformed one."""


async def read_body(request: web.BaseRequest, *, limit_bytes: int) -> bytes:
    """The whole body.

    Raises `TooLarge` as soon as it is known to be longer than the limit, and `Unreadable` if its
    rest cannot be read.
    """
    if (request.content_length or 0) > limit_bytes:
        raise TooLarge
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0
    body = bytearray()
    try:
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > limit_bytes:
                raise TooLarge
    except (ConnectionError, RequestPayloadError) as error:
        raise Unreadable from error
    return bytes(body)
