"""The transport for httpx, sync and async."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import anyio
import httpx

from oncekey.client.retrying import (
    BodyNotReplayable,
    Retrying,
    check_retrying,
    is_certificate_refused,
)
from oncekey.clock import SystemClock
from oncekey.errors import ConfigurationError

if TYPE_CHECKING:
    from oncekey.client.retrying import Tries

_TRANSPORTS = (httpx.BaseTransport, httpx.AsyncBaseTransport)
# These are mistakes of the caller, and would be made again.
_NOT_TRANSIENT = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)


class IdempotentTransport(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Sends each request under one key, and again under the same key until it is answered.

        httpx.Client(transport=IdempotentTransport(), timeout=35)
        httpx.AsyncClient(transport=IdempotentTransport(), timeout=35)

    A request gets a key, unless it has one already, and keeps it in `request.headers`. It is sent
    again after a connection error, a timeout, a 5xx, 408, 409, 425 or 429, unless the answer says
    that this does not help (`retryable`, `Stripe-Should-Retry`, or it is a stored answer). A
    request that changes something and has no key is sent once. After the last try, its answer is
    returned or its error raised.

    The answer to a request with a key is read as a whole before it is returned. So an answer that
    breaks off is asked for again.

    `httpx.Client(proxy=...)` sends through a transport of its own, so wrap one that has the proxy:
    `IdempotentTransport(httpx.HTTPTransport(proxy=...))`. The same holds for `mounts=`, and for
    `verify=` and `cert=`, which a client with a transport ignores.

    Args:
        wrapped: what sends the requests, by default `httpx.HTTPTransport()`, or for an
            `AsyncClient` `httpx.AsyncHTTPTransport()`.
        retrying: how long and how often.

    Raises:
        ConfigurationError: an argument is wrong.
        BodyNotReplayable: the body of a request can be read only once. Nothing was sent.
    """

    def __init__(
        self,
        wrapped: httpx.BaseTransport | httpx.AsyncBaseTransport | None = None,
        *,
        retrying: Retrying | None = None,
    ) -> None:
        given: object = wrapped
        if given is not None and not isinstance(given, _TRANSPORTS):
            fault = f"wrapped is a {type(given).__name__}: pass a transport, as HTTPTransport() is"
            raise ConfigurationError("IdempotentTransport", [fault])
        check_retrying("IdempotentTransport", retrying)
        self._sync = wrapped if isinstance(wrapped, httpx.BaseTransport) else None
        self._async = wrapped if isinstance(wrapped, httpx.AsyncBaseTransport) else None
        self._is_default = wrapped is None
        self._retrying = retrying or Retrying()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send `request` until it is answered."""
        if self._sync is None and self._is_default:
            self._sync = httpx.HTTPTransport()
        if self._sync is None:
            raise TypeError("a Client needs IdempotentTransport around a sync transport")
        tries = self._retrying.begin(request.method, request.headers)
        if tries.may_repeat and _must_be_read(request):
            request.read()
        while True:
            try:
                response, body = self._sync.handle_request(request), b""
                if tries.is_keyed and response.is_stream_consumed:
                    body = response.content  # it was made with its content, as those of tests are
                elif tries.is_keyed:
                    raw = b"".join(response.iter_raw())
                    response.close()
                    response, body = _whole(response, raw), _decoded(response, raw)
            except httpx.TransportError as error:
                pause_ms = _pause_after(error, tries)
                if pause_ms is None:
                    raise
            else:
                pause_ms = tries.pause_after(response.status_code, response.headers, body)
                if pause_ms is None:
                    return response
                response.close()
            self._retrying.clock.pause(pause_ms)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send `request` until it is answered."""
        if self._async is None and self._is_default:
            self._async = httpx.AsyncHTTPTransport()
        if self._async is None:
            raise TypeError("an AsyncClient needs IdempotentTransport around an async transport")
        tries = self._retrying.begin(request.method, request.headers)
        if tries.may_repeat and _must_be_read(request):
            await request.aread()
        while True:
            try:
                response, body = await self._async.handle_async_request(request), b""
                if tries.is_keyed and response.is_stream_consumed:
                    body = response.content
                elif tries.is_keyed:
                    raw = b"".join([piece async for piece in response.aiter_raw()])
                    await response.aclose()
                    response, body = _whole(response, raw), _decoded(response, raw)
            except (httpx.TransportError, ssl.SSLError) as error:
                pause_ms = _pause_after(error, tries)
                if pause_ms is None and isinstance(error, ssl.SSLError):
                    # httpx passes on a broken record of TLS as it is, without the request.
                    raise httpx.ReadError(str(error), request=request) from error
                if pause_ms is None:
                    raise
            else:
                pause_ms = tries.pause_after(response.status_code, response.headers, body)
                if pause_ms is None:
                    return response
                await response.aclose()
            await self._async_pause(pause_ms)

    def close(self) -> None:
        """Close the wrapped transport."""
        if self._sync:
            self._sync.close()

    async def aclose(self) -> None:
        """The same for an async one."""
        if self._async:
            await self._async.aclose()

    async def _async_pause(self, pause_ms: int) -> None:
        clock = self._retrying.clock
        if isinstance(clock, SystemClock):
            await anyio.sleep(pause_ms / 1000)
        else:
            clock.pause(pause_ms)


def _pause_after(error: httpx.TransportError | ssl.SSLError, tries: Tries) -> int | None:
    is_over = isinstance(error, _NOT_TRANSIENT) or is_certificate_refused(error)
    return None if is_over else tries.pause_after_error()


def _must_be_read(request: httpx.Request) -> bool:
    """Whether the body has to be read into memory before it can be sent twice.

    Raises:
        BodyNotReplayable: it is of unknown length, so it may be endless.
    """
    if isinstance(request.stream, httpx.ByteStream):
        return False
    if "Content-Length" not in request.headers:
        raise BodyNotReplayable(request.method, str(request.url))
    return True


def _whole(response: httpx.Response, raw: bytes) -> httpx.Response:
    return httpx.Response(
        response.status_code,
        headers=response.headers,
        stream=httpx.ByteStream(raw),
        extensions=response.extensions,
    )


def _decoded(response: httpx.Response, raw: bytes) -> bytes:
    try:
        return _whole(response, raw).read()
    except httpx.DecodingError:
        return b""  # the caller meets the same error when reading the answer
