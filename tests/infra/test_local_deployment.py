"""The tools of `make deploy-local`, without a deployment: that they see what is wrong."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import pytest

from infra import cdk_cli
from infra.local_deployment import scenes
from infra.local_deployment.api import Answer
from infra.local_deployment.child_process import ChildProcess
from infra.local_deployment.cloud import Cloud
from oncekey_local.processes import clean_environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@dataclass
class FakeService:
    """An API and its provider's charges, in memory; `fault` says which promise it breaks."""

    fault: str = ""
    charges: int = 0
    _answers: dict[str, str] = field(default_factory=dict)
    _ids: count[int] = field(default_factory=count)

    def post(self, path: str, body: object, *, key: str) -> Answer:
        """A payment, taken on once for each key."""
        known = key in self._answers
        if not known or self.fault == "runs again":
            self._answers[key] = f"{path}/pay_{next(self._ids)}"
        replayed = known and self.fault != "not said to be a replay"
        return Answer(
            status=500 if self.fault == "fails" else 202,
            headers={
                "location": self._answers[key],
                **({"idempotent-replayed": "true"} if replayed else {}),
            },
            body=json.dumps({"path": self._answers[key]}).encode(),
        )

    def get(self, path: str) -> Answer:
        """What became of the payment."""
        status = {"is declined": "declined", "never ends": "pending"}.get(self.fault, "succeeded")
        self.charges += 2 if self.fault == "charges twice" else 1
        return Answer(status=200, headers={}, body=json.dumps({"status": status}).encode())


def _nothing() -> None:
    """No message has to be carried on."""


def test_a_payment_that_is_charged_once_is_let_pass() -> None:
    """The scene ends, with the payment's path, where everything is as promised."""
    service = FakeService()

    assert scenes.pay_once(service, lambda: service.charges, _nothing) == "/payments/pay_0"


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("fails", "was answered with 500"),
        ("runs again", "the replay differs"),
        ("not said to be a replay", "not replayed"),
        ("is declined", "has ended as declined"),
        ("never ends", "is still pending"),
        ("charges twice", "has charged 2 times"),
    ],
)
def test_a_broken_promise_ends_the_scene(fault: str, told: str) -> None:
    """Whatever a deployment does wrong with a payment is seen, and named."""
    service = FakeService(fault=fault)

    with pytest.raises(scenes.Broken, match=told):
        scenes.pay_once(service, lambda: service.charges, _nothing)


def test_a_deployment_never_sees_the_developers_own_account(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The command line is told of the emulator and of nothing else: no profile, no session, no
    other endpoint, no file with credentials.
    """
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_ROLE_ARN"):
        monkeypatch.setenv(name, "real")
    url = "http://localhost:1"
    cloud = Cloud(name="none", url=url, account="1", key="testing", folder=tmp_path)

    environment = cloud.environment()

    assert "real" not in environment.values()
    assert environment["AWS_ENDPOINT_URL"] == url
    assert environment["AWS_ACCESS_KEY_ID"] == environment["AWS_SECRET_ACCESS_KEY"] == "testing"
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        assert environment[name] == os.devnull
    assert environment["HOME"] == str(tmp_path)


def test_a_command_line_of_another_hash_is_never_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What npm brings is unpacked only if it is the version that was looked at."""

    def fetch(into: Path) -> Path:
        archive = into / "aws-cdk.tgz"
        archive.write_bytes(b"another")
        return archive

    monkeypatch.setattr(cdk_cli, "_fetch", fetch)

    with pytest.raises(RuntimeError, match="another hash than the expected one: sha512-"):
        cdk_cli.cdk_command(cache=tmp_path)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("module", "said"),
    [("this", "Beautiful is better than ugly"), ("no_such_module", "No module named")],
)
def test_a_server_that_does_not_start_is_told_with_its_output(
    module: str, said: str, tmp_path: Path
) -> None:
    """A child that ends before it is ready raises, with what it has said."""
    start: Callable[[], ChildProcess] = lambda: ChildProcess(  # noqa: E731 -- one statement raises
        sys.executable, module, ready="ready", environment=clean_environment(), folder=tmp_path
    )

    with pytest.raises(RuntimeError, match=f"{module} does not start(?s:.)*{said}"):
        start()
