"""What a scene awaits: the end of a payment, and rest, both for a bounded time."""

from __future__ import annotations

import asyncio
import io
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from oncekey_local.demo import stage as stage_module
from oncekey_local.demo.backstage import CannotPlay
from oncekey_local.demo.narrator import Narrator
from oncekey_local.demo.stage import Stage
from tests.support.demo_logs import accepted_answer, answer, problem, replayed
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncekey_local.demo.log import Exchange


class FakeStage(Stage):
    """A stage whose looks at payments are answered as told, the last answer again and again."""

    def __init__(self, *looks: Exchange, messages: int = 0) -> None:
        dev = SimpleNamespace(url="", provider_url="", store_url="")
        narrator = Narrator(io.StringIO(), colour=False)
        super().__init__(cast("Any", dev), cast("Any", None), narrator)
        self.looks = list(looks)
        self.on_their_way = messages
        self.asked: list[str] = []

    async def _exchange(self, method: str, path: str, *args: object, **kwargs: object) -> Exchange:
        self.asked.append(path)
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    async def messages(self) -> int:
        """See `Backstage`: one less each time."""
        self.on_their_way -= 1
        return self.on_their_way + 1


def look(state: str, status: int = 200) -> Exchange:
    """What a GET of the payment shows."""
    shown = accepted_answer("end")
    body = shown.body.replace(b"pending", state.encode())
    return replace(shown, status=status, body=body)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_module, "_LOOK_EVERY_S", 0)


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for."""
    monkeypatch.setattr(stage_module, "_FINAL_WITHIN_S", 0)


@pytest.mark.parametrize("end", ["succeeded", "declined"])
def test_the_end_is_awaited(end: str) -> None:
    """A payment is looked at until it is final; of all looks the last is on record."""
    stage = FakeStage(look("pending"), look("pending"), look(end))
    asyncio.run(stage.await_end(accepted_answer("call"), "end"))
    assert [each.state for each in stage.recording.exchanges] == [end]
    assert stage.recording.states == {"pay_1": end}
    assert stage.asked == ["/payments/pay_1"] * 3


def test_a_failed_look_is_no_end() -> None:
    """A look that is not answered, or with an error, says nothing of the payment."""
    stage = FakeStage(answer("end", 0, None), problem("end", 503, "x"), look("succeeded"))
    asyncio.run(stage.await_end(accepted_answer("call"), "end"))
    assert stage.recording.states == {"pay_1": "succeeded"}


@pytest.mark.usefixtures("no_time")
def test_a_payment_that_stays_pending() -> None:
    """Nobody waits for ever: a payment that stays pending is on record as pending."""
    stage = FakeStage(look("pending"))
    asyncio.run(stage.await_end(accepted_answer("call"), "end"))
    assert stage.recording.states == {"pay_1": "pending"}


def test_without_a_payment_there_is_no_look() -> None:
    """An answer that shows no payment leaves nothing to ask for."""
    stage = FakeStage(look("succeeded"))
    asyncio.run(stage.await_end(problem("call", 500, "x"), "end"))
    assert stage.asked == []
    assert stage.recording.exchanges == []


def test_rest() -> None:
    """Rest is when every accepted payment is final and no message is on its way."""
    stage = FakeStage(look("pending"), look("succeeded"), messages=3)
    accepted = [
        accepted_answer("call"),
        accepted_answer("call", "pay_2"),
        replayed(accepted_answer("retry")),
    ]
    stage.recording.exchanges += [*accepted, answer("other", 200, "pay_3")]
    asyncio.run(stage.come_to_rest())
    assert stage.recording.states == {"pay_1": "succeeded", "pay_2": "succeeded"}
    assert stage.on_their_way == -1


@pytest.mark.usefixtures("no_time")
def test_no_rest() -> None:
    """Messages that stay on their way are trouble."""
    with pytest.raises(CannotPlay, match="messages are on their way"):
        asyncio.run(FakeStage(look("succeeded"), messages=99).come_to_rest())


class Reconciling(FakeStage):
    """A stage whose reconciler settles in its run of this number, and whose provider fails none."""

    def __init__(self, settles_in: int) -> None:
        super().__init__(look("succeeded"))
        self.settles_in = settles_in
        self.runs = 0

    async def call_reconciler(self) -> dict[str, Any]:
        """See `Backstage`."""
        self.runs += 1
        is_time = int(self.runs == self.settles_in)
        return {"asked": is_time, "settled": is_time}

    async def failing(self) -> int:
        """See `Backstage`: one fault that nothing has struck yet."""
        return 1


def test_the_reconciler_is_called_until_it_has_settled_something() -> None:
    """A run before the grace is over finds nothing; the one that settles is the last."""
    stage = Reconciling(settles_in=3)
    assert asyncio.run(stage.reconcile()) == (1, 1)
    assert stage.runs == 3


def test_a_reconciler_that_settles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for ever for a reconciler that has nothing to settle."""
    monkeypatch.setattr(stage_module, "_SETTLED_WITHIN_S", 0)
    assert asyncio.run(Reconciling(settles_in=0).reconcile()) == (0, 0)


@pytest.mark.usefixtures("no_time")
def test_a_fault_that_strikes_nobody() -> None:
    """A call that never reaches the provider's fault is trouble."""
    with pytest.raises(CannotPlay, match="no call reached the provider"):
        asyncio.run(Reconciling(settles_in=0).wait_called())


def test_refunds_of_a_scene_that_failed() -> None:
    """A scene that goes back to two refunds cannot be played without them."""
    stage = FakeStage(look("succeeded"))
    with pytest.raises(CannotPlay, match="which it goes back to"):
        stage.recall_refunds()
    in_vain, arriving = stage.order(100), stage.order(200)
    stage.keep_refunds(in_vain, arriving)
    assert stage.recall_refunds() == (in_vain, arriving)


class Places:
    """Where messages are, by outbox and queue."""

    def __init__(self, **counts: int) -> None:
        self.counts = {"outbox": 0, "visible": 0, "in_flight": 0, "delayed": 0} | counts

    async def dynamodb(self, action: str, request: Mapping[str, Any]) -> dict[str, int]:
        """The store's Scan."""
        del action, request
        return {"Count": self.counts["outbox"]}

    def queues(self) -> dict[str, dict[str, int]]:
        """What the queues have."""
        return {"payments": dict(self.counts)}


class MovingMessage(Places):
    """A message that moves from the outbox to the queue as soon as somebody has looked."""

    def __init__(self) -> None:
        super().__init__(outbox=1)

    async def dynamodb(self, action: str, request: Mapping[str, Any]) -> dict[str, int]:
        """See `Places`."""
        seen = await super().dynamodb(action, request)
        self._move()
        return seen

    def queues(self) -> dict[str, dict[str, int]]:
        """See `Places`."""
        seen = super().queues()
        self._move()
        return seen

    def _move(self) -> None:
        self.counts |= {"outbox": 0, "in_flight": 1}


def counted(places: Places) -> int:
    """How many messages are on their way."""
    stage = FakeStage(look("succeeded"))
    stage._store_client, stage._dev = cast("Any", places), cast("Any", places)
    return asyncio.run(Stage.messages(stage))


def test_no_message_is_overlooked() -> None:
    """A message that goes from the outbox to the queue while they are counted is seen."""
    assert counted(MovingMessage()) > 0


@pytest.mark.parametrize("place", ["outbox", "visible", "in_flight", "delayed"])
def test_a_message_anywhere_is_on_its_way(place: str) -> None:
    """A message that waits to be sent or worked on, is worked on or was put off is not at rest."""
    assert counted(Places(**{place: 1})) == 1


def test_dead_letters_are_at_rest() -> None:
    """A message that was given up is not on its way."""
    assert counted(Places(dead_letters=1)) == 0
