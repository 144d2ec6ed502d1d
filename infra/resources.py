"""What functions are given of the stateful stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aws_cdk import aws_dynamodb as dynamodb
    from aws_cdk import aws_s3 as s3
    from aws_cdk import aws_sqs as sqs


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Tables, buckets and queues, dead letters too, by their names in the description."""

    tables: Mapping[str, dynamodb.ITable]
    buckets: Mapping[str, s3.IBucket]
    queues: Mapping[str, sqs.IQueue]
