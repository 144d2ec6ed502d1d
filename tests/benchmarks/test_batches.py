"""What is measured of relay, worker and reconciler, and under load."""

from __future__ import annotations

import pytest

from tests.benchmarks.batches import ITEMS, Batch, play, recorded_batches
from tests.benchmarks.cases import CASES
from tests.benchmarks.contest import Contestant
from tests.benchmarks.load import in_threads, kept_blocks
from tests.benchmarks.recording import Call
from tests.benchmarks.suite import source_of_replies
from tests.benchmarks.transport import Player, Reply, Request
from tests.benchmarks.units import Units

pytestmark = [pytest.mark.proof, pytest.mark.usefixtures("no_resolvers")]


@pytest.fixture(scope="module")
def batches() -> dict[str, Batch]:
    """One recorded batch of each function."""
    return recorded_batches()


@pytest.mark.parametrize("name", ITEMS)
def test_a_batch_can_be_played_again(name: str, batches: dict[str, Batch]) -> None:
    """Every run works on the whole batch, and asks for every recorded reply.

    `play` raises if a run reports a failure, or leaves a reply.
    """
    with source_of_replies("stub") as source:
        again = play(name, batches[name], source)

        again()
        again()


def test_requests_for_a_batch_follow_its_items(batches: dict[str, Batch]) -> None:
    """The relay sends and deletes in batches of ten or more; the others make few calls an item."""
    relay, worker, reconciler = (batches[name].requests for name in ITEMS)

    assert relay["SendMessageBatch"] == ITEMS["relay"] // 10
    assert relay["BatchWriteItem"] <= ITEMS["relay"] // 10
    assert worker["PutItem"] == worker["UpdateItem"] == ITEMS["worker"]
    assert worker["ChangeMessageVisibilityBatch"] == 1
    assert reconciler["UpdateItem"] <= 2 * ITEMS["reconciler"]


def calls(count: int) -> list[Call]:
    """So many calls with one request each."""
    request, reply = Request("PutItem", b"{}", 2), Reply(200, b"{}")
    return [Call(each, (request,), (reply,), Units()) for each in CASES["first-call"].events(count)]


def test_each_thread_plays_its_own_replies() -> None:
    """All threads make all calls, and a failure in one of them is raised."""
    player, seen = Player(), []

    def handler(event: dict[str, object], _context: object) -> None:
        seen.append(event)
        next(player._own.replies)

    in_threads(Contestant(handler, calls(3)), player, 4)

    assert len(seen) == 12
    with pytest.raises(AssertionError):
        in_threads(Contestant(lambda _event, _context: None, calls(3)), player, 4)


def test_kept_memory_is_counted() -> None:
    """A handler that remembers each call shows in the counted blocks, and another one does not."""
    remembered: list[list[object]] = []
    keeps = Contestant(lambda event, _context: remembered.append([event, object()]), calls(1))
    forgets = Contestant(lambda _event, _context: None, calls(1))

    (kept,) = kept_blocks(keeps, Player(), 500, 1)
    (forgotten,) = kept_blocks(forgets, Player(), 500, 1)

    assert kept >= 1000 > 100 > forgotten
