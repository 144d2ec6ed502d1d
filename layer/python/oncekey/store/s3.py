"""The response bucket. This is the only module that uses S3's API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncekey.errors import ConfigurationError
from oncekey.record.stored_answer import OBJECT_CALL_TIMEOUT_MS
from oncekey.store.aws_errors import store_error
from oncekey.store.dynamodb.client import making_a_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3 import S3Client

    from oncekey.errors import StoreError

_CONNECT_TIMEOUT_S = OBJECT_CALL_TIMEOUT_MS / 3000
_READ_TIMEOUT_S = 2 * _CONNECT_TIMEOUT_S


class ResponseBucket:
    """The objects too large for an item: `answers/`, step `results/`, and payloads in `outbox/`.

    A lifecycle rule of the bucket removes answers after their records have expired, and payloads
    after the queues' retention. Results stay, because a retry of half-done work needs them.

    Creating this object sends nothing. Unless a client is given, the first call creates it.

    Raises:
        ConfigurationError: the name is no text, or `client` is no client of S3.
    """

    def __init__(self, name: str, *, client: S3Client | None = None) -> None:
        faults = [*_faults(name, client)]
        if faults:
            raise ConfigurationError("ResponseBucket", faults)
        self._name = name
        self._client = client

    def put(self, name: str, data: bytes) -> None:
        """Store `data` under `name`. When it returns, the object is durable.

        Raises:
            StoreError: it may or may not have been stored.
        """
        try:
            self._connected().put_object(Bucket=self._name, Key=name, Body=data)
        except Exception as error:
            raise self._failure(error) from error

    def get(self, name: str) -> bytes | None:
        """The object stored under `name`, or None.

        Raises:
            StoreError: the bucket did not answer.
        """
        try:
            answer = self._connected().get_object(Bucket=self._name, Key=name)
            data: bytes = answer["Body"].read()
        except Exception as error:
            response: dict[str, Any] = getattr(error, "response", None) or {}
            if response.get("Error", {}).get("Code") in {"NoSuchKey", "404"}:
                return None
            raise self._failure(error) from error
        return data

    def _failure(self, error: Exception) -> StoreError:
        failure = store_error(error, self._client)
        failure.is_of_bucket = True
        return failure

    def _connected(self) -> S3Client:
        if self._client is None:
            with making_a_client:
                if self._client is None:
                    self._client = _own_client()
        return self._client

    def __repr__(self) -> str:
        return f"ResponseBucket({self._name!r})"


def _faults(name: object, client: object) -> Iterator[str]:
    # Otherwise the first large answer would be lost.
    if not isinstance(name, str) or not name.strip():
        yield f"name is {name!r}: the bucket's name is needed, as text"
    if client is not None and (isinstance(client, type) or not hasattr(client, "put_object")):
        yield f"client is a {type(client).__name__}: pass boto3.client('s3'), or leave it out"


def _own_client() -> S3Client:
    import boto3
    from botocore.config import Config

    config = Config(
        connect_timeout=_CONNECT_TIMEOUT_S,
        read_timeout=_READ_TIMEOUT_S,
        retries={"total_max_attempts": 1, "mode": "standard"},
    )
    client: S3Client = boto3.client("s3", config=config)
    return client
