"""The buckets of the stateful stack."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from infra.service import SERVICE
from infra.service_resources import RESPONSES
from oncekey.reconciler.settings import ReconcilerSettings
from oncekey.settings import RETENTION_S
from oncekey_local.description.event_faults import DEAD_LETTER_RETENTION_DAYS
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


def test_what_is_kept_for_a_time_ends(app: Synthesised) -> None:
    """Objects are removed after the description's days, folder by folder.

    Results of steps, which are evidence of half-done work, are not.
    """
    (bucket,) = app.stateful.find_resources(KIND).values()
    rules = bucket["Properties"]["LifecycleConfiguration"]["Rules"]

    assert all(rule["Status"] == "Enabled" for rule in rules)
    ends = {rule["Prefix"]: rule["ExpirationInDays"] for rule in rules}
    assert ends == {one.prefix: one.after_days for one in RESPONSES.expirations}
    assert set(ends) == {"answers/", "outbox/", "reports/"}


def test_no_object_ends_before_what_names_it() -> None:
    """An answer outlives its record. A large message outlives queue and dead letters, however long
    a queue may be told to keep what it has. It outlives eight weekly calls for a person, too.
    """
    days = {one.prefix: one.after_days for one in RESPONSES.expirations}

    assert timedelta(days=days["answers/"]) > timedelta(seconds=RETENTION_S, days=1)
    again = timedelta(milliseconds=ReconcilerSettings().escalate_again_ms)
    assert timedelta(days=days["outbox/"]) > timedelta(2 * DEAD_LETTER_RETENTION_DAYS) + 8 * again


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
