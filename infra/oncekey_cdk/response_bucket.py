"""The bucket for what is too large for an item: answers, step results and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3
from constructs import Construct

from oncekey_local.description.actions import FETCH_ACTIONS, KEEP_ACTIONS, LIST_ACTIONS

from .arguments import explained
from .checks import ANSWERS, MESSAGES, RESULTS
from .faults import overridden, override_faults, refuse, without_none
from .grants import (
    FETCH_KEY_ACTIONS,
    KEEP_KEY_ACTIONS,
    allow,
    allow_key,
)
from .synth_checks import OncekeyChecks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aws_cdk import aws_iam as iam
    from aws_cdk import aws_kms as kms

    from .faults import Props

# Answers must outlive their records, which live for a day. S3 counts whole days, and removes late
# rather than early. Messages must outlive a queue and its dead letters, at most 14 days each, and
# the wait for a person, who is told each week.
EXPIRE_AFTER_DAYS: Mapping[str, int] = {ANSWERS: 3, MESSAGES: 90}


@explained
class ResponseBucket(Construct):
    """A private, encrypted bucket with TLS only. Its answers and messages expire.

    Attributes:
        bucket: The bucket, ours or the existing one.
        encryption_key: The customer's key of the bucket, if any.
        expire_after_days: After how many days objects are removed, by the prefix of their keys.

    Args:
        expire_after_days: As the attribute. For `answers/`, two days longer than the retention.
        keeps_data: Whether it is kept when the stack is deleted.
        encryption_key: A customer's key; without one, S3's own.
        existing: An existing bucket, used as it is. Its lifecycle rules are not changed.
        bucket_props: Overrides of any property of `aws_s3.Bucket`, by the CDK's names.

    Raises:
        ValueError: An argument is wrong. The message lists all faults.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        expire_after_days: Mapping[str, int] = EXPIRE_AFTER_DAYS,
        keeps_data: bool = True,
        encryption_key: kms.IKey | None = None,
        existing: s3.IBucket | None = None,
        bucket_props: Mapping[str, Any] | None = None,
    ) -> None:
        faults = [
            *_expiry_faults(expire_after_days),
            *override_faults(bucket_props, name="bucket_props", of=s3.Bucket, fixed={}),
        ]
        if existing is not None and bucket_props:
            faults.append("bucket_props cannot change a bucket that exists: leave them out")
        bucket_props = without_none(bucket_props)
        if encryption_key is not None and "encryption_key" in bucket_props:
            faults.append("the key is given twice: use encryption_key= or bucket_props, not both")
        refuse(faults, scope=scope, construct_id=construct_id, kind="ResponseBucket")
        super().__init__(scope, construct_id)
        OncekeyChecks.of(self)
        self.encryption_key = encryption_key
        # Rules of others are checked in the finished template.
        is_ours = existing is None and "lifecycle_rules" not in bucket_props
        self.expire_after_days = dict(expire_after_days) if is_ours else {}
        if existing is not None:
            self.bucket = existing
            self.encryption_key = encryption_key or existing.encryption_key
            return
        encryption_key = bucket_props.get("encryption_key", encryption_key)
        encryption = s3.BucketEncryption.KMS if encryption_key else s3.BucketEncryption.S3_MANAGED
        defaults: Props = {
            "block_public_access": s3.BlockPublicAccess.BLOCK_ALL,
            "encryption": encryption,
            "encryption_key": encryption_key,
            # One call of KMS for many objects.
            "bucket_key_enabled": True if encryption_key else None,
            "enforce_ssl": True,
            "lifecycle_rules": [
                s3.LifecycleRule(expiration=Duration.days(days), prefix=prefix or None)
                for prefix, days in expire_after_days.items()
            ],
            "removal_policy": RemovalPolicy.RETAIN if keeps_data else RemovalPolicy.DESTROY,
        }
        # With the id `Default` it has the logical id of this construct.
        self.bucket = s3.Bucket(self, "Default", **overridden(defaults, bucket_props))
        # The CDK creates a key if only the kind of encryption was given.
        self.encryption_key = self.bucket.encryption_key

    @property
    def bucket_name(self) -> str:
        """The physical name, for a function's environment."""
        return self.bucket.bucket_name

    def grant_keep(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` store answers, results and messages here, and read them."""
        self._allow(grantee, KEEP_ACTIONS, KEEP_KEY_ACTIONS)

    def grant_fetch(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` read what others have stored here."""
        self._allow(grantee, FETCH_ACTIONS, FETCH_KEY_ACTIONS)

    def _allow(
        self, grantee: iam.IGrantable, actions: tuple[str, ...], key_actions: tuple[str, ...]
    ) -> None:
        allow(grantee, actions, self.bucket.arn_for_objects("*"))
        allow(grantee, LIST_ACTIONS, self.bucket.bucket_arn)
        allow_key(grantee, key_actions, self.encryption_key, service="s3")


def _expiry_faults(expire_after_days: Mapping[str, int]) -> Iterator[str]:
    for prefix, days in expire_after_days.items():
        if days < 1:
            yield f"expire_after_days[{prefix!r}] is {days}: use at least 1, or leave it out"
        if prefix.startswith(RESULTS) or RESULTS.startswith(prefix):
            yield (
                f"expire_after_days[{prefix!r}] removes step results, which are the only evidence"
                f" of a charge: use the prefixes {ANSWERS!r} and {MESSAGES!r}"
            )
