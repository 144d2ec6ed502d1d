"""The benchmarks measure what they say: answers, requests, bytes and units of each case."""

from __future__ import annotations

import pytest
from aws_lambda_powertools.shared import user_agent

from oncekey.settings import TRANSPORTS
from tests.benchmarks import units
from tests.benchmarks.cases import CASES, Context
from tests.benchmarks.contenders import powertools
from tests.benchmarks.contest import Contestant, contest
from tests.benchmarks.environment import ENVIRONMENT
from tests.benchmarks.loopback import loopback
from tests.benchmarks.measuring import Times, measured
from tests.benchmarks.recording import Call, Tapes, recorded
from tests.benchmarks.suite import costs_of, source_of_replies
from tests.benchmarks.transport import Reply, Request
from tests.benchmarks.units import Units
from tests.support.capacity import UNITS
from tests.support.protected import is_replay

# Every call of every contender is recorded first.
pytestmark = pytest.mark.proof

CALLS = 2


@pytest.fixture(scope="module")
def tapes() -> Tapes:
    """Every case, recorded."""
    return recorded(list(CASES.values()), CALLS)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("name", "over"),
    [*((name, "stub") for name in CASES), ("large-replay", "loopback"), ("duplicate", "loopback")],
)
def test_every_contender_answers_as_it_should(
    name: str,
    over: str,
    transport: str,
    tapes: Tapes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A contender is measured only with the answers that its callers should get.

    `contest` compares each answer, and that every recorded reply was asked for. A transport that is
    measured does not leave its work to another one, which would be logged.
    """
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "")
    monkeypatch.setenv("ONCEKEY_TRANSPORT", transport)
    with source_of_replies(over) as source:
        made = contest(CASES[name], tapes, source)

    assert list(made) == ["oncekey", "powertools", "bare"]
    assert all(len(contestant.calls) == CALLS for contestant in made.values())
    assert "transport" not in caplog.text


@pytest.mark.parametrize("name", ["replay", "large-replay", "large-body-replay", "first-call"])
def test_replays_are_replays(name: str, tapes: Tapes) -> None:
    """What is measured as a replay says that it is one, and a first call does not."""
    with source_of_replies("stub") as source:
        contestant = contest(CASES[name], tapes, source)["oncekey"]
        source.load(contestant.calls[0].replies)

        answer = contestant.handler(contestant.calls[0].event, Context())

    assert is_replay(answer) == (CASES[name].before == "answered")


def test_a_contender_that_answers_otherwise_is_not_measured(tapes: Tapes) -> None:
    """The replies of another case are noticed before anything is measured."""
    wrong = {**tapes, ("replay", "oncekey"): tapes["duplicate", "oncekey"]}

    with source_of_replies("stub") as source, pytest.raises(AssertionError, match="oncekey"):
        contest(CASES["replay"], wrong, source)


@pytest.mark.parametrize(
    ("name", "requests", "expected"),
    [
        ("first-call", 2, Units(write=2, index=2)),
        ("replay", 1, Units(write=1)),
        ("duplicate", 1, Units(write=1)),
        # The record, the business row and the message, each twice, after the reserve.
        ("transaction", 2, Units(write=7, index=2)),
        ("three-steps", 5, Units(write=5, index=2)),
        ("large-replay", 2, Units(write=1, read=2)),
        ("function", 2, Units(write=2, index=2)),
    ],
)
def test_a_call_costs_what_the_documentation_says(
    name: str, requests: int, expected: Units, tapes: Tapes
) -> None:
    """Round trips and units of a call are counted by DynamoDB's rules."""
    costs = costs_of([name], tapes)[name]["oncekey"]

    assert costs.requests == requests
    assert Units(costs.read_units, costs.write_units, costs.index_units) == expected


def test_a_duplicate_of_a_large_answer_costs_powertools_a_unit_a_kilobyte(tapes: Tapes) -> None:
    """Powertools keeps the answer in its record, so each duplicate pays for all of it."""
    costs = costs_of(["large-replay"], tapes)["large-replay"]["powertools"]

    assert costs.write_units >= 20


@pytest.mark.parametrize("name", ["first-call", "large-answer", "large-replay"])
def test_the_page_on_cost_adds_up_the_units_counted_here(name: str, tapes: Tapes) -> None:
    """`tests/support/capacity.py` has the units of both libraries as they are."""
    costs = costs_of([name], tapes)[name]

    for library, said in (("oncekey", "oncekey"), ("powertools", "Powertools")):
        cost = costs[library]
        assert (cost.read_units, cost.write_units + cost.index_units) == UNITS[said][name]


def test_a_write_is_paid_by_the_larger_image() -> None:
    """A write unit covers a kilobyte of the item, before or after; a transaction pays twice."""
    small, large = {"pk": {"S": "x" * 1022}}, {"pk": {"S": "x" * 1023}}

    assert units.written(None, small) == Units(write=1)
    assert units.written(large, small) == units.written(small, large) == Units(write=2)
    assert units.written(large, large, times=2) == Units(write=4)
    assert units.read({"pk": {"S": "x" * 4095}}) == Units(read=2)
    assert units.read(None) == Units(read=1)


def test_an_index_is_paid_where_its_entry_changes() -> None:
    """An entry costs a unit to put and one to delete, so a changed key costs two."""
    due = {"pk": {"S": "1"}, "due_shard": {"S": "0"}, "due_at": {"N": "1"}}
    later = {**due, "due_at": {"N": "2"}}

    assert [
        units.written(before, after).index
        for before, after in [(None, due), (due, due), (due, later), (due, {"pk": {"S": "1"}})]
    ] == [1, 0, 2, 1]


def test_bytes_are_those_on_the_wire(tapes: Tapes, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted as sent is what a server reads, but for the name of the host.

    And botocore's user agent marks an endpoint that is not AWS's.
    """
    call = tapes["replay", "powertools"][0]
    with loopback() as server:
        url = server.environment["AWS_ENDPOINT_URL_DYNAMODB"]
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", url)
        server.load(call.replies)
        powertools(CASES["replay"])(call.event, Context())
        read_bytes = server.read_bytes()

    host = url.removeprefix("http://")
    longer = len("dynamodb.eu-central-1.amazonaws.com") - len(host)
    # Powertools reads the name of its environment when it is imported, here or in another test.
    longer += len(ENVIRONMENT["AWS_EXECUTION_ENV"]) - len(user_agent.EXEC_ENV)
    assert read_bytes == call.sent_bytes - longer + len("N,")


def test_contenders_are_compared_within_a_round() -> None:
    """A slow phase of the machine hits both sides of a round, and cancels out."""
    times = Times(cpu={"a": [2.0, 20.0, 4.0], "b": [1.0, 10.0, 1.0]}, wall={})

    assert times.ratio("a", "b") == (2.0, 2.0, 4.0)


def test_every_contender_has_a_block_in_each_round() -> None:
    """No contender is measured while the others are not, and the warm-up round does not count."""
    order: list[str] = []
    request, reply = Request("PutItem", b"{}", 2), Reply(200, b"{}")
    call = Call({}, (request,), (reply,), Units())

    class Silent:
        def load(self, _replies: object, /) -> None: ...

        def is_used_up(self) -> bool:
            return True

    def named(name: str) -> Contestant:
        return Contestant(lambda _event, _context: order.append(name), [call])

    times = measured({name: named(name) for name in "abc"}, Silent(), rounds=3)

    assert [sorted(order[at : at + 3]) for at in range(0, 12, 3)] == [["a", "b", "c"]] * 4
    assert {name: len(each) for name, each in times.cpu.items()} == {"a": 3, "b": 3, "c": 3}
