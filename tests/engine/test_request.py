"""A request under its key: until when its lease lasts, and when somebody must look."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from oncekey import ConfigurationError, idempotent, single_tenant
from oncekey.engine.operation_options import OperationOptions
from oncekey.engine.request import Request, remaining_ms
from oncekey.record.identity import Identity
from oncekey.record.policy import Encoding, Policy
from oncekey.record.record import Due, Effects, Record, Status
from oncekey.settings import Settings
from oncekey.testing.memory import ManualClock, MemoryStore
from tests.support import events
from tests.support.replacing import replace
from tests.support.stable_names import stable_repr

NOW_MS = 1_700_000_000_999
IDENTITY = Identity(tenant="tenant-1", operation="POST /payments", key="k" * 16, principal="user-1")
SETTINGS = Settings(
    lease_margin_ms=5_000, reconcile_grace_ms=60_000, retention_s=3_600, due_shards=16
)
REQUEST = Request(
    identity=IDENTITY,
    fingerprint="f1:asked",
    options=OperationOptions(effects=Effects.UNRECORDED, settings=SETTINGS),
    deadline_ms=NOW_MS + 30_000,
)


@dataclass
class Context:
    """Lambda's context, as far as the library asks it."""

    left_ms: int

    def get_remaining_time_in_millis(self) -> int:
        """What is left."""
        return self.left_ms


def test_a_lease_is_the_deadline_and_the_margin() -> None:
    """A lease never ends before the Lambda's own deadline and the clocks' difference."""
    assert REQUEST.lease_until_ms(NOW_MS) == NOW_MS + 30_000 + 5_000


@pytest.mark.parametrize(("longest_ms", "lasts_ms"), [(10_000, 10_000), (35_001, 35_000)])
def test_a_longest_lease_shortens_it_only(longest_ms: int, lasts_ms: int) -> None:
    """`max_lease_ms` counts from now, and lengthens nothing."""
    request = replace(
        REQUEST,
        options=replace(REQUEST.options, settings=replace(SETTINGS, max_lease_ms=longest_ms)),
    )

    assert request.lease_until_ms(NOW_MS) == NOW_MS + lasts_ms


@pytest.mark.parametrize(
    ("lasts_ms", "is_too_early"), [(3_600_000 + 59_999, False), (3_600_000 + 60_000, True)]
)
def test_an_answer_outlives_the_lease_of_its_attempt(lasts_ms: int, is_too_early: bool) -> None:
    """The retention and the time in which the key is refused count together, to the millisecond."""
    settings = replace(SETTINGS, gone_for_s=60, lease_margin_ms=0)
    request = replace(
        REQUEST,
        options=replace(REQUEST.options, settings=settings),
        deadline_ms=NOW_MS + lasts_ms,
    )

    assert request.forgets_too_early(NOW_MS) is is_too_early


@pytest.mark.parametrize(("age_ms", "is_late"), [(60_000, False), (60_001, True)])
def test_a_retry_is_late_more_than_a_minute_after_its_first_sending(
    age_ms: int, is_late: bool
) -> None:
    """However slow the network is, the first sending has arrived by then."""
    assert replace(REQUEST, first_sent_ms=NOW_MS - age_ms).is_a_late_retry(NOW_MS) is is_late


class Durable(Context):
    """A context that says what is left of it, though a durable execution is around it."""

    execution_context = SimpleNamespace(durable_execution_arn="arn:aws:lambda:x")
    lambda_context = Context(1)


def test_a_context_that_says_what_is_left_is_believed() -> None:
    """Only one that does not is asked for Lambda's own context."""
    assert remaining_ms(Durable(7_000)) == 7_000


def test_somebody_looks_after_the_lease_and_the_grace() -> None:
    """A call of a dead owner may arrive until the grace is over; nobody looks before that."""
    assert REQUEST.due_after_lease(NOW_MS) == Due(
        shard=IDENTITY.due_shard(16), at_ms=NOW_MS + 60_000
    )


def test_without_shards_a_record_is_due_and_in_no_index() -> None:
    """`due_shards=0` keeps the due time on record, and the record out of every partition."""
    options = replace(REQUEST.options, settings=replace(SETTINGS, due_shards=0))

    request = replace(REQUEST, options=options)

    assert request.due_after_lease(NOW_MS) == Due(shard="", at_ms=NOW_MS + 60_000)


@pytest.mark.parametrize(
    ("needs", "said"),
    [
        ({"effects": Effects.RECORDED}, "effects='recorded' needs it"),
        ({"effects": Effects.UNRECORDED, "is_queued": True}, "mode='queued' needs it"),
        ({"effects": Effects.RECORDED, "is_queued": True}, "mode='queued' needs it"),
    ],
)
def test_what_only_a_reconciler_can_finish_is_refused_without_the_index(
    needs: dict[str, Any], said: str
) -> None:
    """Half-done work and jobs are found by the index alone, so they are not begun without it."""
    with pytest.raises(ConfigurationError, match=said):
        OperationOptions(settings=replace(SETTINGS, due_shards=0), **needs)
    OperationOptions(settings=replace(SETTINGS, due_shards=1), **needs)


@pytest.mark.parametrize("effects", [Effects.UNRECORDED, Effects.REPEATABLE])
def test_what_a_clients_retry_can_finish_needs_no_index(effects: Effects) -> None:
    """A dead attempt is judged when its client sends the request again."""
    OperationOptions(effects=effects, settings=replace(SETTINGS, due_shards=0))


@pytest.mark.fault("K6.7")
def test_an_expiry_is_counted_in_seconds_from_now_and_rounded_up() -> None:
    """What is settled now lives for the retention from now, and never for less.

    Red when the time of the completion is rounded down.
    """
    now_ms = 1_700_000_000_000
    assert REQUEST.expires_at_s(now_ms) == 1_700_000_000 + 3_600
    assert REQUEST.expires_at_s(now_ms + 1) == 1_700_000_001 + 3_600
    assert REQUEST.expires_at_s(now_ms + 999) == 1_700_000_001 + 3_600
    assert REQUEST.expires_at_s(now_ms + 86_400_000) == 1_700_000_000 + 3_600 + 86_400


@pytest.mark.case(3)
def test_a_new_record_has_a_lease_and_no_expiry() -> None:
    """The record of a first attempt carries identity, owner and lease, and nothing evicts it.

    Red when `new_record` leaves out the lease, or gives it an expiry.
    """
    record = REQUEST.new_record(operation_id="id-1", owner="owner-1", now_ms=NOW_MS)

    assert record == Record(
        pk=IDENTITY.pk,
        status=Status.IN_PROGRESS,
        rev=1,
        tenant="tenant-1",
        principal="user-1",
        operation="POST /payments",
        key="k" * 16,
        operation_id="id-1",
        fingerprint="f1:asked",
        owner="owner-1",
        attempt=1,
        effects=Effects.UNRECORDED,
        created_at_ms=NOW_MS,
        lease_until_ms=NOW_MS + 35_000,
        expires_at_s=None,
        due=Due(shard=IDENTITY.due_shard(16), at_ms=NOW_MS + 95_000),
        policy=Policy(encoding=Encoding.RESULT, retention_s=3_600),
    )


@pytest.mark.parametrize("left_ms", [30_000, 1, 0, -1])
def test_remaining_time_is_what_the_context_says(left_ms: int) -> None:
    """Zero means that the time is up, and is not the same as unknown."""
    assert remaining_ms(Context(left_ms)) == left_ms


@pytest.mark.parametrize("context", [None, object(), {}, "context"], ids=stable_repr)
def test_without_a_lambda_context_the_remaining_time_is_unknown(context: object) -> None:
    """Outside Lambda there is no deadline to read."""
    assert remaining_ms(context) is None


def run_with(context: object) -> tuple[int, list[Record], dict[str, Any]]:
    """A request under `context`: how often the handler ran, the record as it ran, the answer."""
    store, clock = MemoryStore(), ManualClock(NOW_MS)
    seen: list[Record] = []

    @idempotent(operation="POST /payments", tenant=single_tenant(), store=store, clock=clock)
    def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
        seen.extend(store.records.values())
        return {"statusCode": 201, "body": "{}"}

    answer = handler(events.load("apigw_http_v2_post"), context)
    return len(seen), seen or list(store.records.values()), answer


@pytest.mark.case(15)
@pytest.mark.parametrize("left_ms", [0, -1])
def test_nothing_starts_without_time(left_ms: int) -> None:
    """With no time left nothing runs, nothing is written, and the caller is told to try again.

    Red when a remaining time of 0 is read as unknown.
    """
    runs, records, answer = run_with(Context(left_ms))

    assert (runs, records) == (0, [])
    assert answer["statusCode"] == 503
    assert answer["headers"]["Retry-After"] == "1"


@pytest.mark.case(15)
@pytest.mark.parametrize(
    ("context", "lasts_ms"), [(Context(1), 1 + 5_000), (None, 60_000 + 5_000)], ids=["1 ms", "none"]
)
def test_a_lease_is_stored_whatever_the_context(context: object, lasts_ms: int) -> None:
    """With 1 ms left, and outside Lambda, the handler runs under a lease that is stored.

    Red when an absent context stores no lease, or one until the record's expiry.
    """
    runs, (record,), answer = run_with(context)

    assert runs == 1
    assert record.lease_until_ms == NOW_MS + lasts_ms
    assert answer["statusCode"] == 201
