"""The checkers of whole services, on histories with known verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation import checkers_of_services as checkers
from tests.simulation.checkers_of_services import SERVICE, ServiceHistory
from tests.simulation.histories import (
    COMPLETE,
    COMPLETED,
    RESERVE,
    RUNNING,
    affected,
    asked,
    began,
    held,
    ran,
    refused,
    replayed,
    wrote,
)
from tests.simulation.histories_of_effects import message
from tests.support.replacing import replace

if TYPE_CHECKING:
    from tests.simulation.history import Event

SENT = message("created")
KEYS = {"A": "pk", "B": "pk", "W": "consumer"}
TENANTS = {"A": "tenant", "B": "other", "W": "tenant"}
RUN: tuple[Event, ...] = (
    asked("A"),
    wrote("A", RESERVE, None, RUNNING),
    held("A"),
    began("A"),
    affected("A"),
    replace(wrote("A", COMPLETE, RUNNING, COMPLETED), messages=(SENT,)),
    ran("A"),
)
CONSUMED = replace(affected("W"), operation_id="consumed")


def history(*events: Event) -> ServiceHistory:
    """The history of two tenants and a worker."""
    consumed = {SENT.id: "consumer"}
    return ServiceHistory(events=events, keys=KEYS, tenants=TENANTS, consumed=consumed)


def test_a_good_history_breaks_no_rule() -> None:
    """A run, and the consumption of its message, are as they should be."""
    good = history(*RUN, CONSUMED)

    assert [str(found) for check in SERVICE for found in check(good)] == []


@pytest.mark.parametrize(
    ("check", "events"),
    [
        (checkers.every_message_has_its_effect, RUN),
        (checkers.no_tenant_sees_anothers, (*RUN, CONSUMED, asked("B"), replayed("B"))),
        (checkers.no_tenant_sees_anothers, (*RUN, CONSUMED, affected("B"))),
        (checkers.each_key_keeps_its_rules, (*RUN, CONSUMED, affected("A", 2))),
    ],
)
def test_a_bad_history_is_found_with_its_story(check: object, events: tuple[Event, ...]) -> None:
    """A message that nobody consumed, another tenant's answer or effect, a rule of one key."""
    found = next(check(history(*events)))  # type: ignore[operator]

    assert found.story
    assert set(found.story) <= set(events)


def test_each_key_is_judged_as_if_there_were_no_other() -> None:
    """The events of one key are those of its actors, and the writes to its record."""
    record = replace(RUNNING, pk="another")
    other = wrote("S", replace(RESERVE, record=record), None, record)

    keys = history(*RUN, other, CONSUMED, refused("B", RESERVE, COMPLETED, COMPLETED)).by_key()

    assert {pk: len(one.events) for pk, one in keys.items()} == {
        "pk": len(RUN) + 1,
        "another": 1,
        "consumer": 1,
    }
