"""Operating the running service: the operator's commands as processes, and the canary."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from functions.canary.handler import handler as canary
from functions.canary.logic import AMOUNT, CanaryFailed
from functions.shared.settings import NotConfigured
from oncekey_local.cli import main
from tests.support.dev_service import ROOT, running
from tests.support.payments_client import Client, new_key
from tests.support.settling import killed_in_vain, unknown
from tests.support.token_endpoint import CLIENT, issuing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SERVICE = "infra.service:SERVICE"
UNKNOWN = ("list", "--unknown", "--tenant", "operated")
ANSWER = {
    "statusCode": 201,
    "headers": {"Content-Type": "application/json"},
    "body": json.dumps({"refund_id": "re_by_hand", "status": "succeeded"}),
}


@pytest.fixture(scope="module")
def refunds(shared: Client) -> Client:
    """A client whose tenant nobody else is."""
    return shared.of("operated").refunding()


def oncekey(client: Client, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command on the running service, as a process."""
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
    """The lines of JSON that a command prints, run in this process."""
    port, told = str(urlsplit(client.dev.url).port), io.StringIO()
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(told):
        assert main([*arguments, "--json", "--local", port]) == 0
    return [json.loads(line) for line in told.getvalue().splitlines()]


def test_a_killed_refund_is_listed_shown_resolved_and_replayed(
    refunds: Client, tmp_path: Path
) -> None:
    """An operator who found the refund at the provider ends it, and its client gets the answer."""
    key = new_key()
    killed_in_vain(refunds, key)
    unknown(refunds, key)

    (listed,) = said(refunds, *UNKNOWN)
    named = ("--tenant", refunds.tenant, "--operation", listed["operation"], "--key", key)
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
    assert said(refunds, *UNKNOWN) == []
    audited = refunds.rows("oncekey-audit")
    lines = [row for row in audited if row["operation_id"]["S"] == listed["operation_id"]]
    assert [each["outcome"]["S"] for each in sorted(lines, key=lambda row: row["at"]["S"])] == [
        "intended",
        "settled",
    ]


def run_canary(
    payments: Client, event_id: str, settings: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Run the canary on the service, with its settings unless told otherwise."""
    with issuing(payments.dev.token("canary")) as address, pytest.MonkeyPatch.context() as patch:
        given = {
            "CANARY_API_URL": payments.dev.url,
            "CANARY_CUSTOMER": "cus_canary",
            "CANARY_CLIENT": json.dumps({"token_url": address, **CLIENT}),
            **(settings or {}),
        }
        for name, value in given.items():
            patch.setenv(name, value)
        return canary({"id": event_id}, None)


def test_the_canary_makes_one_payment_of_its_own_tenant(refunds: Client) -> None:
    """A run pays once, in its own tenant, gets the same answer again, and says which payment it
    was. An event that is delivered twice is the same payment.

    Red when a run makes two payments, or a second delivery of its event makes another.
    """
    paid = [run_canary(refunds, "event-number-1") for _ in range(2)]

    rows = [row for row in refunds.rows("payments") if row["tenant"]["S"] == "canary"]
    assert [row["amount"]["N"] for row in rows] == [str(AMOUNT)]
    found = {"payment_id": rows[0]["payment_id"]["S"], "idempotency_key": "canary-event-number-1"}
    assert paid == [found, found]


@pytest.mark.parametrize(
    ("variable", "value", "error", "says"),
    [
        ("CANARY_CUSTOMER", "no customer", CanaryFailed, "answered with 400, not 202"),
        ("CANARY_CLIENT", '{"client_id": "s3cret"}', NotConfigured, "must be a JSON object with"),
        (
            "CANARY_CLIENT",
            json.dumps({"token_url": "http://login.example/token", **CLIENT}),
            NotConfigured,
            "an https token_url",
        ),
        ("CANARY_API_URL", "", NotConfigured, "CANARY_API_URL is not set"),
    ],
)
def test_the_canary_says_what_is_wrong(
    refunds: Client, variable: str, value: str, error: type[Exception], says: str
) -> None:
    """A refused payment, and a missing or malformed setting, end the run, which is an alarm. The
    message names the fault and no secret.
    """
    with pytest.raises(error, match=says) as raised:
        run_canary(refunds, "event-number-2", {variable: value})

    assert "s3cret" not in str(raised.value)


@pytest.mark.proof
def test_the_canary_notices_a_service_without_protection() -> None:
    """Where the layer is switched off, the second request is a second payment, and the run fails.

    Red when the canary takes any two good answers for one payment.
    """
    told = r"canary-event-number-3: .* is no replay; .* is not the first one"
    with (
        running(SERVICE, env={"ONCEKEY_DISABLED": "1"}, schedule_s=300) as dev,
        pytest.raises(CanaryFailed, match=told),
    ):
        run_canary(Client(dev), "event-number-3")
