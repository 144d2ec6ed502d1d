"""The bucket for what no item holds: large answers, results of steps, and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_s3 as s3
from constructs import Construct

from .checks import ANSWERS, MESSAGES, RESULTS
from .faults import overridden, override_faults, refuse, without_none
from .grants import (
    FETCH_ACTIONS,
    FETCH_KEY_ACTIONS,
    KEEP_ACTIONS,
    KEEP_KEY_ACTIONS,
    LIST_ACTIONS,
    allow,
    allow_key,
)
from .synth_checks import OncekeyChecks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aws_cdk import aws_iam as iam
    from aws_cdk import aws_kms as kms

    from .faults import Props

# Answers outlive their records, which live for a day: S3 counts whole days and removes late rather
# than early. Messages outlive what names them: a queue, and then its dead letters, for 14 days each
# at the most.
EXPIRE_AFTER_DAYS: Mapping[str, int] = {ANSWERS: 3, MESSAGES: 30}


class ResponseBucket(Construct):
    """A private, encrypted bucket over TLS only, whose answers and messages expire.

    Attributes:
        bucket: The bucket, ours or the one that was passed in.
        encryption_key: The customer's key that it is encrypted under, if any.
        expire_after_days: After how many days objects are removed, by the beginning of their keys.

    Args:
        expire_after_days: As the attribute. Two days longer than the retention for `answers/`.
        keeps_data: Whether it outlives its stack.
        encryption_key: A customer's key; without one, S3's own.
        existing: A bucket that is there already, used as it is. Its lifecycle is its owner's.
        bucket_props: Overrides of any property of `aws_s3.Bucket`, by the CDK's names.

    Raises:
        ValueError: Something cannot be; all of it is named.
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
            faults.append("bucket_props cannot change a bucket that exists already; leave them out")
        bucket_props = without_none(bucket_props)
        if encryption_key is not None and "encryption_key" in bucket_props:
            faults.append("the key is given twice: say it in encryption_key= or in bucket_props")
        refuse(faults, scope=scope, construct_id=construct_id, kind="ResponseBucket")
        super().__init__(scope, construct_id)
        OncekeyChecks.of(self)
        self.encryption_key = encryption_key
        # Of rules that somebody else has written the finished template tells.
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
        # Under the id `Default` it takes the logical id of this construct.
        self.bucket = s3.Bucket(self, "Default", **overridden(defaults, bucket_props))
        # Also the one that the CDK creates where only the kind of encryption was asked for.
        self.encryption_key = self.bucket.encryption_key

    @property
    def bucket_name(self) -> str:
        """The physical name, for a function's environment."""
        return self.bucket.bucket_name

    def grant_keep(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` keep answers, results and messages here, and fetch them again."""
        self._allow(grantee, KEEP_ACTIONS, KEEP_KEY_ACTIONS)

    def grant_fetch(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` fetch what others have kept here."""
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
            yield f"expire_after_days[{prefix!r}] is {days}: at least 1, or leave it out for never"
        if prefix.startswith(RESULTS) or RESULTS.startswith(prefix):
            yield (
                f"expire_after_days[{prefix!r}] removes the results of steps, which are the only"
                f" evidence of a charge; name {ANSWERS!r} and {MESSAGES!r}"
            )
