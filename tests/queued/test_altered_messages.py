"""A worker carries out the request that was accepted, and no other under its ids."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from oncekey import NotExecuted, authorizer_value, iam_principal
from oncekey.errors import JobUnfinished
from oncekey.record.record import Status
from tests.support.abandoned import HOLD, Abandoned
from tests.support.accepted import Accepted
from tests.support.events import load, with_body, with_header
from tests.support.replacing import replace
from tests.support.steps import FAILED, commit

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.outbox.inbox import Delivered

Event = dict[str, Any]


def _body(event: Event) -> None:
    event["body"] = json.dumps({"amount": 999_999})


def _part_of_the_body(event: Event) -> None:
    event["body"] = json.dumps({**json.loads(event["body"]), "currency": "usd"})


def _base64(event: Event) -> None:
    event["isBase64Encoded"] = True


def _query(event: Event) -> None:
    event["rawQueryString"] = "amount=999999"


def _path(event: Event) -> None:
    event["rawPath"] = event["requestContext"]["http"]["path"] = "/payments/another"


def _method(event: Event) -> None:
    event["requestContext"]["http"]["method"] = "PATCH"


def _header(event: Event) -> None:
    event["headers"]["x-amount"] = "999999"


def _media_type(event: Event) -> None:
    event["headers"]["content-type"] = "application/merge-patch+json"


def _claim(event: Event) -> None:
    event["requestContext"]["authorizer"]["jwt"]["claims"]["scope"] = "everything"


def _path_parameter(event: Event) -> None:
    event["pathParameters"] = {"payment_id": "another"}


ALTERATIONS: list[Callable[[Event], None]] = [
    *(_body, _part_of_the_body, _base64, _query, _path, _method),
    *(_header, _media_type, _claim, _path_parameter),
]
altered = pytest.mark.parametrize("alter", ALTERATIONS, ids=lambda alter: alter.__name__[1:])
ALTERED = "carries another request"


def with_event(message: Delivered, alter: Callable[[Event], None]) -> Delivered:
    """The message, with the ids of its record and another event."""
    payload = copy.deepcopy(message.payload)
    assert isinstance(payload, dict)
    alter(payload["event"])
    return replace(message, payload=payload)


@pytest.mark.fault("K7.3")
@altered
@pytest.mark.parametrize("effects", ["unrecorded", "repeatable", "recorded"])
def test_another_event_under_the_ids_of_a_record_is_not_carried_out(
    effects: str, alter: Callable[[Event], None]
) -> None:
    """The delivery fails, nothing runs and nothing is written; the true message is carried out.

    Red when the event of a message is taken for that of its record without a look.
    """
    service = Accepted(effects=effects)
    service.sends()
    before = service.record

    with pytest.raises(ValueError, match=ALTERED):
        service.works(with_event(service.messages[0], alter))
    assert (service.runs, service.record) == ([], before)

    service.works()
    assert service.record.status is Status.COMPLETED
    assert len(service.runs) == 1


@pytest.mark.fault("K7.3")
def test_the_event_of_a_record_whose_request_is_damaged_is_not_carried_out() -> None:
    """Nobody can tell any more whether it is the one that was accepted.

    Red when a request that cannot be read is taken for any event.
    """
    service = Accepted()
    service.sends()
    (pk,) = service.store.records
    service.store.records[pk] = replace(service.record, request=b"no compressed text")

    with pytest.raises(ValueError, match=ALTERED):
        service.works()
    assert service.runs == []


@pytest.mark.fault("K7.3")
def test_a_part_that_the_fingerprint_leaves_out_cannot_be_altered_either() -> None:
    """What a handler reads need not be what its fingerprint counts.

    Red when the event is compared by its fingerprint alone.
    """
    service = Accepted(fingerprint=lambda request: json.loads(request.body)["amount"])
    service.sends()

    with pytest.raises(ValueError, match=ALTERED):
        service.works(with_event(service.messages[0], _part_of_the_body))
    assert service.runs == []


@pytest.mark.fault("K7.3")
@altered
def test_another_event_does_not_go_on_with_a_request_that_was_begun(
    alter: Callable[[Event], None],
) -> None:
    """Once a worker has begun, only the same event may follow; another one is done with, as the
    message of an earlier acceptance is.

    Red when the event is compared before the first run alone.
    """
    service = Accepted()
    service.sends(ends=NotExecuted("not now"))
    with pytest.raises(NotExecuted):
        service.works()
    before = service.record

    service.works(with_event(service.messages[0], alter))
    assert (len(service.runs), service.record) == (1, before)

    service.handles()
    service.works()
    assert service.record.status is Status.COMPLETED


@pytest.mark.fault("K7.3")
def test_a_request_that_was_accepted_anew_is_held_to_its_new_message() -> None:
    """A client's retry sends its own event off; the record follows it.

    Red when the record goes on naming the event of the first acceptance.
    """
    service = Accepted()
    service.sends(ends=NotExecuted("not now"))
    with pytest.raises(NotExecuted):
        service.works()
    first = service.messages[0]
    service.event = with_header(service.event, "x-attempt", "2")
    service.sends()

    with pytest.raises(ValueError, match=ALTERED):
        service.works(with_event(service.messages[1], _body))
    service.works(first)
    assert len(service.runs) == 1, "the message of the first acceptance is void"
    service.works()
    assert service.record.status is Status.COMPLETED
    assert service.record.request_digest is None


@pytest.mark.fault("K7.3")
@altered
def test_another_event_does_not_finish_abandoned_work(alter: Callable[[Event], None]) -> None:
    """Work that was handed back is finished with the event that its record keeps.

    Red when a message of half-done work is not held to the kept request.
    """
    service = Abandoned()
    service.sends(HOLD, commit("held"), ends=FAILED)
    service.handles(HOLD, commit("held"))
    service.reconciles()
    before = service.record

    with pytest.raises(ValueError, match=ALTERED):
        service.jobs.perform(with_event(service.messages[-1], alter), service.context())
    assert (len(service.runs), service.record) == (1, before)

    service.works()
    assert service.record.status is Status.COMPLETED


def test_a_release_with_another_fingerprint_carries_out_what_was_accepted() -> None:
    """What waits was accepted: a new rule for what counts does not stop it."""
    service = Accepted()
    service.sends()
    newer = service.another_sandbox(fingerprint=lambda _request: "something else")
    newer.handles()

    newer.works()

    assert newer.record.status is Status.COMPLETED


@pytest.mark.fault("K9.1")
@pytest.mark.parametrize("service_of", [Accepted, Abandoned])
def test_a_worker_knows_the_caller_that_a_lambda_authorizer_named(service_of: Any) -> None:
    """What a Lambda authorizer returned is not written down, and tenant and principal are the same
    in the worker as in the request.

    Red when the authorizer's context is kept, or the worker finds nobody without it.
    """
    service = service_of(
        tenant=authorizer_value("tenant_id"),
        principal=lambda context: context["authorizer"]["lambda"]["user"]["id"],
    )
    event = load("apigw_http_v2_post")
    event["requestContext"]["authorizer"] = {
        "lambda": {"tenant_id": "acme", "user": {"id": "user-7"}, "downstream": "secret-token"}
    }
    service.event = event
    if service_of is Abandoned:
        service.sends(HOLD, commit("held"), ends=FAILED)
        service.handles(HOLD, commit("held"))
        service.reconciles()
    else:
        service.sends()

    assert "secret-token" not in repr([each.payload for each in service.messages])
    service.works()
    op = service.runs[-1]
    assert (op.tenant, op.principal) == ("acme", "user-7")
    assert service.record.status is Status.COMPLETED


@pytest.mark.fault("K7.3")
def test_another_sender_under_the_ids_of_a_record_is_not_believed() -> None:
    """A note of the sender is held to the record, too.

    Red when the names in a message are taken without a look at the identity of its record.
    """
    service = Accepted(tenant=authorizer_value("tenant_id"))
    event = load("apigw_http_v2_post")
    event["requestContext"]["authorizer"] = {"lambda": {"tenant_id": "acme"}}
    service.event = event
    service.sends()

    def globex(kept: Event) -> None:
        kept["oncekeySender"]["tenant"] = "globex"

    with pytest.raises(ValueError, match="does not fit this release"):
        service.works(with_event(service.messages[0], globex))
    assert service.runs == []


@pytest.mark.fault("K9.1")
def test_a_request_signed_by_iam_is_carried_out_without_its_access_key() -> None:
    """The signer is known by its ARN; its access key is not written down.

    Red when the identity of the signer is kept as it is.
    """
    service = Accepted(tenant=iam_principal())
    service.event = load("function_url_post")
    service.sends()

    assert "AKIAIOSFODNN7EXAMPLE" not in repr(service.messages[0].payload)
    service.works()
    assert service.runs[0].tenant == "arn:aws:iam::123456789012:user/example-caller"


def test_a_body_of_any_kind_is_its_own_request() -> None:
    """Floats, escapes, lone surrogates and an empty body compare equal to what was written."""
    for body in ("\ud800", '{"a":1e-7}', "", "\x00", '{"a":"\\u00e9"}'):
        service = Accepted()
        service.event = with_body(load("apigw_http_v2_post"), body)
        service.sends()
        service.works()
        assert service.record.status is Status.COMPLETED


def test_what_failed_in_a_worker_may_be_delivered_again() -> None:
    """The same message goes on after a failure as often as it comes."""
    service = Accepted(effects="recorded")
    service.sends(ends=FAILED)
    for _ in range(3):
        with pytest.raises(JobUnfinished):
            service.works()
    service.handles()
    service.works()
    assert service.record.status is Status.COMPLETED
