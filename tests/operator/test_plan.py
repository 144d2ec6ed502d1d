"""The plan of a workload: its units are those that a run is counted to spend."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import Quota
from oncekey.outbox.envelope import sealed
from oncekey.outbox.inbox import delivered
from oncekey.queued.jobs import Jobs
from oncekey.settings import Settings
from oncekey.store.dynamodb.outbox import message_from_item
from oncekey_local.cli import main
from oncekey_operator.planning.limits import MOST_DUE_SHARDS, MOST_QUOTA_SHARDS
from oncekey_operator.planning.plan import MONTH_S, plan, shards_for
from oncekey_operator.planning.prices import Prices
from oncekey_operator.planning.workload import Workload, body_of
from tests.support.dynamodb import TABLE
from tests.support.events import load
from tests.support.metered import Meter
from tests.support.protected import Protected
from tests.support.recorded import LEDGER, OUTBOX, World, recorded_world

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey import Operation
    from tests.benchmarks.units import Units as Counted

POST = load("apigw_http_v2_post")
LARGE = body_of(20_000)
HUGE = "99999999999999999999"
FIGURES = (
    *("--peak-rps", "--duplicates", "--busiest-key", "--answer-bytes", "--steps", "--messages"),
    *("--idempotent-steps", "--message-bytes", "--request-bytes", "--quota-shards", "--shards"),
    "--largest-tenant",
)


@pytest.fixture
def world() -> Iterator[World]:
    """The tables."""
    with recorded_world() as world:
        yield world


def workload(**given: Any) -> Workload:
    """A thousand first requests a second, with a small answer."""
    usual = {"rps": 1000, "peak_rps": 3000, "answer": '{"run": 1}', "duplicates": 0.1}
    return Workload(**{**usual, "retention_s": 86_400, **given})


def counted(
    world: World, planned: Workload, monkeypatch: pytest.MonkeyPatch
) -> tuple[Counted, Counted]:
    """The units of a first request and its repeat, as the layer's own requests spend them."""
    monkeypatch.setenv("ONCEKEY_DUE_SHARDS", str(planned.shards))
    meter = Meter(world.client, {TABLE: "pk", OUTBOX: "id", LEDGER: "id"})
    options: dict[str, Any] = {"effects": "recorded"} if planned.needs_index else {}
    if planned.queued:
        options |= {"mode": "queued", "operation": "POST /reports"}
    if planned.limits:
        options["quota"] = Quota(new_keys=100, active_keys=100 if planned.limits > 1 else None)
    service = Protected(store=world.store(), **options)

    def then(_event: Any, op: Operation) -> dict[str, Any]:
        for number in range(planned.steps):
            op.step(f"step-{number}", lambda: {"id": "ch_1"})
        for number in range(planned.idempotent_steps):
            op.step(f"again-{number}", lambda: {"id": "ch_1"}, idempotent=True)
        for number in range(planned.messages):
            op.outbox.publish("payment.created", {"id": f"payment-{number}"})
        return {"statusCode": 201, "body": planned.answer}

    service.then = then
    service.send(POST)
    if planned.queued:
        (item,) = world.client.scan(TableName=OUTBOX)["Items"]
        message = delivered(sealed(message_from_item(item)))
        Jobs(service.handler).perform(message, service.context())
    # Without the deletes of the relay, which is not part of the run.
    first = meter.take()
    service.send(POST)
    return first, meter.take()


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"shards": 0},
        {"answer": LARGE},
        {"steps": 2, "idempotent_steps": 1},
        {"messages": 2},
        {"queued": True},
        {"queued": True, "answer": LARGE},
        {"steps": 1, "answer": LARGE},
        {"messages": 1, "answer": LARGE},
        {"limits": 1},
        {"limits": 2, "messages": 1},
    ],
    ids=lambda given: " ".join(given) or "unrecorded",
)
def test_the_planned_units_are_those_of_a_counted_run(
    given: dict[str, Any], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan says what the layer's requests spend, for every kind of operation.

    Red when the layer needs one more write, or an item outgrows a unit.
    """
    planned = workload(**given)

    made = plan(planned, Prices())

    first, again = counted(world, planned, monkeypatch)
    deleted = planned.messages + (2 if planned.queued else 0)
    total = (made.first.read, made.first.write - deleted, made.first.index)
    assert total == (first.read, first.write, first.index)
    assert (made.duplicate.read, made.duplicate.write) == (again.read, again.write)


def test_the_money_is_the_units_and_gigabytes_at_the_given_prices() -> None:
    """Each part of the bill is its quantity times its price, and a price can be replaced."""
    load = workload(duplicates=0)

    made = plan(load, Prices().changed({"write": 1.0}))

    millions = 1000 * MONTH_S / 1e6
    assert made.bill.table_writes == pytest.approx(2 * millions * 1.0)
    assert made.bill.index_writes == pytest.approx(2 * millions * 1.0)
    assert made.bill.storage == pytest.approx(made.stored_gb * 0.25)
    assert made.bill.total == pytest.approx(
        made.bill.table_writes
        + made.bill.index_writes
        + made.bill.reads
        + made.bill.storage
        + made.bill.backup
    )


def test_the_plan_without_the_index_saves_its_writes_alone() -> None:
    """Side by side: the same operation without the index pays no write of the index."""
    made = plan(workload(), Prices())

    assert made.without_index is not None
    assert made.without_index.index_writes == 0
    assert made.without_index.table_writes == made.bill.table_writes


@pytest.mark.parametrize("given", [{"queued": True}, {"steps": 1}, {"messages": 1}])
def test_what_needs_the_index_is_planned_with_it_alone(given: dict[str, Any]) -> None:
    """The layer refuses such an operation without the index, so no such price is shown."""
    assert plan(workload(**given), Prices()).without_index is None


@pytest.mark.parametrize(
    ("given", "hot"),
    [
        ({"peak_rps": 1500}, set[str]()),
        ({"peak_rps": 11_574}, {"fullest shard of the index", "table, on its first day"}),
        ({"peak_rps": 11_574, "shards": 64}, {"table, on its first day"}),
        ({"peak_rps": 100, "limits": 1}, {"quota counter of the largest tenant"}),
        ({"peak_rps": 100, "limits": 1, "quota_shards": 8}, set[str]()),
        ({"peak_rps": 1500, "busiest_key": 2000}, {"busiest key"}),
        (
            {"peak_rps": 7000, "messages": 2, "shards": 64},
            {"outbox table", "table, on its first day"},
        ),
    ],
)
def test_a_partition_that_would_be_throttled_is_hot(given: dict[str, Any], hot: set[str]) -> None:
    """The plan names each place where the peak is above DynamoDB's limit, and no other."""
    made = plan(workload(**given), Prices())

    assert {each.what for each in made.pressures if each.verdict == "hot"} == hot


def test_the_recommended_shards_are_half_full_at_the_peak() -> None:
    """The page on cost says the peak divided by 250, and never fewer than the default."""
    assert shards_for(workload(peak_rps=34_722)) == 139
    assert shards_for(workload(peak_rps=10)) == 16


@pytest.mark.parametrize(
    ("given", "what", "sentence"),
    [
        ({"limits": 1}, "quota counter of the largest tenant", "set shards=34 in its Quota"),
        ({"limits": 1, "peak_rps": 3000}, "quota counter of the largest tenant", "leave the quota"),
        ({"peak_rps": 3000}, "fullest shard of the index", "set ONCEKEY_DUE_SHARDS=16 "),
        ({"peak_rps": 400_000}, "fullest shard of the index", "split the records over several"),
    ],
)
def test_no_advice_names_a_value_that_the_layer_refuses(
    given: dict[str, Any], what: str, sentence: str
) -> None:
    """Where no number of shards would do, the plan says what does."""
    made = plan(workload(**{"peak_rps": 1000, **given}), Prices())

    (advice,) = (each.advice for each in made.pressures if each.what == what)
    assert sentence in advice


def test_the_limits_of_a_plan_are_those_of_the_layer() -> None:
    """The most shards are taken, and one more is refused."""
    Quota(new_keys=100, shards=MOST_QUOTA_SHARDS)
    Settings(due_shards=MOST_DUE_SHARDS)
    with pytest.raises(ValueError, match="shards"):
        Quota(new_keys=100, shards=MOST_QUOTA_SHARDS + 1)
    with pytest.raises(ValueError, match="due_shards"):
        Settings(due_shards=MOST_DUE_SHARDS + 1)


def test_the_command_prints_the_plan_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """Its names are those of the plan, with the prices that were used and their source."""
    given = ["--rps", "1000", "--duplicates", "10%", "--retention", "24h", "--price", "write=1"]

    assert main(["plan", *given, "--answer-bytes", "9", "--json"]) == 0

    printed = json.loads(capsys.readouterr().out)
    made = plan(workload(answer=body_of(9)), Prices(write=1.0))
    assert printed["prices"]["write"] == 1.0
    assert printed["prices"]["source"].startswith("https://aws.amazon.com/")
    assert printed["bill"]["total"] == pytest.approx(made.bill.total)
    assert {each["what"] for each in printed["pressures"]} == {each.what for each in made.pressures}


@pytest.mark.parametrize(
    "wrong",
    [
        ["--rps", "0"],
        ["--rps", "1", "--retention", "a day"],
        ["--rps", "1", "--price", "disk=1"],
        ["--rps", "1", "--duplicates", "nan"],
        ["--rps", "1e308"],
        ["--rps", "1", "--retention", f"{HUGE}h"],
        ["--rps", "1", "--price", f"write={HUGE}"],
        *(["--rps", "1", name, HUGE] for name in FIGURES),
        ["--rps", "1", "--shards", "1001"],
        ["--rps", "1", "--quota-shards", "65"],
    ],
)
def test_a_wrong_figure_is_a_wrong_command_line(wrong: list[str]) -> None:
    """It is refused before anything is computed, also if it is too large to be computed with, or
    if the layer itself refuses it.
    """
    with pytest.raises(SystemExit) as ended:
        main(["plan", *wrong])

    assert ended.value.code == 2


def test_a_job_cannot_be_planned_without_the_index(capsys: pytest.CaptureFixture[str]) -> None:
    """The sentence says why."""
    assert main(["plan", "--rps", "1", "--queued", "--shards", "0"]) == 2
    assert "need the index" in capsys.readouterr().err
