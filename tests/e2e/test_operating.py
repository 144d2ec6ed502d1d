"""A killed refund, found and ended with the operator's commands alone, as processes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.support.dev_service import ROOT, running
from tests.support.payments_client import Client, new_key
from tests.support.settling import killed_in_vain, unknown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SERVICE = "infra.service:SERVICE"
ANSWER = {
    "statusCode": 201,
    "headers": {"Content-Type": "application/json"},
    "body": json.dumps({"refund_id": "re_by_hand", "status": "succeeded"}),
}


@pytest.fixture(scope="module")
def refunds() -> Iterator[Client]:
    """A client of a service whose functions die early, so that nothing waits for a lease."""
    env = {"ONCEKEY_LEASE_MARGIN_MS": "300", "ONCEKEY_RECONCILE_GRACE_MS": "200"}
    with running(SERVICE, env=env, timeout_s=3, poll_s=0.05, schedule_s=300) as dev:
        yield Client(dev).refunding()


def oncekey(client: Client, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command on the running service."""
    port = str(urlsplit(client.dev.url).port)
    return subprocess.run(
        [sys.executable, "-m", "oncekey_local.cli", *arguments, "--local", port],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def said(client: Client, *arguments: str) -> list[dict[str, Any]]:
    """The lines of JSON that a command prints."""
    run = oncekey(client, *arguments, "--json")
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def test_a_killed_refund_is_listed_shown_resolved_and_replayed(
    refunds: Client, tmp_path: Path
) -> None:
    """An operator who found the refund at the provider ends it, and its client gets the answer."""
    key = new_key()
    killed_in_vain(refunds, key)
    unknown(refunds, key)

    (listed,) = said(refunds, "list", "--unknown")
    named = ("--tenant", "acme", "--operation", listed["operation"], "--key", key)
    (shown,) = said(refunds, "show", *named)
    file = tmp_path / "answer.json"
    file.write_text(json.dumps(ANSWER), "utf-8")
    resolved = oncekey(
        refunds,
        *("resolve", shown["reference"], "--completed", str(file)),
        *("--reason", "made by hand at the provider", "--yes"),
    )
    again = refunds.ask(key)

    assert (shown["operation_id"], shown["status"]) == (listed["operation_id"], "unknown")
    port = urlsplit(refunds.dev.url).port
    assert shown["next"]["command"] == (
        f"oncekey resolve {shown['reference']} --attempt {shown['attempt']} --local {port}"
    )
    assert (resolved.returncode, resolved.stdout) == (0, f"{listed['operation_id']}: settled\n")
    assert (again.status, again.json()["refund_id"]) == (201, "re_by_hand")
    assert said(refunds, "list", "--unknown") == []
    lines = refunds.rows("oncekey-audit")
    assert [each["outcome"]["S"] for each in sorted(lines, key=lambda row: row["at"]["S"])] == [
        "intended",
        "settled",
    ]
