"""The CDK's feature flags, in a new service and in the reference service."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from infra.node import use_packaged_node

# The CDK starts node as it is imported.
use_packaged_node()

import aws_cdk  # noqa: E402

from infra.composition import CDK_JSON, compose  # noqa: E402
from oncekey_local.description import Service  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Mapping

TEMPLATE = Path(__file__).parents[2] / "layer/local/oncekey_local/new/template/cdk.json"
# What the flags begin with that can change what a service is made of.
USED = (
    "apigateway",
    "cloudwatch-actions",
    "codedeploy",
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
OTHERWISE = {
    # A table that the service uses cannot be removed from the other stack by mistake.
    "@aws-cdk/core:defaultCrossStackReferences": "strong",
    # Each grant stays a statement of its own, as the documentation lists them.
    "@aws-cdk/aws-iam:minimizePolicies": False,
}


@pytest.fixture(scope="module")
def recommended() -> Mapping[str, Any]:
    """What `cdk init` would set, of the AWS services that are used."""
    (package,) = Path(aws_cdk.__file__).parent.glob("_jsii/aws-cdk-lib@*.jsii.tgz")
    with tarfile.open(package) as archive:
        content = archive.extractfile("package/recommended-feature-flags.json")
        assert content is not None
        flags = json.load(content)
    return {
        name: value
        for name, value in flags.items()
        if name.partition(":")[0].removeprefix("@aws-cdk/").removeprefix("aws-") in USED
    }


def test_a_new_service_has_the_flags_of_a_new_app(recommended: Mapping[str, Any]) -> None:
    """`oncekey new` sets the flags that `cdk init` would, of the AWS services that it uses.

    Red when the CDK recommends another flag, or another value: take it over.
    """
    assert json.loads(TEMPLATE.read_text("utf-8"))["context"] == recommended


def test_the_reference_service_has_them_too(recommended: Mapping[str, Any]) -> None:
    """The reference service has the same flags, except for two.

    Red when the CDK recommends another flag, or another value: take it over, unless a logical id of
    a table, bucket or queue changes.
    """
    assert json.loads(CDK_JSON.read_text("utf-8"))["context"] == {**recommended, **OTHERWISE}


def test_a_direct_call_has_the_flags_too() -> None:
    """`python -m infra.app` makes the templates that the CDK's command line deploys.

    Red when only the command line's call has the flags of cdk.json.
    """
    empty = Service(name="empty", functions=(), tables=())

    context = compose(service=empty).node.get_all_context()

    assert json.loads(CDK_JSON.read_text("utf-8"))["context"].items() <= context.items()
