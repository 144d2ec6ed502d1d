"""The client of the functions' own tables."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# A call is tried twice, for 1 s each. The functions' timeouts depend on it.
_CONFIG = Config(
    connect_timeout=0.3,
    read_timeout=0.7,
    retries={"total_max_attempts": 2, "mode": "standard"},
)


@cache
def client() -> DynamoDBClient:
    """The one client of this sandbox."""
    made: DynamoDBClient = boto3.client("dynamodb", config=_CONFIG)
    return made
