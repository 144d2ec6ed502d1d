"""Clients of boto3 that many tests use, one after the other.

To make one takes longer than most tests.
"""

from __future__ import annotations

import contextlib
import copy
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import boto3

if TYPE_CHECKING:
    from collections.abc import Iterator

    from botocore.config import Config


@contextlib.contextmanager
def shared_client(
    service: Literal["dynamodb", "s3"], config: Config | None = None
) -> Iterator[Any]:
    """The client of this process. What is registered for its events is forgotten at the end."""
    client = _made(service, config)
    emitter = client.meta.events._emitter
    before = copy.copy(emitter).__dict__
    try:
        yield client
    finally:
        emitter.__dict__.update(before, _lookup_cache={})


@cache
def _made(service: Literal["dynamodb", "s3"], config: Config | None) -> Any:
    return boto3.client(service, region_name="eu-central-1", config=config)
