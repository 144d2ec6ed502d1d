"""Messages of the queue that nobody published as they are: set aside, or failed, and never another
request's work.
"""

from __future__ import annotations

import copy
import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncekey.errors import EnvelopeUnreadable
from oncekey.outbox.envelope import sealed
from oncekey.outbox.inbox import Delivered, delivered
from oncekey.record.record import Status
from oncekey.record.stored_answer import Place, StoredRef
from tests.support.accepted import Accepted
from tests.support.mangled import ANY_TEXT, mangled
from tests.support.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncekey import Operation

MANY = settings(max_examples=60, suppress_health_check=list(HealthCheck))
NAMES = ("id", "topic", "operation_id", "operation", "tenant", "traceparent")


class Bucket:
    """A bucket with these objects."""

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        self._objects = objects

    def get(self, name: str) -> bytes | None:
        """The object, or None."""
        assert isinstance(name, str)
        return self._objects.get(name)


def accepted() -> Accepted:
    """A request that waits for its worker."""
    service = Accepted()
    service.sends()
    return service


def published() -> dict[str, Any]:
    """The message of such a request, as it is in the queue."""
    document: dict[str, Any] = json.loads(sealed(accepted().store.messages[0]))
    return document


PUBLISHED = published()
OBJECT = json.dumps(PUBLISHED["payload"]).encode()
AT = {"name": "outbox/1", "digest": hashlib.sha256(OBJECT).hexdigest()}
IN_BUCKET = {**{n: v for n, v in PUBLISHED.items() if n != "payload"}, "payload_ref": AT}


def read(body: str, bucket: Bucket) -> Delivered | None:
    """The message in `body`; None if it says that it is none."""
    try:
        return delivered(body, bucket=bucket)  # type: ignore[arg-type]  # it is asked for objects
    except EnvelopeUnreadable:
        return None


@MANY
@given(document=mangled(PUBLISHED) | mangled(IN_BUCKET))
def test_a_mangled_message_is_a_message_or_is_unreadable(document: Any) -> None:
    """Whatever members are dropped, renamed, exchanged or of other types: a message has ids that
    are text, or it is unreadable, which a worker sets aside.

    Red when a member of another type raises an error of its own, or is asked of the bucket.
    """
    found = read(json.dumps(document), Bucket({AT["name"]: OBJECT}))

    if found is not None:
        assert all(type(getattr(found, name)) is str for name in NAMES)


@MANY
@given(body=ANY_TEXT | ANY_TEXT.map(json.dumps) | st.just("[" * 100_000))
def test_any_text_is_a_message_or_is_unreadable(body: str) -> None:
    """No body of an SQS message raises anything else."""
    assert read(body, Bucket({})) is None


@pytest.mark.parametrize("member", ["name", "digest"])
@pytest.mark.parametrize("value", [None, 5, ["outbox/1"], {}])
def test_a_place_that_is_no_text_is_unreadable(member: str, value: Any) -> None:
    """The bucket is asked for texts alone.

    Red when the members of `payload_ref` may have any type.
    """
    body = json.dumps({**IN_BUCKET, "payload_ref": {**AT, member: value}})

    with pytest.raises(EnvelopeUnreadable, match="none of an outbox's"):
        delivered(body, bucket=Bucket({AT["name"]: OBJECT}))  # type: ignore[arg-type]


def test_an_object_that_is_no_text_is_unreadable() -> None:
    """An object whose digest is right and which is no UTF-8 is no payload.

    Red when decoding it raises an error of its own.
    """
    digest = hashlib.sha256(b"\xff").hexdigest()
    message = replace(
        accepted().store.messages[0],
        payload="",
        payload_ref=StoredRef(place=Place.OBJECT, name="outbox/1", digest=digest),
    )

    with pytest.raises(EnvelopeUnreadable, match="no text"):
        delivered(sealed(message), bucket=Bucket({"outbox/1": b"\xff"}))  # type: ignore[arg-type]


@MANY
@given(document=mangled(PUBLISHED))
def test_a_mangled_message_runs_its_own_request_or_nothing(document: Any) -> None:
    """A worker that gets one carries out the request that was accepted, or nothing at all: never
    another body, key, tenant or operation.

    Red when a part of a message is believed that its record does not confirm.
    """
    service = accepted()
    seen: list[Any] = []

    def carry_out(event: Any, op: Operation) -> dict[str, Any]:
        seen.append((copy.deepcopy(event), op.tenant, op.operation_id))
        return {"statusCode": 201, "body": "{}"}

    service.then = carry_out
    before = service.record
    message = read(json.dumps(document), Bucket({}))
    if message is None or not service.jobs.takes(message):
        return

    try:
        service.jobs.perform(message, service.context())
    except Exception:  # noqa: BLE001 -- the queue keeps the message, whatever it was
        assert seen == []

    if seen:
        kept = PUBLISHED["payload"]["event"]
        assert seen == [(kept, before.tenant, before.operation_id)]
        assert service.record.status is Status.COMPLETED
    else:
        assert service.record == before
