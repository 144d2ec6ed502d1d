"""The findings of cdk-nag and cfn-lint in our templates that we accept, each with its reason.

A test compares their findings with this list. It fails on a finding that is not here, and on an
entry that no longer occurs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Acknowledged:
    """An accepted finding of `tool`: its rule and resource, as regular expressions, and the reason.

    For cdk-nag a resource is a construct's path, for cfn-lint a logical id.
    """

    tool: str
    rule: str
    resource: str
    reason: str

    def covers(self, tool: str, rule: str, resource: str) -> bool:
        """Whether this entry accepts that finding."""
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
        reason=(
            "Tracing: xray:PutTraceSegments and PutTelemetryRecords have no resource to name."
            " CodeDeploy asks which alarms are on (cloudwatch:DescribeAlarms) as AWS's own policy"
            " lets it."
        ),
    ),
    Acknowledged(
        tool="cdk-nag",
        rule=r"AwsSolutions-IAM5\[Resource::.*(ResponsesBucket|Answers).*/(reports/)?\*\]",
        resource=r".*/Role/DefaultPolicy/Resource",
        reason="The objects of one bucket. Their keys are hashes and ids, not known in advance.",
    ),
    Acknowledged(
        tool="cdk-nag",
        rule=r"AwsSolutions-L1",
        resource=r".*/Function/Resource",
        reason=(
            "The layer is tested and bundled for Python 3.13. -c python_version=3.14 selects the"
            " newest runtime."
        ),
    ),
    Acknowledged(
        tool="cdk-nag",
        rule=r"AwsSolutions-S1",
        resource=r".*/(ResponsesBucket|Answers)/Default/Resource",
        reason=(
            "Only functions read the bucket, and each logs its operation. An access log would be a"
            " second bucket to protect. bucket_props accepts one."
        ),
    ),
    Acknowledged(
        tool="cdk-nag",
        rule=r"AwsSolutions-APIG4",
        resource=r".*/Api/POST--webhooks(--stripe)?/Resource",
        reason="A provider has no token of ours. Its signature is verified before anything else.",
    ),
    Acknowledged(
        tool="cdk-nag",
        rule=r"AwsSolutions-SQS3",
        resource=r".*/(GivenUp|Escalated)/Resource",
        reason="People empty these queues. No function receives from them that could fail.",
    ),
    Acknowledged(
        tool="cfn-lint",
        rule=r"W3005",
        resource=r".*Function[0-9A-F]{8}",
        reason="The CDK waits for the role's policy, and names the role again. That is harmless.",
    ),
)
