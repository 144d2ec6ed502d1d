"""The two deployments from beginning to end, as `make deploy-local` runs them."""

from __future__ import annotations

import contextlib
import platform
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from infra.environments import environment_from
from infra.local_deployment import reconciling, scenes
from infra.local_deployment.api import EventApi, HttpApi
from infra.local_deployment.deployed_functions import DeployedFunctions
from infra.local_deployment.issuer import AUDIENCE, Issuer
from infra.local_deployment.ministack import ministack_cloud
from infra.local_deployment.moto import ACCOUNT, moto_cloud
from infra.local_deployment.provider_process import ProviderProcess, provider_process
from infra.local_deployment.toolkit import Deployed, Toolkit, synthesise
from infra.service import SERVICE
from oncekey_local.functions.environment import PROVIDER_API_KEY, REGION, WEBHOOK_SECRET

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from infra.local_deployment.api import Api
    from infra.local_deployment.cloud import Cloud
    from infra.local_deployment.report import Report

_MACHINES = {"aarch64": "arm64", "arm64": "arm64", "x86_64": "x86_64"}
# moto makes no alarms, and refuses a dashboard that names some. ministack refuses saved queries,
# and alarms that compute with several metrics. All of these are asserted on the templates.
_UNWATCHED = {"oncekey:watched": "false"}
_PRODUCTION = {
    **_UNWATCHED,
    "stage": "production",
    "jwt_issuer": "https://login.example.com/",
    "jwt_audience": "payments",
    "account": ACCOUNT,
    "region": REGION,
    # moto's CloudFormation makes no aliases, and nothing of CodeDeploy.
    "rollout": "none",
}


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A deployed service, and all that is needed to play with it.

    Attributes:
        service: What the names of its stacks begin with.
    """

    cloud: Cloud
    toolkit: Toolkit
    deployed: Deployed
    service: str
    api: Api
    provider: ProviderProcess


@dataclass(frozen=True, kw_only=True)
class MotoDeployment(Deployment):
    """Stage production on moto, whose functions are called by hand."""

    functions: DeployedFunctions

    def work(self) -> None:
        """Carry every message on, as the deployed stream and queue would."""
        self.functions.relay()
        self.functions.work()


@dataclass(frozen=True, kw_only=True)
class MinistackDeployment(Deployment):
    """Stage dev on ministack, which works by itself."""

    http: HttpApi
    issuer: Issuer

    def grow_old(self) -> None:
        """Let the schedule's next run find what is in doubt."""
        outputs = self.deployed.outputs[f"{self.service}-stateful"]
        reconciling.grow_old(self.cloud, outputs["IdempotencyTableName"])

    def reconcile(self) -> None:
        """The same, and do not wait for the minute to be over."""
        self.grow_old()
        answer = reconciling.call_as_scheduled(self.cloud)
        scenes.ensure("FunctionError" not in answer, f"the reconciler has failed: {answer}")


@contextlib.contextmanager
def on_moto(report: Report) -> Iterator[MotoDeployment]:
    """Stage production, deployed to moto, until the end of the block."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oncekey-cdk-")))
        with report.step("stage production synthesised, without alarms, dashboard and queries"):
            assembly = synthesise(_PRODUCTION, folder)
        with report.step("moto's server and the provider's stand-in started"):
            cloud = stack.enter_context(moto_cloud())
            provider = stack.enter_context(provider_process())
        toolkit, deployed = _deploy(cloud, assembly, _PRODUCTION, report)
        functions = stack.enter_context(
            DeployedFunctions(cloud, assembly, {"PROVIDER_URL": provider.url})
        )
        yield MotoDeployment(
            cloud=cloud,
            toolkit=toolkit,
            deployed=deployed,
            service=f"{SERVICE.name}-production",
            api=EventApi(functions),
            provider=provider,
            functions=functions,
        )


@contextlib.contextmanager
def on_ministack(report: Report) -> Iterator[MinistackDeployment]:
    """Stage dev, deployed to ministack, until the end of the block."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oncekey-cdk-")))
        with report.step("ministack, an issuer and the provider's stand-in started"):
            cloud = stack.enter_context(ministack_cloud())
            issuer = stack.enter_context(Issuer())
            provider = stack.enter_context(provider_process())
        with report.step(
            "stage dev synthesised in the same way, with the layer for this machine's Python"
        ):
            context = _dev(issuer, provider)
            assembly = synthesise(context, folder)
        toolkit, deployed = _deploy(cloud, assembly, context, report)
        service = f"{SERVICE.name}-dev"
        http = HttpApi(deployed.outputs[f"{service}-service"]["ApiUrl"], cloud.url, issuer)
        yield MinistackDeployment(
            cloud=cloud,
            toolkit=toolkit,
            deployed=deployed,
            service=service,
            api=http,
            provider=provider,
            http=http,
            issuer=issuer,
        )


def play_moto(report: Report) -> None:
    """Deploy to moto, use it, deploy again, delete.

    Raises:
        Broken: A promise was not kept.
    """
    with on_moto(report) as here:
        with report.step("every table, queue and bucket found through the outputs"):
            scenes.find_everything(here.cloud, here.deployed)
        with report.step("a payment sent three times: charged once, twice replayed"):
            path = scenes.pay_once(here.api, here.provider.charges, here.work)
        with report.step("deployed again: no changes"):
            scenes.change_nothing(here.toolkit, here.deployed)
        with report.step("both stacks deleted: functions gone, tables, bucket and rows kept"):
            scenes.keep_the_data(here.cloud, here.toolkit, here.deployed, path)


def play_ministack(report: Report) -> None:
    """Deploy to ministack, and use it over HTTP.

    Raises:
        Broken: A promise was not kept.
    """
    with on_ministack(report) as here:
        with report.step("tokens refused: missing, forged, expired, for somebody else"):
            scenes.refuse_wrong_tokens(here.http, here.issuer)
        with report.step("a payment sent three times over HTTP: charged once, twice replayed"):
            path = scenes.pay_once(here.api, here.provider.charges, scenes.wait_a_little)
        with report.step("a refund whose answer was lost: settled by the scheduled reconciler"):
            scenes.settle_an_unknown(here.api, here.provider, path, here.grow_old)


def _deploy(
    cloud: Cloud, assembly: Path, context: Mapping[str, str], report: Report
) -> tuple[Toolkit, Deployed]:
    toolkit, environment = Toolkit(cloud, assembly), environment_from(context)
    secrets = {
        environment.provider_api_key_secret: PROVIDER_API_KEY,
        environment.webhook_secret: WEBHOOK_SECRET,
    }
    with report.step(f"account {cloud.account} of {cloud.name} bootstrapped by the CDK"):
        # They have to be there before the functions read them.
        for name, value in secrets.items():
            cloud.client("secretsmanager").create_secret(Name=name, SecretString=value)
        toolkit.bootstrap()
    with report.step(f"both stacks deployed by the CDK to {cloud.name}"):
        deployed = toolkit.deploy()
    return toolkit, deployed


def _dev(issuer: Issuer, provider: ProviderProcess) -> Mapping[str, str]:
    return {
        "stage": "dev",
        "jwt_issuer": issuer.url,
        "jwt_audience": AUDIENCE,
        **_UNWATCHED,
        "provider_url": provider.url,
        # ministack runs functions on this machine's Python, whatever the template says.
        "python_version": f"{sys.version_info.major}.{sys.version_info.minor}",
        "architecture": _MACHINES.get(platform.machine(), platform.machine()),
    }
