"""The CDK's command line, one version for everybody: `python -m infra.cdk_cli deploy --all ...`.

npm fetches it once, from the registry of the machine's configuration, and it runs on the project's
own node. The package is checked against the hash below, so no registry has to be trusted.
"""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from infra.bundles import CACHE, publish
from infra.node import packaged_npm, use_packaged_node

VERSION = "2.1148.1"
# The package has no dependencies, so one hash is enough. Each version has its own, which
# `npm view aws-cdk@VERSION dist.integrity` prints.
INTEGRITY = (
    "sha512-"
    "K3d02L17IwmAuiBWNuX1DzYhKUs9GrKYI7bZnGJfJ1bKz9ymXFxfudBOL3rUb8JAusDNSULiQU2fsJH7kyY2XA=="
)


def cdk_command(*, cache: Path = CACHE) -> list[str]:
    """Find the command line in `cache`, or fetch it.

    Returns:
        The start of a command; the CDK's own arguments follow.

    Raises:
        RuntimeError: npm cannot fetch the package, or its hash is not the expected one.
    """
    use_packaged_node()
    folder = cache / f"aws-cdk-{VERSION}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="making-") as making:
            _unpack(_fetch(Path(making)), Path(making))
            publish(Path(making, "package"), folder)
    return [os.environ["JSII_NODE"], str(folder / "bin" / "cdk")]


def _fetch(into: Path) -> Path:
    command = [os.environ["JSII_NODE"], packaged_npm(), "pack", "--silent", f"aws-cdk@{VERSION}"]
    done = subprocess.run(
        # Otherwise npm writes a log into the home folder.
        [*command, "--logs-max=0"],
        cwd=into,
        capture_output=True,
        text=True,
        check=False,
    )
    archives = [*into.glob("*.tgz")]
    if done.returncode != 0 or not archives:
        raise RuntimeError(f"npm cannot fetch aws-cdk {VERSION}:\n{done.stderr or done.stdout}")
    return archives[0]


def _unpack(archive: Path, into: Path) -> None:
    digest = hashlib.sha512(archive.read_bytes()).digest()
    found = f"sha512-{base64.b64encode(digest).decode()}"
    if found != INTEGRITY:
        raise RuntimeError(
            f"npm fetched an aws-cdk {VERSION} with another hash than the expected one:"
            f" {found}, not {INTEGRITY}"
        )
    with tarfile.open(archive) as packed:
        packed.extractall(into, filter="data")


def main() -> int:
    """Run the CDK's command line with this process's arguments; returns its exit status."""
    try:
        command = cdk_command()
    except RuntimeError as error:
        sys.exit(f"infra.cdk_cli: {error}")
    return subprocess.run([*command, *sys.argv[1:]], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
