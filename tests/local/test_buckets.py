"""Buckets of a description, and the local S3 that they are in."""

from __future__ import annotations

import hashlib

import pytest

from oncekey_local.description import Bucket, BucketName, Function, Service
from tests.support.bucket_service import SIZE_BYTES, content
from tests.support.dev_service import running, send


def test_function_uses_its_bucket() -> None:
    """A function puts and gets 5 MB in the bucket that its environment names, as in AWS."""
    with running("tests.support.bucket_service:SERVICE") as dev:
        answer = send(dev.url, "POST", "/keep", token=dev.token("acme"))
        log = dev.log()
    assert answer.status == 200, log
    assert answer.json() == {
        "bucket": "kept-local-answers",
        "keys": ["tenant é/a&b+1 %2F"],
        "head_length": SIZE_BYTES,
        "metadata": {"kind": "answer"},
        "digest": hashlib.sha256(content()).hexdigest(),
        "expire_after_days": [3],
        "expiring_prefixes": ["a&b/"],
        "buckets": ["kept-local-answers", "kept-local-for-ever"],
    }


def test_faults_of_buckets_are_reported() -> None:
    """A bucket named twice, unknown, impossible or gone at once is refused, all in one message."""
    environment = {"A": BucketName("other"), "B": BucketName("answers")}
    function = Function(name="f", handler="m.f", timeout_s=1, environment=environment)
    buckets = (
        Bucket(name="answers", expire_after_days=0),
        Bucket(name="answers"),
        Bucket(name="My_Bucket"),
    )
    with pytest.raises(ValueError, match="service 's' is wrong") as error:
        Service(name="s", functions=(function,), tables=(), buckets=buckets)
    message = str(error.value)
    assert "bucket 'answers' is named twice" in message
    assert "function 'f' names bucket 'other', which the service does not have" in message
    assert "bucket 'My_Bucket' has a name that S3 would refuse" in message
    assert "bucket 'answers' expires after 0 days" in message
    assert message.count(";") == 3
