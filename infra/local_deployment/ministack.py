"""Runs ministack, in an environment of its own: an emulator that runs the deployed code."""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import TYPE_CHECKING

from infra.bundles import CACHE, ROOT, publish
from infra.local_deployment.child_process import ChildProcess
from infra.local_deployment.cloud import Cloud
from oncekey_local.processes import LOOPBACK, clean_environment, free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

# Its versions differ much, so it is pinned, with boto3 and cryptography, which it and its functions
# import. It is never installed into the project's own environment.
LOCK = ROOT / "infra" / "ministack.lock"
# The account that it plays.
ACCOUNT = "000000000000"


@contextlib.contextmanager
def ministack_cloud() -> Iterator[Cloud]:
    """An empty account of ministack's, until the end of the block."""
    python = str(ministack_python())
    port = free_port(0, purpose="ministack")
    with tempfile.TemporaryDirectory(prefix="oncekey-ministack-") as folder:
        environment = clean_environment() | {
            "GATEWAY_PORT": str(port),
            # Every interface otherwise.
            "BIND_HOST": LOOPBACK,
            "IOT_MTLS_ENABLED": "0",
            "TMPDIR": folder,
            "STATE_DIR": f"{folder}/state",
            "HOME": folder,
        }
        # The functions find their packages in the layer, and nothing of the project.
        del environment["PYTHONPATH"]
        with ChildProcess(
            python,
            "ministack",
            ready="Running on http://",
            environment=environment,
            folder=Path(folder),
        ):
            yield Cloud(
                name="ministack",
                url=f"http://{LOOPBACK}:{port}",
                account=ACCOUNT,
                key="test",
                folder=Path(folder),
            )


def ministack_python(*, cache: Path = CACHE) -> Path:
    """The interpreter of ministack's environment, which is made where there is none of this lock.

    Raises:
        RuntimeError: pip cannot fetch a package, or it has another hash than the locked one.
    """
    inputs = f"{sys.version_info.major}.{sys.version_info.minor}\n{LOCK.read_text('utf-8')}"
    folder = cache / f"ministack-{hashlib.sha256(inputs.encode()).hexdigest()[:32]}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="making-") as making:
            made = Path(making, "venv")
            venv.create(made, symlinks=True)
            _install(made / "bin" / "python")
            publish(made, folder)
    return folder / "bin" / "python"


def _install(python: Path) -> None:
    command = [
        *(sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"),
        *("--disable-pip-version-check", "--no-input", "--require-hashes", "--no-compile"),
        *("--requirement", str(LOCK)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"pip cannot fetch ministack:\n{done.stderr}")
