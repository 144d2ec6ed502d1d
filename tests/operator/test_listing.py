"""`oncekey list`, and what every command says of a store that is named wrongly."""

from __future__ import annotations

import importlib
import json
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import idempotent_function, single_tenant
from oncekey.record.record import Due, Status
from oncekey.record.references import reference_to
from oncekey.record.stored_answer import Place, StoredRef
from oncekey.store.dynamodb.codec import attribute_values
from oncekey.tenants import SINGLE_TENANT
from oncekey_operator import output
from oncekey_operator.console.exchange import json_response
from oncekey_operator.console.target_desk import TargetDesk
from oncekey_operator.records.finding import by_key
from oncekey_operator.targets import Target
from tests.support.dynamodb import TABLE
from tests.support.operating import REGION, Operating, operating
from tests.support.records import NOW_MS, record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HUGE = "99999999999999999999"
COUNTED = (
    ("list", "--limit"),
    ("outbox", "--limit"),
    ("redrive", "--set-aside", "--dry-run", "--limit"),
    ("doctor", "--items"),
    ("doctor", "--reconciler-every"),
    ("tail", "--interval"),
)


@pytest.fixture
def service(capsys: pytest.CaptureFixture[str]) -> Iterator[Operating]:
    """A service's tables."""
    with operating(capsys) as found:
        yield found


def keep(service: Operating, **changes: Any) -> None:
    """Put a record into the table."""
    service.client.put_item(TableName=TABLE, Item=attribute_values(record(**changes)))


def damage(service: Operating) -> str:
    """Make an open record unreadable, as a newer release or another program could write it."""
    pk = f"v1#{'C' * 43}"
    item = attribute_values(record(pk=pk, tenant="acme", due=Due(shard="0", at_ms=NOW_MS)))
    service.client.put_item(TableName=TABLE, Item={**item, "status": {"S": "FROM_THE_FUTURE"}})
    return pk


@pytest.mark.parametrize("how", [(), ("--all",)])
def test_an_item_that_cannot_be_read_hides_no_other(
    service: Operating, how: tuple[str, ...]
) -> None:
    """It is named on standard error, and the other operations are listed, by index or by scan.

    Red when one item of the table ends every list.
    """
    keep(service, status=Status.PENDING, due=Due(shard="0", at_ms=NOW_MS + 1), lease_until_ms=None)
    pk = damage(service)

    assert service.json("list", *how)["status"] == "pending"
    assert f"left out: {pk}: the stored record cannot be read" in service.err


@pytest.mark.parametrize("name", ["created_at", "expires_at", "due_at", "lease_until"])
def test_a_time_that_no_calendar_has_is_shown_as_its_number(service: Operating, name: str) -> None:
    """A damaged record whose time is no date hides no other, and can be looked at.

    Red when one time beyond the year 9999 ends the command with a traceback.
    """
    open_one = {"status": Status.PENDING, "lease_until_ms": None}
    keep(service, **open_one, due=Due(shard="0", at_ms=NOW_MS + 1))
    damaged = record(pk=f"v1#{'D' * 43}", due=Due(shard="0", at_ms=NOW_MS), status=Status.UNKNOWN)
    beyond = "999999999999000"
    number = beyond.removesuffix("000") if name == "expires_at" else beyond
    item = {**attribute_values(damaged), name: {"N": number}}
    service.client.put_item(TableName=TABLE, Item=item)

    assert service.run("list", "--json") == 0
    listed = [json.loads(line) for line in service.out.splitlines()]
    assert {each["status"] for each in listed} == {"pending", "unknown"}
    assert f"{beyond} ms" in {each.get(name) for each in listed}
    assert service.run("show", reference_to(damaged)) == 0
    assert f"{beyond} ms" in service.out


def test_a_tenant_is_not_erased_as_long_as_an_item_cannot_be_read(service: Operating) -> None:
    """The item may have the tenant's data, so the exit status and the last line say that it is
    left.
    """
    done = {"status": Status.COMPLETED, "due": None, "completed_at_ms": NOW_MS, "response": "{}"}
    keep(service, **done, lease_until_ms=None, tenant="acme", expires_at_s=10**10)
    pk = damage(service)
    assert service.run("erase", "--tenant", "acme", "--reason", "asked") == 0
    census = service.err.split("--expect ")[1].split(".")[0].strip()

    assert (
        service.run("erase", "--tenant", "acme", "--expect", census, "--reason", "asked", "--yes")
        == 1
    )
    assert "erased: 1;" in service.out
    assert "left: 1 items that cannot be read" in service.out
    assert pk in service.err


@pytest.mark.parametrize(
    "line",
    [
        ("list", "--limit", "-1"),
        ("outbox", "--limit", "0"),
        ("redrive", "--set-aside", "--dry-run", "--limit", "-1"),
        ("doctor", "--items", "-1"),
        ("tail", "--looks", "0"),
        ("tail", "--interval", "nan"),
        ("tail", "--interval", "-1"),
        ("tail", "--interval", "1e300"),
        ("tail", "--looks", "9" * 5000),
        *((*line, HUGE) for line in COUNTED),
    ],
)
def test_a_number_that_means_nothing_is_refused(
    service: Operating, line: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is told with its form, and is neither a traceback nor another number: the last messages
    but one, or looks without an end. So is one that is larger than anything that is counted.
    """
    with pytest.raises(SystemExit) as ended:
        service.run(*line)

    assert ended.value.code == 2
    assert f"argument {line[-2]}: " in capsys.readouterr().err


@pytest.mark.parametrize("reason", ["", "  ", "\t\n"])
@pytest.mark.parametrize(
    "line",
    [
        ("resolve", "an-id", "--not-executed", "--attempt", "1"),
        ("bust", "an-id"),
        ("erase", "an-id"),
        ("move", "--to", "another-table"),
        ("redrive", "--set-aside"),
        ("pause", "POST /refunds"),
        ("resume", "POST /refunds"),
    ],
)
def test_no_action_is_without_a_reason(
    service: Operating, line: tuple[str, ...], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The audit table would say who did it, and not why. A script whose variable is unset has
    none.
    """
    status: object
    try:
        status = service.run(*line, "--reason", reason, "--yes")
        said = service.err
    except SystemExit as ended:
        status, said = ended.code, capsys.readouterr().err

    assert status == 2
    assert "--reason" in said


def test_operations_that_failed_and_wait_for_nobody_are_found(service: Operating) -> None:
    """They are not in the index of open records, so the command scans the table."""
    keep(service, status=Status.FAILED_RETRYABLE, due=None, lease_until_ms=None)

    assert service.run("list", "--failed-retryable") == 0

    assert "failed-retryable" in service.out
    assert "Scanning" in service.err


def test_an_operation_that_waits_for_nobody_is_found_by_its_id(service: Operating) -> None:
    """No index has it. The command says so, and scans the table if it is told to."""
    keep(service, status=Status.FAILED_RETRYABLE, due=None, pk=f"v1#{'B' * 43}")
    operation_id = record().operation_id

    assert service.run("show", operation_id) == 1
    assert "with --scan" in service.err
    assert service.json("show", operation_id, "--scan")["status"] == "failed_retryable"
    assert "Scanning" in service.err
    assert service.run("show", "another", "--scan") == 1


def test_a_request_with_a_binary_body_names_its_operation(
    service: Operating, tmp_path: Path
) -> None:
    """Only the head of a request that was saved is looked at, whatever its body is.

    Red when a body that is no text ends the command with a traceback.
    """
    saved = tmp_path / "request"
    saved.write_bytes(b"POST /photos HTTP/1.1\r\nIdempotency-Key: key-0001\r\n\r\n\xff\xd8\xff")

    assert service.run("show", "--request", str(saved), "--tenant", "acme") == 1
    assert "there is no record of this key of acme for POST /photos" in service.err


@pytest.mark.parametrize("more", [(), ("--scan",)])
def test_an_empty_id_names_no_operation(service: Operating, more: tuple[str, ...]) -> None:
    """A script whose variable is unset acts on nothing, and not on the first operation there is."""
    keep(service, status=Status.PENDING, due=Due(shard="0", at_ms=NOW_MS), lease_until_ms=None)

    for command in ("bust", "erase"):
        assert service.run(command, "", *more, "--reason", "r", "--yes") == 2
    assert service.run("show", "", *more) == 2

    assert service.json("list")["status"] == "pending"
    assert service.audited() == []


def test_what_dynamodb_reports_as_hot_is_shown(service: Operating) -> None:
    """Its report has the key of an item, a record or a companion. That is enough to look, and not
    to act: it names whatever operation has the key now.
    """
    pk = f"v1#{'B' * 43}"
    keep(service, pk=pk)

    for key in (pk, f"{pk}#owner-1"):
        assert service.json("show", key)["reference"].startswith(pk)
    assert service.run("bust", pk, "--reason", "a test", "--yes") == 1
    assert service.store.read(pk) is not None


def test_a_dead_attempt_is_told_from_a_running_one(service: Operating) -> None:
    """Until somebody ends it, its line says that its lease is over."""
    keep(service, lease_until_ms=1, last_error=None)
    assert service.run("list") == 0
    assert "lease over" in service.out

    keep(service, lease_until_ms=10**15, last_error=None)
    assert service.run("list") == 0
    assert "lease over" not in service.out


def test_without_a_filter_the_command_speaks_of_open_operations(service: Operating) -> None:
    """A settled operation may be in the table all the same."""
    assert service.run("list") == 0
    assert "No open operations" in service.err
    assert service.run("list", "--unknown") == 0
    assert "No such operations" in service.err


def test_what_nobody_was_told_of_is_not_listed_as_escalated(service: Operating) -> None:
    """A handler that stops an operation marks it. The reconciler tells a person later, and first
    postpones the record by a day.
    """
    day_ms = 86_400_000
    marked = {"status": Status.UNKNOWN, "pk": f"v1#{'B' * 43}", "escalated_at_ms": NOW_MS}
    keep(service, **marked, due=Due(shard="0", at_ms=NOW_MS + 60_000))
    assert service.run("list", "--escalated", "--json") == 0
    assert service.out == ""
    assert service.run("list", "--unknown") == 0
    assert "unknown!" in service.out  # only a person can settle it
    reference = reference_to(record(**marked))
    assert service.json("show", reference)["escalated_at"] is None
    assert service.run("show", reference) == 0
    assert "not yet: the reconciler escalates it" in service.out

    keep(service, **marked, due=Due(shard="0", at_ms=NOW_MS + day_ms))
    assert service.json("list", "--escalated")["escalated_at"] is not None


def test_a_narrow_terminal_keeps_the_last_error(
    service: Operating, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of tries and the tenant go first: nobody decides by them."""
    keep(service, status=Status.UNKNOWN, last_error="step-in-doubt: charge")
    monkeypatch.setattr(output, "is_terminal", lambda _: True)
    monkeypatch.setenv("COLUMNS", "102")

    assert service.run("list") == 0

    assert "step-in-doubt: charge" in service.out
    assert "TRY" not in service.out
    assert "TENANT" not in service.out


@pytest.mark.parametrize("command", [("list",), ("show", "an-id"), ("pause",), ("outbox",)])
def test_a_table_that_is_not_there_is_no_outage(
    service: Operating, command: tuple[str, ...]
) -> None:
    """Exit status 2, and the sentence says what to correct: no later try would help."""
    service.client.delete_table(TableName="outbox-under-test")

    assert service.run(*command, table="recrods") == 2

    assert "oncekey doctor" in service.err
    assert "did not answer" not in service.err


@pytest.mark.parametrize("name", ["--tenant", "--operation"])
def test_an_empty_filter_fits_nothing(service: Operating, name: str) -> None:
    """A script whose variable is unset lists, and settles, no operations of others."""
    keep(service, status=Status.UNKNOWN, due=Due(shard="0", at_ms=NOW_MS), lease_until_ms=None)
    many = ("--all-listed", "--unknown", "--not-executed", "--reason", "r")

    assert service.run("list", name, "") == 2
    assert service.run("resolve", *many, name, "") == 2
    assert (service.out, service.audited()) == ("", [])


def test_a_request_that_nobody_can_read_is_a_wrong_command_line(
    service: Operating, tmp_path: Path
) -> None:
    """A file nested too deep names no operation, and holds no answer."""
    deep = tmp_path / "deep.json"
    deep.write_text('{"a":' * 100_000)

    assert service.run("show", "--request", str(deep), "--tenant", "acme") == 2
    assert service.run("resolve", "id", "--completed", str(deep), "--reason", "r", "--yes") == 2


def test_the_result_of_a_function_is_shown_without_its_classes(
    service: Operating, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator's machine does not have the handler's modules, and JSON not all its values.

    Red when a completed function whose result is a dataclass cannot be looked at.
    """
    (tmp_path / "of_the_handler.py").write_text(
        "from dataclasses import dataclass\n\n@dataclass\nclass Shipment:\n    weights: dict\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("of_the_handler")

    @idempotent_function(
        operation="ship", key=lambda order: order, tenant=single_tenant(), store=service.store
    )
    def ship(order: str) -> Any:
        return module.Shipment({(order, 1): Decimal("1.5")})

    ship("order-000000000001")
    monkeypatch.delitem(sys.modules, "of_the_handler")
    which = ("--key", "order-000000000001", "--tenant", SINGLE_TENANT, "--operation", "ship")

    assert service.run("show", *which) == 0
    assert "a function's result" in service.out
    assert service.run("show", *which, "--reveal") == 0
    told = service.json("show", *which, "--reveal")["stored_answer"]
    assert (told["$"], told["c"]) == ("dataclass", "of_the_handler:Shipment")
    desk = TargetDesk(Target(table=TABLE, region=REGION))
    record = by_key(service.store, tenant=SINGLE_TENANT, operation="ship", key=which[1])
    assert record is not None
    assert json_response(desk.revealed(record)).status == 200


@pytest.mark.parametrize("answer", [0, "", [], False])
def test_an_answer_that_is_nothing_is_revealed(service: Operating, answer: Any) -> None:
    """The console shows it as it shows every other one."""

    @idempotent_function(
        operation="count", key=lambda order: order, tenant=single_tenant(), store=service.store
    )
    def count(order: str) -> Any:
        return answer

    count("order-000000000001")
    found = by_key(service.store, tenant=SINGLE_TENANT, operation="count", key="order-000000000001")
    assert found is not None

    assert TargetDesk(Target(table=TABLE, region=REGION)).revealed(found)["answer"] == answer


def test_an_operation_is_shown_without_the_bucket_of_its_answer(service: Operating) -> None:
    """Its state and times are in the table. Of the answer, the command says where it is.

    Red when nothing is shown of an operation whose answer is large.
    """
    one = record(
        pk=f"v1#{'B' * 43}",
        status=Status.COMPLETED,
        lease_until_ms=None,
        escalated_at_ms=None,
        completed_at_ms=NOW_MS,
        expires_at_s=4_000_000_000,
        response=StoredRef(place=Place.OBJECT, name="answers/large", digest="0" * 43),
    )
    service.client.put_item(TableName=TABLE, Item=attribute_values(one))

    shown = service.json("show", reference_to(one))

    assert (shown["status"], shown["operation_id"]) == ("completed", one.operation_id)
    assert "say --bucket NAME" in shown["answer"]
