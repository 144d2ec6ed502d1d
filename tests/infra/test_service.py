"""The description of the reference service."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_description_needs_no_cdk() -> None:
    """Importing the description imports nothing of the CDK, which the local runtime lacks."""
    program = (
        "import sys, infra.service; "
        "roots = {name.partition('.')[0] for name in sys.modules}; "
        "print(sorted(roots & {'aws_cdk', 'jsii', 'constructs'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"


def test_a_description_loads_no_other_package() -> None:
    """The local runtime, a CDK app and tools import `oncekey_local.description`, so it needs
    nothing that an extra brings, and not boto3 either.
    """
    program = (
        "import sys; before = set(sys.modules); import oncekey_local.description; "
        "roots = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(roots - set(sys.stdlib_module_names) - {'oncekey', 'oncekey_local'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"
