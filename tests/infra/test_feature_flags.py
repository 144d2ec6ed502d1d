"""The CDK's feature flags in a new service."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import aws_cdk

TEMPLATE = Path(__file__).parents[2] / "layer/local/oncekey_local/new/template/cdk.json"
# What the flags begin with that can change what a service is made of.
USED = (
    "apigateway",
    "cloudwatch-actions",
    "core",
    "dynamodb",
    "events",
    "iam",
    "kms",
    "lambda",
    "s3",
    "secretsmanager",
    "sns",
)


def test_a_new_service_has_the_flags_of_a_new_app() -> None:
    """`oncekey new` sets the flags that `cdk init` would, of the AWS services that it uses.

    Red when the CDK recommends another flag, or another value: take it over.
    """
    (package,) = Path(aws_cdk.__file__).parent.glob("_jsii/aws-cdk-lib@*.jsii.tgz")
    with tarfile.open(package) as archive:
        content = archive.extractfile("package/recommended-feature-flags.json")
        assert content is not None
        recommended = json.load(content)
    expected = {
        name: value
        for name, value in recommended.items()
        if name.partition(":")[0].removeprefix("@aws-cdk/").removeprefix("aws-") in USED
    }

    assert json.loads(TEMPLATE.read_text("utf-8"))["context"] == expected
