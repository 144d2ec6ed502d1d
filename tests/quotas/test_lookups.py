"""Quotas of look-ups, which each sandbox counts, and what is logged of quotas."""

from __future__ import annotations

import pytest

from oncekey import NotExecuted
from oncekey.testing.memory import MemoryStore
from tests.support.protected import fails, problem_of
from tests.support.quotas import LEFT_OF_THE_MINUTE_S, MINUTE_MS, Metered, retry_after_s

EXCEEDED = (429, "quota-exceeded", True)


@pytest.mark.requirement("C23")
def test_a_tenants_look_ups_are_limited() -> None:
    """Replays and refusals of keys that exist count in a window; what runs does not.

    Red when look-ups are not counted, a new key or a retry counts as one, or the window does not
    roll.
    """
    service = Metered(lookups=2)
    service.then = fails(NotExecuted())
    assert service.statuses("a", "a", "a") == [503, 503, 503]
    service.then = None

    assert service.statuses("a", "b", "c") == [201, 201, 201]
    assert service.statuses("a", "b") == [201, 201]
    refused = service.ask("a")
    assert problem_of(refused) == EXCEEDED
    assert retry_after_s(refused) == LEFT_OF_THE_MINUTE_S
    assert service.statuses("d") == [201]

    service.clock.advance(MINUTE_MS)
    assert service.statuses("a") == [201]
    assert len(service.runs) == 3 + 4


@pytest.mark.requirement("C23")
def test_a_sandbox_counts_its_own_look_ups() -> None:
    """Look-ups are counted where they arrive: another sandbox has a count of its own.

    Red when the count is in the table, where every replay would pay for a write.
    """
    here, there = MemoryStore(), MemoryStore()
    service = Metered(store=here, lookups=1)
    service.ask("a")
    there.records = here.records
    beside = Metered(store=there, lookups=1)
    # Owners are drawn in sequence here, and are each one's own in truth.
    beside.clock.new_owner()

    assert service.statuses("a", "a") == [201, 429]
    assert beside.statuses("a", "a") == [201, 429]


def test_what_is_logged_names_the_tenant_and_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    """Per tenant and limit, as fields, without the key."""
    caplog.set_level("INFO", logger="oncekey")
    service = Metered(active_keys=1, lookups=1)
    service.statuses("a", "b", "a", "a")

    said = [vars(each) for each in caplog.records if "quota-exceeded" in each.getMessage()]

    assert [(each["tenant"], each["limit"]) for each in said] == [
        ("acme", "active_keys"),
        ("acme", "lookups"),
    ]
    assert "the-key-of-a-request" not in caplog.text
