"""The CDK's command line at work: synthesise, bootstrap, deploy, destroy."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from infra.cdk_cli import cdk_command
from oncekey_local.functions.environment import REGION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from infra.local_deployment.cloud import Cloud

ROOT = Path(__file__).resolve().parents[2]
# No telemetry, and no question for newer versions.
_QUIET = {"CDK_DISABLE_CLI_TELEMETRY": "true", "CDK_DISABLE_VERSION_CHECK": "true", "CI": "true"}
# Ten times the longest run. A wrong answer of an emulator can make it loop.
_PATIENCE_S = 300
_UNCHANGED = re.compile(r"✅\s+(\S+) \(no changes\)")


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """What a deployment has said.

    Attributes:
        outputs: The outputs of every stack, by their names.
        unchanged: The stacks that it has left as they were.
    """

    outputs: Mapping[str, Mapping[str, str]]
    unchanged: frozenset[str]


class CdkFailed(RuntimeError):  # noqa: N818 -- it says what happened
    """A command of the CDK's command line failed. The message is its output."""


def synthesise(context: Mapping[str, str], folder: Path) -> Path:
    """Let the command line run the app of cdk.json; returns the folder with the templates.

    Raises:
        CdkFailed: The app refuses the context, or cannot make its layer.
    """
    assembly = folder / "assembly"
    pairs = [part for name, value in context.items() for part in ("-c", f"{name}={value}")]
    environment = {**os.environ, **_QUIET, "CDK_HOME": str(folder)}
    _run(["synth", "--quiet", "--output", str(assembly), *pairs], environment)
    return assembly


class Toolkit:
    """The command line for one assembly and one emulator."""

    def __init__(self, cloud: Cloud, assembly: Path) -> None:
        self._cloud = cloud
        self._assembly = assembly

    def bootstrap(self) -> None:
        """Create what the CDK wants to find in an account: bucket, roles, a version."""
        self._cdk("bootstrap", f"aws://{self._cloud.account}/{REGION}")

    def deploy(self) -> Deployed:
        """Deploy every stack; returns when CloudFormation has finished."""
        outputs = self._cloud.folder / "outputs.json"
        outputs.write_text("{}")
        said = self._cdk(
            *("deploy", "--all", "--require-approval", "never", "--outputs-file", str(outputs))
        )
        return Deployed(
            outputs=json.loads(outputs.read_text()), unchanged=frozenset(_UNCHANGED.findall(said))
        )

    def destroy(self, *stacks: str) -> None:
        """Delete these stacks, or raise `CdkFailed` where CloudFormation refuses."""
        self._cdk("destroy", "--force", "--exclusively", *stacks)

    def _cdk(self, command: str, *arguments: str) -> str:
        return _run(
            [command, *arguments, "--app", str(self._assembly), "--no-notices"],
            {**self._cloud.environment(), **_QUIET},
        )


def _run(arguments: list[str], environment: Mapping[str, str]) -> str:
    command = [*cdk_command(), *arguments]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_PATIENCE_S,
        )
    except subprocess.TimeoutExpired as late:
        raise CdkFailed(f"{_told(arguments)} takes more than {late.timeout:g} s") from None
    if done.returncode != 0:
        raise CdkFailed(f"{_told(arguments)} has failed:\n{done.stdout}")
    return done.stdout


def _told(arguments: list[str]) -> str:
    return f"`cdk {' '.join(arguments)}`"
