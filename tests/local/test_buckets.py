"""Buckets of a description, and the local S3 that they are in."""

from __future__ import annotations

import hashlib

import pytest

from oncekey_local.description import Bucket, BucketName, Expiration, Function, Service
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
        "expirations": {"a&b/": 3, "reports/": 90},
        "buckets": ["kept-local-answers", "kept-local-for-ever"],
    }


def test_faults_of_buckets_are_reported() -> None:
    """A bucket named twice, unknown, impossible or gone at once is refused, all in one message."""
    environment = {"OTHERS": BucketName("other"), "ANSWERS": BucketName("answers")}
    function = Function(name="f", handler="m.f", timeout_s=1, environment=environment)
    buckets = (
        Bucket(name="answers", expirations=(Expiration(prefix="a/", after_days=0),)),
        Bucket(name="answers"),
        Bucket(name="My_Bucket"),
    )
    with pytest.raises(ValueError, match="service 's' is wrong") as error:
        Service(name="s", functions=(function,), tables=(), buckets=buckets)
    message = str(error.value)
    assert "bucket 'answers' is named twice" in message
    assert "function 'f' names bucket 'other', which the service does not have" in message
    assert "bucket 'My_Bucket' has a name that S3 would refuse" in message
    assert "bucket 'answers' expires 'a/' after 0 days: at least 1" in message
    assert message.count(";") == 3


@pytest.mark.parametrize(
    ("prefixes", "fault"),
    [
        (("answers",), "expires 'answers': say a folder, such as 'answers/', or '' for all"),
        (("/answers/",), "expires '/answers/': say a folder"),
        (("a/", "b/", "a/"), "expires 'a/' and 'a/', of which one is part of the other"),
        (("a/", "a/b/"), "expires 'a/' and 'a/b/', of which one is part of the other"),
        (("a/b/", ""), "expires 'a/b/' and '', of which one is part of the other"),
    ],
)
def test_expirations_that_do_not_mean_what_they_say(prefixes: tuple[str, ...], fault: str) -> None:
    """No expiration reaches objects that another one, or none, seems to be for."""
    expirations = tuple(Expiration(prefix=prefix, after_days=9) for prefix in prefixes)
    with pytest.raises(ValueError, match="service 's' is wrong") as error:
        Service(
            name="s",
            functions=(),
            tables=(),
            buckets=(Bucket(name="answers", expirations=expirations),),
        )
    assert f"bucket 'answers' {fault}" in str(error.value)
