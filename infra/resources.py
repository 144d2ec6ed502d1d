"""The resources of the stateful stack that functions use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aws_cdk import aws_sqs as sqs

    from infra.oncekey_cdk import ResponseBucket, SafeTable


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Tables, buckets and queues, dead letters too, by their names in the description."""

    tables: Mapping[str, SafeTable]
    buckets: Mapping[str, ResponseBucket]
    queues: Mapping[str, sqs.Queue]
