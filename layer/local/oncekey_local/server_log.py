"""What aiohttp's server may say: that a request was malformed, and never what was in it."""

from __future__ import annotations

import logging

from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.log import server_logger
from aiohttp.web import RequestPayloadError


class _WithoutTheRequest(logging.Filter):
    """Takes the request's own bytes out of the record of a request that could not be read.

    They are in the error's message and its traceback, and an `Authorization` header may be among
    them.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Always true: the record stays, without the bytes."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, (HttpProcessingError, RequestPayloadError)):
            record.msg = f"a malformed request was refused: {type(error).__name__}"
            record.args = record.exc_info = record.exc_text = None
        elif isinstance(error, ConnectionError):
            record.msg = "a client has left in the middle of its request"
            record.args = record.exc_info = record.exc_text = None
        return True


_FILTER = _WithoutTheRequest()


def keep_requests_out_of_the_log() -> None:
    """Holds for every server of this process, from now on; a second call changes nothing."""
    server_logger.addFilter(_FILTER)
