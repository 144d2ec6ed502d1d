"""The reference service, asked by its own OpenAPI document over HTTP: schemathesis makes the
requests, and holds the answers against the document.

A longer run: `FUZZ_EXAMPLES=100 FUZZ_SEED=7 pytest -m proof tests/e2e/test_document_over_http.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.dev_service import ROOT, running, send

if TYPE_CHECKING:
    from oncekey_local.dev_process import DevProcess

# Hundreds of requests.
pytestmark = pytest.mark.proof

# What a valid request may get beside a success: its key may be one that another request has used,
# and its date of first sending may be long ago.
_CONFIGURATION = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 404, 409, 412, 422]

# API Gateway answers 404 to a method that no route has.
[checks.unsupported_method]
enabled = false

# No valid event is signed.
[[operations]]
include-path = "/webhooks/stripe"
checks.positive_data_acceptance.enabled = false
"""


def asked(dev: DevProcess, folder: Path) -> subprocess.CompletedProcess[str]:
    """The run of schemathesis, with its seed in the output."""
    configuration = folder / "schemathesis.toml"
    configuration.write_text(_CONFIGURATION)
    document = folder / "openapi.json"
    # Making it takes as long as the machine likes; schemathesis waits for ten seconds.
    document.write_bytes(send(dev.url, "GET", "/openapi.json").body)
    return subprocess.run(
        [
            *(str(Path(sys.executable).parent / "schemathesis"), "--config-file"),
            *(str(configuration), "run", str(document), "--url", dev.url, "--no-color"),
            *("--request-timeout", "60"),
            *("--header", f"Authorization: Bearer {dev.token('acme')}"),
            *("--seed", os.environ.get("FUZZ_SEED", "1")),
            *("--max-examples", os.environ.get("FUZZ_EXAMPLES", "5")),
            *("--phases", "examples,coverage,fuzzing,stateful", "--generation-database", "none"),
            *("--continue-on-failure", "--no-shrink", "--suppress-health-check", "all"),
        ],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "SCHEMATHESIS_HOOKS": "tests.support.http_dates",
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_answer_is_one_that_the_document_promises(tmp_path: Path) -> None:
    """Valid, invalid and missing parts of requests to every route, and what was made read again: no
    5xx, no status, header or body that the document does not have, and no invalid request that is
    carried out.

    Red when a route answers what its document does not say.
    """
    with running("infra.service:SERVICE", sandboxes=1) as dev:
        run = asked(dev, tmp_path)

    assert run.returncode == 0, run.stdout + run.stderr
    assert "Tested: 7" in run.stdout
    assert "✅ Stateful" in run.stdout
    assert "Seed: " in run.stdout
