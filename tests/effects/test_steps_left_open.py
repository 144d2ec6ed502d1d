"""Steps that are still open when their handler ends, in a thread of the author's own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import EffectMisused, RunStopped
from oncekey.record.record import Status
from tests.support.protected import problem_of
from tests.support.steps import CREATED, POST, FaultyStore, Steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey import Operation

# What the thread is told.
STOPPED = ["interrupted: the handler has ended"]
ENDS: dict[str, Any] = {"201": CREATED, "402": {"statusCode": 402, "body": "not charged"}}


class Charging:
    """A handler whose step runs in another thread, up to a gate, while the handler ends."""

    def __init__(
        self,
        store: FaultyStore | None = None,
        *,
        is_idempotent: bool = False,
        waits_in_step: bool = True,
    ) -> None:
        self.service = Steps(**({} if store is None else {"store": store}))
        self.charged: list[str] = []
        self.raised: list[BaseException] = []
        self.reached, self.gate = threading.Event(), threading.Event()
        self.threads: list[threading.Thread] = []
        self._is_idempotent = is_idempotent
        self._waits_in_step = waits_in_step

    def sends(self, ends: Any) -> Any:
        """One request whose handler ends so once the other thread is at the gate."""

        def handler(_event: object, op: Operation) -> Any:
            thread = threading.Thread(target=self._charges, args=(op,))
            self.threads.append(thread)
            thread.start()
            assert self.reached.wait(timeout=30)
            return dict(ends)

        self.service.then = handler
        return self.service.send(POST)

    def waits(self) -> None:
        """The thread has come to the gate, and goes on when it is opened."""
        self.reached.set()
        assert self.gate.wait(timeout=30)

    def goes_on(self) -> None:
        """The gate is opened, and the thread comes to its end."""
        self.gate.set()
        for thread in self.threads:
            thread.join(timeout=30)

    def _charges(self, op: Operation) -> None:
        def function() -> str:
            self.charged.append(op.downstream_key("charge"))
            if self._waits_in_step:
                self.waits()
            return "c-1"

        try:
            op.step("charge", function, idempotent=self._is_idempotent)
        except BaseException as error:  # noqa: BLE001 -- what the thread ends with is looked at
            self.raised.append(error)


@pytest.mark.fault("K2.3")
@pytest.mark.parametrize("ends", ENDS)
def test_a_step_that_runs_when_its_handler_ends_is_in_doubt(ends: str) -> None:
    """Whatever the handler has returned, nobody knows what becomes of the step: the client is told
    so, nothing runs again, and the step's late end changes nothing.

    Red when `close` looks at what the handler returned, or forgets a step that is open.
    """
    charging = Charging()

    answer = charging.sends(ENDS[ends])
    left = charging.service.record
    charging.goes_on()

    assert problem_of(answer) == (409, "outcome-unknown", True)
    assert (left.status, left.step_in_doubt) == (Status.UNKNOWN, "charge")
    assert charging.service.record == left
    assert [type(error) for error in charging.raised] == [RunStopped]
    assert [str(error) for error in charging.raised] == STOPPED
    assert problem_of(charging.service.send(POST))[1] == "outcome-unknown"
    assert len(charging.charged) == 1


@pytest.mark.fault("K2.3")
@pytest.mark.parametrize("ends", ENDS)
def test_an_idempotent_step_that_runs_when_its_handler_ends_is_not_answered_for(ends: str) -> None:
    """The attempt is not completed, and not said to have done nothing; the next one runs the step
    under the same key.

    Red when an answer is stored while a step of its attempt is still running.
    """
    charging = Charging(is_idempotent=True)

    answer = charging.sends(ENDS[ends])
    charging.goes_on()

    assert problem_of(answer) == (503, "attempt-unfinished", True)
    assert charging.service.record.status is Status.FAILED_RETRYABLE
    assert charging.service.record.steps.finished == ()
    assert [type(error) for error in charging.raised] == [RunStopped]
    assert [str(error) for error in charging.raised] == STOPPED


class GatedStore(FaultyStore):
    """A store in which one call waits, before it is carried out or after."""

    def __init__(self, call: str, *, is_after: bool) -> None:
        super().__init__()
        self._call = call
        self._is_after = is_after
        self.charging: Charging | None = None

    def _asked(self, call: str, function: Callable[[Any], Any], argument: Any) -> Any:
        is_gated = call == self._call and call not in self.asked and self.charging is not None
        if not is_gated or self.charging is None:
            return super()._asked(call, function, argument)
        charging, self.charging = self.charging, None
        if not self._is_after:
            charging.waits()
        reply = super()._asked(call, function, argument)
        if self._is_after:
            charging.waits()
        return reply


@pytest.mark.fault("K2.3")
@pytest.mark.parametrize("is_after", [True, False], ids=["landed", "on its way"])
@pytest.mark.parametrize("ends", ENDS)
def test_a_step_is_not_called_once_its_handler_has_ended(ends: str, is_after: bool) -> None:
    """A handler that ends while the mark of a step is being written: its function is not called,
    whether the mark lands before or after, and the key is free to run again.

    Red when `begin` does not look whether the handler has ended before it lets the step run.
    """
    store = GatedStore("StartStep", is_after=is_after)
    charging = store.charging = Charging(store)

    answer = charging.sends(ENDS[ends])
    charging.goes_on()

    assert charging.charged == []
    assert [type(error) for error in charging.raised] == [RunStopped]
    told = STOPPED if is_after else ["ownership-lost"]
    assert [str(error) for error in charging.raised] == told
    assert problem_of(answer)[0] == 503
    record = charging.service.record
    assert (record.status, record.steps.started) == (Status.FAILED_RETRYABLE, None)


@pytest.mark.fault("K2.3")
@pytest.mark.parametrize("is_idempotent", [True, False])
@pytest.mark.parametrize("is_after", [True, False], ids=["landed", "on its way"])
def test_a_result_that_is_being_recorded_when_the_handler_ends_is_never_lost(
    is_after: bool, is_idempotent: bool
) -> None:
    """A handler that ends while the result of a step is being written does not complete; the step
    is on record, in doubt, or runs again under its key, and evidence of it never expires.

    Red when an unconfirmed checkpoint is released with an expiry.
    """
    store = GatedStore("FinishStep", is_after=is_after)
    charging = Charging(store, is_idempotent=is_idempotent, waits_in_step=False)
    store.charging = charging

    answer = charging.sends(CREATED)
    charging.goes_on()

    record = charging.service.record
    assert answer["statusCode"] in {409, 503}
    assert record.status in {Status.UNKNOWN, Status.FAILED_RETRYABLE}
    assert record.expires_at_s is None
    assert bool(record.steps.finished) or record.is_in_doubt or is_idempotent
    assert len(charging.charged) == 1


@pytest.mark.fault("K2.3")
def test_a_step_is_refused_while_another_thread_is_at_one() -> None:
    """The handler's own step beside the one of its thread is refused, and is not run; the first one
    ends well.

    Red when each thread may have a step of its own open.
    """
    charging = Charging()
    ran: list[str] = []

    def handler(_event: object, op: Operation) -> Any:
        thread = threading.Thread(target=charging._charges, args=(op,))
        thread.start()
        assert charging.reached.wait(timeout=30)
        beside = "inside the step 'charge', or beside it"
        with pytest.raises(EffectMisused, match=beside):
            op.step("ship", lambda: ran.append("ship"))
        with pytest.raises(EffectMisused, match=beside):
            op.commit("ordered")
        charging.gate.set()
        thread.join(timeout=30)
        return dict(CREATED)

    charging.service.then = handler
    answer = charging.service.send(POST)

    assert (answer["statusCode"], ran, charging.raised) == (201, [], [])
    assert [each.name for each in charging.service.record.steps.finished] == ["charge"]
