"""The buckets of the stateful stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.service import RESPONSES, SERVICE
from tests.support.sample_templates import named

if TYPE_CHECKING:
    from tests.support.templates import Synthesised

KIND = "AWS::S3::Bucket"


def test_every_bucket_is_private_encrypted_and_nameless(app: Synthesised) -> None:
    """No bucket is public, unencrypted, reachable without TLS, or has a fixed name."""
    buckets = app.stateful.find_resources(KIND)

    assert len(buckets) == len(SERVICE.buckets)
    for bucket in buckets.values():
        properties = bucket["Properties"]
        assert "BucketName" not in properties
        assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
        assert properties["BucketEncryption"]
    (policy,) = app.stateful.find_resources("AWS::S3::BucketPolicy").values()
    (statement,) = policy["Properties"]["PolicyDocument"]["Statement"]
    assert statement["Effect"] == "Deny"
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_answers_outlive_their_records_and_end(app: Synthesised) -> None:
    """Answers are removed after the description's days: longer than a record lives, and a day.

    Results of steps, which are evidence of half-done work, are not.
    """
    (bucket,) = app.stateful.find_resources(KIND).values()
    (rule,) = bucket["Properties"]["LifecycleConfiguration"]["Rules"]

    assert (rule["ExpirationInDays"], rule["Status"]) == (RESPONSES.expire_after_days, "Enabled")
    assert rule["Prefix"] == RESPONSES.expiring_prefix == "answers/"
    assert RESPONSES.expire_after_days is not None
    assert RESPONSES.expire_after_days > 2


@pytest.mark.parametrize(("stage", "policy"), [("dev", "Delete"), ("production", "Retain")])
def test_a_bucket_is_kept_in_production_only(
    stage: str, policy: str, request: pytest.FixtureRequest
) -> None:
    """Deleting a stack keeps the answers in production."""
    app: Synthesised = request.getfixturevalue(stage)

    app.stateful.all_resources(KIND, {"DeletionPolicy": policy})


@pytest.mark.parametrize("function", ["Payments", "Refunds"])
def test_a_function_is_told_its_bucket(app: Synthesised, function: str) -> None:
    """ONCEKEY_RESPONSE_BUCKET is the bucket of the stateful stack."""
    created = named(app.service, "AWS::Lambda::Function", f"{function}Function")
    name = created["Environment"]["Variables"]["ONCEKEY_RESPONSE_BUCKET"]

    assert "ResponsesBucket" in str(name)
