"""A stored item that is damaged, or another's, is an error: never an answer, never a second run.

Three kinds of damage have a meaning of their own, and no reader can tell it from that meaning: a
time of expiry that has passed, a finished step that is not there, and a started step that is not
there.
"""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING, Any

import pytest

from oncekey.errors import StoreUnavailable
from oncekey.record.record import Status
from tests.support.accepted import Accepted
from tests.support.damaged_items import ItemStore, damages
from tests.support.protected import headers_of, problem_of
from tests.support.steps import BESIDE, FAILED, Steps, dead, step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oncekey.store.dynamodb.codec import Item

LONG = "x" * 2_000
SAYS_SOMETHING_ELSE = {
    "expires_at cut short",
    "steps.finished.charge dropped",
    "steps.started dropped",
}
# What an earlier attempt has done once.
CHARGED = step("charge", "c-1")


def plain() -> Steps:
    """A handler whose effects are not recorded."""
    return Steps(store=ItemStore(), effects="unrecorded")


def completed(body: str) -> Steps:
    """A key with an answer."""
    service = plain()
    service.sends(ends={"statusCode": 201, "body": body})
    return service


def unknown() -> Steps:
    """A key whose handler raised."""
    service = plain()
    with contextlib.suppress(ValueError):
        service.sends(ends=ValueError("no answer"))
    return service


def dead_plain(*, is_lease_over: bool) -> Steps:
    """A key whose process died in its handler."""
    service = plain()
    service.dies()
    if is_lease_over:
        service.lets_the_lease_run_out()
    return service


def dead_in_step(*, is_lease_over: bool) -> Steps:
    """A key whose process died in its second step, which is in doubt."""
    service = Steps(store=ItemStore())
    service.dies(CHARGED, step("mail", then=dead))
    if is_lease_over:
        service.lets_the_lease_run_out()
    return service


def failed() -> Steps:
    """A key that the next request resumes after its first step."""
    service = Steps(store=ItemStore())
    service.sends(CHARGED, ends=FAILED)
    return service


LIVES: dict[str, Callable[[], Steps]] = {
    "completed": lambda: completed("made"),
    "completed, compressed": lambda: completed(LONG),
    "completed, beside": lambda: completed(BESIDE.hex()),
    "unknown": unknown,
    "running": lambda: dead_plain(is_lease_over=False),
    "dead": lambda: dead_plain(is_lease_over=True),
    "running a step": lambda: dead_in_step(is_lease_over=False),
    "dead in a step": lambda: dead_in_step(is_lease_over=True),
    "failed": failed,
}


class Life:
    """A key in some state, whose record can be damaged again and again."""

    def __init__(self, name: str) -> None:
        self.service = LIVES[name]()
        self.store: ItemStore = self.service.store
        self._before = copy.copy(self.store.records)

    def damages(self) -> Iterator[tuple[str, Item]]:
        """Every damage that a reader can notice."""
        return (each for each in damages(self.store.item()) if each[0] not in SAYS_SOMETHING_ELSE)

    def sends(self, item: Item | None = None) -> dict[str, Any]:
        """The request once more, after `item` has replaced the record as it was."""
        self.store.restore(self._before)
        if item is not None:
            self.store.put(item)
        self.service.runs.clear()
        self.service.ran.clear()
        return self.service.sends(CHARGED, ends={"statusCode": 201, "body": "second"})


@pytest.mark.parametrize("name", LIVES)
def test_a_damaged_record_is_no_answer_and_no_second_run(name: str) -> None:
    """Whatever attribute of a record is lost, of another type, cut short or of a newer version: the
    request gets what it would have got, or a problem. No effect happens again.

    Red when a record of recorded effects may lack its steps, or a started step of another type
    counts as none.
    """
    life = Life(name)
    right = life.sends()
    runs = len(life.service.runs)
    refused = 0

    for damage, item in life.damages():
        answer = life.sends(item)

        assert life.service.ran == [], damage
        assert len(life.service.runs) <= runs, damage
        if (answer["statusCode"], answer["body"]) != (right["statusCode"], right["body"]):
            status, _, _ = problem_of(answer)
            assert status in {409, 422, 500, 503}, damage
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("attribute", ["tenant", "operation", "key", "principal"])
@pytest.mark.parametrize("name", ["completed", "failed"])
def test_a_record_of_another_key_is_not_believed(name: str, attribute: str) -> None:
    """A whole record that a script has copied from another key is an error, also if both keys ask
    for the same: another tenant's answer is never given.

    Red when a record is judged without a look at whose it is.
    """
    life = Life(name)
    item = life.store.item() | {attribute: {"S": "another-0123456789"}}

    answer = life.sends(item)

    assert problem_of(answer)[:2] == (503, "store-unavailable")
    assert life.service.runs == []


def test_a_record_that_stores_no_key_is_believed() -> None:
    """With `store_raw_key=False` a record names neither key nor principal, and is still the one."""
    service = Steps(store_raw_key=False, principal=lambda _context: "user-1")
    first = service.sends()

    assert service.record.key == service.record.principal == ""
    second = service.sends()
    assert (second["statusCode"], second["body"]) == (first["statusCode"], first["body"])
    assert headers_of(second)["idempotent-replayed"] == "true"


def test_a_damaged_record_of_one_key_does_not_stop_the_others() -> None:
    """Requests for a damaged record do not make the sandbox take the store for down.

    Red when an unreadable record counts as an outage.
    """
    life = Life("completed")
    item = {name: value for name, value in life.store.item().items() if name != "status"}
    for _ in range(20):
        assert life.sends(item)["statusCode"] == 503

    life.service.event = copy.deepcopy(life.service.event)
    life.service.event["headers"]["idempotency-key"] = "another-key-0123456789"
    assert life.service.sends()["statusCode"] == 201


@pytest.mark.parametrize("attribute", ["tenant", "operation", "key", "principal"])
def test_a_worker_does_not_run_a_job_of_another_key(attribute: str) -> None:
    """A waiting record that names another tenant, operation, principal or key is not begun.

    Red when a worker begins without a look at whose record it is.
    """
    service = Accepted(store=ItemStore(), effects="unrecorded")
    service.sends()
    service.store.put(service.store.item() | {attribute: {"S": "another-0123456789"}})
    before = service.record

    with pytest.raises(StoreUnavailable):
        service.works()
    assert (service.runs, service.record) == ([], before)


def test_a_worker_does_not_run_a_damaged_job() -> None:
    """Whatever attribute of a waiting record is damaged: its message fails, or is done as ever."""
    service = Accepted(store=ItemStore(), effects="unrecorded")
    service.sends()
    store: ItemStore = service.store
    before, failures = copy.copy(store.records), 0

    for damage, item in damages(store.item()):
        store.restore(before)
        store.put(item)
        service.runs.clear()
        try:
            service.works()
        except Exception:  # noqa: BLE001 -- the queue keeps the message, whatever it was
            failures += 1
            assert service.runs == [], damage
        else:
            record = next(iter(store.records.values()))
            is_done = record.status is Status.COMPLETED and len(service.runs) <= 1
            assert is_done or service.runs == [], damage
    assert failures > 100
