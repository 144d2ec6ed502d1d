"""A service with a bucket, and the function that uses it."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import boto3

from oncekey_local.description import (
    Bucket,
    BucketName,
    Expiration,
    Function,
    Route,
    Service,
)

SIZE_BYTES = 5 * 1024 * 1024

SERVICE = Service(
    name="kept",
    functions=(
        Function(
            name="keep",
            handler="tests.support.bucket_service.keep",
            timeout_s=29,
            routes=(Route(method="POST", path="/keep"),),
            environment={"ANSWERS_BUCKET": BucketName("answers")},
            keeps_answers_in="answers",
        ),
    ),
    tables=(),
    buckets=(
        Bucket(
            name="answers",
            expirations=(
                Expiration(prefix="a&b/", after_days=3),
                Expiration(prefix="reports/", after_days=90),
            ),
        ),
        Bucket(name="for-ever"),
    ),
)


def content() -> bytes:
    """Five megabytes that are no text."""
    return bytes(range(256)) * (SIZE_BYTES // 256)


def keep(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Puts an object and gets it back, with a client that knows only the environment."""
    bucket, key = os.environ["ANSWERS_BUCKET"], "tenant é/a&b+1 %2F"
    client = boto3.client("s3")
    client.put_object(Bucket=bucket, Key=key, Body=content(), Metadata={"kind": "answer"})
    head = client.head_object(Bucket=bucket, Key=key)
    got = client.get_object(Bucket=bucket, Key=key)
    listed = client.list_objects_v2(Bucket=bucket, Prefix=key)
    # What no function may ask, and everybody else may.
    person = boto3.client("s3", aws_access_key_id="local", aws_secret_access_key="local")
    rules = person.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"]
    return {
        "bucket": bucket,
        "keys": [found["Key"] for found in listed.get("Contents", [])],
        "head_length": head["ContentLength"],
        "metadata": got["Metadata"],
        "digest": hashlib.sha256(got["Body"].read()).hexdigest(),
        "expirations": {rule["Filter"]["Prefix"]: rule["Expiration"]["Days"] for rule in rules},
        "buckets": [found["Name"] for found in person.list_buckets()["Buckets"]],
    }
