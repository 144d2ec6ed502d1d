"""What cdk-nag and cfn-lint find in our templates and we leave as it is, each with its reason.

A test holds their findings against this list: one that is not here fails it, and so does an entry
that nothing is found of any more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Acknowledged:
    """A finding of `tool` that stays: its rule and the resource, as regular expressions, and why.

    A resource is a construct's path to cdk-nag, and a logical id to cfn-lint.
    """

    tool: str
    rule: str
    resource: str
    reason: str

    def covers(self, tool: str, rule: str, resource: str) -> bool:
        """Whether this entry speaks of that finding."""
        return (
            tool == self.tool
            and re.fullmatch(self.rule, rule) is not None
            and re.fullmatch(self.resource, resource) is not None
        )


ACKNOWLEDGED = (
    Acknowledged(
        tool="cdk-nag",
        rule=r"AwsSolutions-IAM5\[Resource::\*\]",
        resource=r".*/Role/DefaultPolicy/Resource",
        reason="Tracing: xray:PutTraceSegments and PutTelemetryRecords know no resource to name.",
    ),
    Acknowledged(
        tool="cdk-nag",
        rule=r"AwsSolutions-IAM5\[Resource::.*(ResponsesBucket|Answers).*/(reports/)?\*\]",
        resource=r".*/Role/DefaultPolicy/Resource",
        reason="The objects of one bucket: their keys are hashes and ids that nobody knows before.",
    ),
    Acknowledged(
        tool="cdk-nag",
        rule=r"AwsSolutions-L1",
        resource=r".*/Function/Resource",
        reason=(
            "The layer is tested and bundled for Python 3.13; -c python_version=3.14 takes the"
            " newest runtime."
        ),
    ),
    Acknowledged(
        tool="cdk-nag",
        rule=r"AwsSolutions-S1",
        resource=r".*/(ResponsesBucket|Answers)/Default/Resource",
        reason=(
            "Only functions reach the bucket, and every one logs its operation. An access log is a"
            " second bucket to protect: bucket_props takes one."
        ),
    ),
    Acknowledged(
        tool="cdk-nag",
        rule=r"AwsSolutions-APIG4",
        resource=r".*/Api/POST--webhooks(--stripe)?/Resource",
        reason="A provider has no token of ours. Its signature is checked before anything is done.",
    ),
    Acknowledged(
        tool="cdk-nag",
        rule=r"AwsSolutions-SQS3",
        resource=r".*/(GivenUp|Escalated)/Resource",
        reason="People empty these queues: nothing receives from them that could fail too often.",
    ),
    Acknowledged(
        tool="cfn-lint",
        rule=r"W3005",
        resource=r".*Function[0-9A-F]{8}",
        reason="The CDK waits for the role's policy, and names the role once more; it is harmless.",
    ),
)
