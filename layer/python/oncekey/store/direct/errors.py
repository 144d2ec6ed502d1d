"""What a call of the direct transport raises. The names are those of botocore.

`oncekey.store.aws_errors` recognises errors by these names. `unsent` says that DynamoDB cannot have
received a whole request, so that nothing is applied, neither now nor later.
"""

from __future__ import annotations

import sys
from typing import Any


class TransportError(ConnectionError):
    """No answer, or none that can be read."""

    unsent = False


class EndpointConnectionError(TransportError):
    """The name has no address, or nobody listens there."""

    unsent = True


class ConnectTimeoutError(TransportError):
    """There was no connection in time."""

    unsent = True


class SSLError(TransportError):
    """The TLS handshake failed, for example because the certificate is not trusted."""

    unsent = True


class RequestNotSent(TransportError):  # noqa: N818 -- a statement about the request
    """The connection broke or stalled before the last byte of the request was handed over.

    The length and the signature cover the whole body, so that no server accepts a part of it.
    """

    unsent = True


class ReadTimeoutError(TransportError):
    """The whole answer was not there in time."""


class ConnectionClosedError(TransportError):
    """The connection ended before the whole answer was there."""


class ResponseParserError(TransportError):
    """The answer is not HTTP, is too large, or is no JSON object."""


class ChecksumError(TransportError):
    """The answer was damaged on its way: its bytes do not have the checksum that it names."""


class CredentialRetrievalError(TransportError):
    """The endpoint for credentials did not answer, or gave no credentials."""

    unsent = True


class NoCredentialsError(Exception):
    """Nobody has credentials: neither the environment, nor a file, nor an endpoint."""

    unsent = True


class ClientError(Exception):
    """DynamoDB answered with an error. It has the form of botocore's class of this name."""

    def __init__(self, response: dict[str, Any], operation_name: str) -> None:
        self.response = response
        self.operation_name = operation_name
        super().__init__(response, operation_name)

    def __str__(self) -> str:
        error = self.response["Error"]
        return f"{error['Code']} when calling {self.operation_name}: {error['Message']}"


def client_error(response: dict[str, Any], operation: str) -> Exception:
    """The error of an answer: botocore's own class if it is loaded, else the class above.

    So `except botocore.exceptions.ClientError` catches it, and nothing is loaded for it. While
    another thread loads botocore, its module is known and may not have the class yet.
    """
    kind = getattr(sys.modules.get("botocore.exceptions"), "ClientError", ClientError)
    error: Exception = kind(response, operation)
    return error
