"""Which events the worker is told of, and what of them."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from functions.shared.models import ProviderEvent
from functions.webhooks.logic import message_about
from tests.support.events import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from oncekey.webhooks import Publish

EVENT: dict[str, Any] = json.loads(load("apigw_http_v2_stripe_webhook")["body"])


def event(kind: str = "payment_intent.succeeded", **changes: Any) -> dict[str, Any]:
    """The sample event, of another type, with these changes of its object."""
    changed = copy.deepcopy(EVENT)
    changed["type"] = kind
    changed["data"]["object"].update(changes)
    return changed


def told(published: Publish | None) -> ProviderEvent:
    """What the worker is told."""
    assert published is not None
    return ProviderEvent.model_validate(published.payload)


def test_a_declined_payment_is_told_with_its_reason() -> None:
    """The code of the last failure goes along, and nothing else of it."""
    failed = event(
        "payment_intent.payment_failed",
        status="requires_payment_method",
        last_payment_error={"code": "card_declined", "payment_method": {"card": {"last4": "0002"}}},
    )

    assert told(message_about(failed)).reason == "card_declined"
    assert "0002" not in str(message_about(failed).payload)  # type: ignore[union-attr]


def test_a_refund_is_told_with_its_reference() -> None:
    """What settles the operation is among what the worker is told; other metadata is not."""
    metadata = {**EVENT["data"]["object"]["metadata"], "refund_id": "ref_1", "reference": "v1#a.b"}
    refund = event("refund.created", id="re_1", metadata={**metadata, "note": "private"})

    assert told(message_about(refund)).metadata == metadata


@pytest.mark.parametrize(
    "other",
    [
        event("payment_intent.created"),
        event("charge.refunded"),
        event("customer.created"),
        event(metadata={}),
        event(metadata=None),
        event(metadata={"tenant": "tenant-1"}),
    ],
)
def test_other_events_are_nothing_to_us(other: dict[str, Any]) -> None:
    """Other types, and what another integration of the same account has made, are ignored."""
    assert message_about(other) is None


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"type": "refund.created"},
        {"type": "refund.created", "data": {"object": None}},
        event(amount="1200"),
        event(status=None),
    ],
)
def test_another_form_is_an_error_of_the_kinds_that_are_a_400(form: dict[str, Any]) -> None:
    """An event of another form raises what the webhook answers with `event-invalid`."""
    with pytest.raises((LookupError, TypeError, ValueError, AttributeError)):
        message_about(form)


OBJECT = {
    "id": "re_1",
    "object": "refund",
    "status": "succeeded",
    "amount": 300,
    "created": 1796083198,
    "failure_reason": None,
    "last_payment_error": {"code": "card_declined"},
    "metadata": {**EVENT["data"]["object"]["metadata"], "refund_id": "ref_1", "reference": "r"},
}
WHOLE = {"id": "evt_1", "type": "refund.updated", "created": 1, "data": {"object": OBJECT}}
NO_EVENT = (LookupError, TypeError, ValueError, AttributeError)


def _members(part: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in part.items():
        yield (*path, name)
        if isinstance(value, dict):
            yield from _members(value, (*path, name))


def _with(path: tuple[str, ...], *value: Any) -> dict[str, Any]:
    """The event with this member set to `value`, or without it."""
    changed: dict[str, Any] = copy.deepcopy(WHOLE)
    part = changed
    for name in path[:-1]:
        part = part[name]
    if value:
        part[path[-1]] = value[0]
    else:
        del part[path[-1]]
    return changed


def _outcome(event: dict[str, Any]) -> Any:
    try:
        published = message_about(event)
    except NO_EVENT:
        return "no event"
    return published and published.payload


@pytest.mark.fault("K13.3")
@pytest.mark.parametrize("path", list(_members(WHOLE)), ids=".".join)
def test_a_null_member_of_an_event_is_an_absent_one(path: tuple[str, ...]) -> None:
    """Whichever member of an event is null, it means what it means when that member is missing.

    Red when one member that is null is read as if it were there.
    """
    assert _outcome(_with(path, None)) == _outcome(_with(path))


@pytest.mark.fault("K13.3")
def test_an_object_without_metadata_is_nobody_of_ours() -> None:
    """A refund that another integration has made, with `metadata` null, is ignored, and a refund
    of ours whose state the provider does not tell is an open one.

    Red when a null member is answered with a 400.
    """
    assert message_about(_with(("data", "object", "metadata"), None)) is None
    assert told(message_about(_with(("data", "object", "status"), None))).status == "pending"


@pytest.mark.fault("K13.3")
@pytest.mark.parametrize("value", [7, 1.5, True, "x-", [], ["x"], {"x": 1}], ids=repr)
@pytest.mark.parametrize("path", list(_members(WHOLE)), ids=".".join)
def test_a_member_of_another_type_never_becomes_a_poisonous_message(
    path: tuple[str, ...], value: object
) -> None:
    """Whatever a member of an event is, it is refused as no event, ignored, or a message that the
    worker can read.

    Red when something else is raised, or a message is published that the worker refuses for ever.
    """
    outcome = _outcome(_with(path, value))

    if outcome not in (None, "no event"):
        ProviderEvent.model_validate(json.loads(json.dumps(outcome)))


@pytest.mark.fault("K13.3")
@pytest.mark.parametrize("body", [None, [], "event", 7, True])
def test_what_is_no_object_is_no_event(body: Any) -> None:
    """JSON that is no object is refused as no event.

    Red when it raises what the webhook does not answer.
    """
    assert _outcome(body) == "no event"
