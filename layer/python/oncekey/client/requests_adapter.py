"""The adapter for requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from requests import exceptions
from requests.adapters import BaseAdapter, HTTPAdapter

from oncekey.client.retrying import (
    BodyNotReplayable,
    Retrying,
    check_retrying,
    is_certificate_refused,
)
from oncekey.errors import ConfigurationError

if TYPE_CHECKING:
    from requests import PreparedRequest, Response

_TRANSIENT = (exceptions.ConnectionError, exceptions.Timeout, exceptions.ChunkedEncodingError)


class IdempotentAdapter(BaseAdapter):
    """Sends each request under one key, and again under the same key until it is answered.

        session.mount("https://", IdempotentAdapter())

    It does for a `Session` of requests what `IdempotentTransport` does for httpx. The key is in
    `response.request.headers`, or in `error.request.headers` if there is no answer. requests has
    no timeout unless you pass one: `session.post(url, timeout=35)`.

    Args:
        wrapped: what sends the requests, by default `HTTPAdapter()`, which does not retry.
        retrying: how long and how often.

    Raises:
        ConfigurationError: an argument is wrong.
        BodyNotReplayable: the body of a request can be read only once. Nothing was sent.
    """

    def __init__(
        self, wrapped: BaseAdapter | None = None, *, retrying: Retrying | None = None
    ) -> None:
        super().__init__()
        given: object = wrapped
        if given is not None and not isinstance(given, BaseAdapter):
            fault = f"wrapped is a {type(given).__name__}: pass an adapter, as HTTPAdapter() is"
            raise ConfigurationError("IdempotentAdapter", [fault])
        check_retrying("IdempotentAdapter", retrying)
        self._wrapped = wrapped or HTTPAdapter()
        self._retrying = retrying or Retrying()

    def send(self, request: PreparedRequest, *arguments: Any, **options: Any) -> Response:
        """Send `request` until it is answered."""
        tries = self._retrying.begin(request.method or "", request.headers)
        if tries.may_repeat:
            _make_replayable(request)
        while True:
            try:
                response = self._wrapped.send(request, *arguments, **options)
                body = response.content if tries.is_keyed else b""
            except exceptions.RequestException as error:
                # requests leaves it out if the answer breaks off or cannot be decoded.
                error.request = error.request or request
                is_over = not isinstance(error, _TRANSIENT) or is_certificate_refused(error)
                pause_ms = None if is_over else tries.pause_after_error()
                if pause_ms is None:
                    raise
            else:
                pause_ms = tries.pause_after(response.status_code, response.headers, body)
                if pause_ms is None:
                    # Through it, `auth=` sends the request again after a challenge.
                    response.connection = cast("Any", self)
                    return response
                response.close()
            self._retrying.clock.pause(pause_ms)

    def close(self) -> None:
        """Close the wrapped adapter."""
        self._wrapped.close()


def _make_replayable(request: PreparedRequest) -> None:
    """Read a file into memory, so that it can be sent twice.

    Raises:
        BodyNotReplayable: the body is of unknown length, so it may be endless.
    """
    # The declared type leaves out files and generators, which requests accepts.
    body = cast("Any", request.body)
    if body is None or isinstance(body, bytes | str):
        return
    if not hasattr(body, "read") or "Content-Length" not in request.headers:
        raise BodyNotReplayable(request.method or "", request.url or "")
    request.body = body.read()
    # Else a redirect would rewind a file.
    cast("Any", request)._body_position = None  # noqa: SLF001 -- there is no other way
