"""Runs moto's server, the cloud that stage production is deployed to."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from infra.local_deployment.child_process import ChildProcess
from infra.local_deployment.cloud import Cloud
from infra.local_deployment.moto_server import READY
from infra.local_deployment.toolkit import ROOT
from oncekey_local.processes import clean_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

# The account that moto plays.
ACCOUNT = "123456789012"


@contextlib.contextmanager
def moto_cloud() -> Iterator[Cloud]:
    """An empty account of moto's, until the end of the block."""
    with (
        tempfile.TemporaryDirectory(prefix="oncekey-moto-") as folder,
        ChildProcess(
            sys.executable,
            "infra.local_deployment.moto_server",
            ready=READY,
            environment=clean_environment(),
            folder=ROOT,
        ) as server,
    ):
        yield Cloud(
            name="moto",
            url=server.line.removeprefix(READY),
            account=ACCOUNT,
            key="testing",
            folder=Path(folder),
        )
