"""Stage production, deployed to moto's server by the CDK's own command line, used, and deleted.

What is left out (HTTP API, alarms, policies, TTL, layers) is asserted on the templates, in
tests/infra. The tests go along the life of one deployment: the last one ends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from infra.local_deployment import scenes
from infra.local_deployment.report import Report
from infra.local_deployment.stories import MotoDeployment, on_moto
from infra.service import SERVICE
from infra.service_environment import PROVIDER_API_KEY, WEBHOOK_SECRET

if TYPE_CHECKING:
    from collections.abc import Iterator

# A deployment takes about half a minute.
pytestmark = pytest.mark.proof


@pytest.fixture(scope="module")
def deployment() -> Iterator[MotoDeployment]:
    """The two stacks, deployed."""
    with on_moto(Report(print)) as deployed:
        yield deployed


_OF_THE_CONSTRUCTS = {
    "ONCEKEY_TRANSPORT",
    "ONCEKEY_PAUSE_CHECK_S",
    "ONCEKEY_METRICS_NAMESPACE",
    "ONCEKEY_METRICS_SERVICE",
}
_SECRETS = (PROVIDER_API_KEY, WEBHOOK_SECRET)


def test_what_the_stacks_put_out_is_there(deployment: MotoDeployment) -> None:
    """Every table, queue and bucket is found by what the deployment puts out."""
    scenes.find_everything(deployment.cloud, deployment.deployed)

    outputs = deployment.deployed.outputs[f"{deployment.service}-stateful"]
    tables = {name for name in outputs if name.endswith("TableName")}
    assert tables == {f"{table.name.capitalize()}TableName" for table in SERVICE.tables}


def test_the_functions_are_deployed_with_their_settings(deployment: MotoDeployment) -> None:
    """Each deployed function has the variables of the description, resolved to physical names, of
    its secrets the names alone, and what the constructs add.
    """
    outputs = deployment.deployed.outputs[f"{deployment.service}-stateful"]
    for function in SERVICE.functions:
        variables = deployment.functions.variables(function)

        expected = _OF_THE_CONSTRUCTS | {
            f"{name}_ARN" if value in _SECRETS else name
            for name, value in function.environment.items()
        }
        assert set(variables) == expected, function.name
        assert not [value for value in variables.values() if "{{" in value], function.name
        if "ONCEKEY_TABLE" in variables:
            assert variables["ONCEKEY_TABLE"] == outputs["IdempotencyTableName"]


def test_a_payment_takes_effect_once(deployment: MotoDeployment) -> None:
    """The functions' own code, on the deployed tables, stream and queue, charges a payment once
    that is sent three times, and replays the first answer.
    """
    scenes.pay_once(deployment.api, deployment.provider.charges, deployment.work)


def test_a_second_deployment_changes_nothing(deployment: MotoDeployment) -> None:
    """The same again finds both stacks as they are to be."""
    scenes.change_nothing(deployment.toolkit, deployment.deployed)


def test_a_deleted_production_keeps_its_data(deployment: MotoDeployment) -> None:
    """Deleting both stacks deletes functions, and no table, queue, bucket or row."""
    path = scenes.pay_once(deployment.api, deployment.provider.charges, deployment.work)

    scenes.keep_the_data(deployment.cloud, deployment.toolkit, deployment.deployed, path)
