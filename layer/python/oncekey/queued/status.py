"""`GET /operations/{operation_id}`: the status of an accepted request.

    from oncekey import jwt_claim
    from oncekey.queued import OperationStatus

    handler = OperationStatus(tenant=jwt_claim("tenant_id"))

The `Location` of a 202 answer names this URL.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from oncekey import options
from oncekey.engine.operation_pointer import caller_digest, pointer_from, pointer_place
from oncekey.engine.reservation import outcome_unknown, running
from oncekey.errors import ConfigurationError, StoreError
from oncekey.http import wire
from oncekey.http.answer import answer_from, status_code, with_headers
from oncekey.http.event import read_request
from oncekey.http.preset import IETF, retry_after
from oncekey.problem import marked
from oncekey.record.judgement import is_gone
from oncekey.record.outcome import RETRY_SOON_MS
from oncekey.record.record import Status
from oncekey.record.stored_answer import AnswerDamaged, StoredRef, opened
from oncekey.store import defaults, in_use
from oncekey.telemetry import requests as telemetry
from oncekey.telemetry import watching
from oncekey.tenants import NOBODY_WHILE_DISABLED, caller_of, why_nobody

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncekey.clock import Clock
    from oncekey.http.answer import Answer
    from oncekey.http.event import HttpRequest
    from oncekey.record.record import Record
    from oncekey.settings import Settings
    from oncekey.store.store import Store
    from oncekey.tenants import CallerSource

_OPEN = frozenset({Status.PENDING, Status.IN_PROGRESS})


@dataclass(frozen=True, kw_only=True)
class OperationStatus:
    """A Lambda handler that answers with the status of an operation, found by its id.

    The answer is 200 with `operation_id`, `operation`, `status` and `created_at`. A completed
    operation also has `completed_at` and `answer`, with the stored answer's `status` and, if it has
    one, its `location`. As long as the status can change, `Retry-After` says when to ask again. An
    operation that is absent, expired or somebody else's is a 404 in all three cases. The stored
    answer itself is not shown: the client gets it by sending the request again with its key.

    The handler writes nothing. An operation with `mode="queued"` is found as soon as it is
    accepted, any other after its first 202.

    Args:
        tenant: the caller's tenant, from the verified request context. Use the same source as for
            the operations.
        principal: the caller's principal, if operations are scoped by it. Operations without a
            principal are found as well.
        store: the store of the records, by default the DynamoDB table that ONCEKEY_TABLE names.
        clock: the source of time, for tests.

    Raises:
        ConfigurationError: an option is wrong.
    """

    tenant: CallerSource = field(repr=False)
    principal: CallerSource | None = field(default=None, repr=False)
    store: Store | None = None
    clock: Clock | None = None

    def __post_init__(self) -> None:
        faults = [
            *options.caller_faults(self.tenant, self.principal),
            *options.clock_faults(self.clock),
            *options.store_faults(self.store),
        ]
        if faults:
            raise ConfigurationError("OperationStatus", faults)

    def __call__(self, event: Mapping[str, Any], context: object) -> Answer:
        """Answer one request of `GET /operations/{operation_id}`."""
        del context
        watching.look_again()
        request = read_request(event)
        settings = defaults.settings({})
        # Events of a load balancer or a Function URL have no path parameters.
        named = (event.get("pathParameters") or {}).get("operation_id")
        operation_id = str(named or request.path.rpartition("/")[2])
        callers = self._callers(request)
        if not callers:
            return _problem("tenant-missing", request, settings)
        store = defaults.store(settings.store_timeout_ms, self.store)
        now_ms = in_use.clock_or(self.clock).now_ms()
        try:
            record = _find(operation_id, callers, store, now_ms)
            if record is None:
                return _problem("operation-unknown", request, settings)
            answer = _shown(record, _said(record, store), now_ms)
        except StoreError as error:
            telemetry.store_unavailable("GET /operations", error)
            watching.flush(now_ms, "GET /operations")
            return _problem("store-unavailable", request, settings, retry_after_ms=RETRY_SOON_MS)
        return with_headers(answer, {"Cache-Control": "no-store"}, request.shape)

    def _callers(self, request: HttpRequest) -> set[str]:
        """The hashes of the callers whose operations the request may see; empty if none."""
        tenant = caller_of(self.tenant, request.context)
        if tenant is None and defaults.is_disabled():
            tenant = NOBODY_WHILE_DISABLED
        if tenant is None:
            telemetry.caller_not_named("GET /operations", why_nobody(self.tenant, request.context))
            return set()
        principal = caller_of(self.principal, request.context) if self.principal else None
        return {caller_digest(tenant, each) for each in ("", principal or "")}


def _find(operation_id: str, callers: set[str], store: Store, now_ms: int) -> Record | None:
    if not _is_id(operation_id):
        return None
    data = store.fetch(pointer_place(operation_id))
    pointer = pointer_from(data) if data is not None else None
    if pointer is None or pointer.caller not in callers:
        return None
    record = store.read(pointer.pk)
    if record is None or record.operation_id != operation_id or record.is_expired(now_ms):
        return None
    # A retry of the client gets 410 then: the record is there for that alone.
    return None if is_gone(record, now_ms) else record


def _is_id(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def _said(record: Record, store: Store) -> dict[str, Any] | None:
    """The status code and location of the stored answer; None if there is none or it is damaged."""
    if record.response is None:
        return None
    try:
        blob = store.fetch(record.response) if isinstance(record.response, StoredRef) else None
        answer = answer_from(opened(record.response, blob))
        said: dict[str, Any] = {"status": status_code(answer)}
    except (AnswerDamaged, ValueError, TypeError):
        return None
    location = _location(answer)
    return said if location is None else {**said, "location": location}


def _location(answer: Answer) -> str | None:
    for place in ("headers", "multiValueHeaders"):
        for name, value in (answer.get(place) or {}).items():
            if name.lower() == "location" and value:
                return str(value[0] if isinstance(value, list) else value)
    return None


def _shown(record: Record, said: dict[str, Any] | None, now_ms: int) -> Answer:
    body: dict[str, Any] = {
        "operation_id": record.operation_id,
        "operation": record.operation,
        "status": record.status.value.lower(),
        "created_at": _time(record.created_at_ms),
    }
    if record.status is Status.COMPLETED:
        body["completed_at"] = _time(record.completed_at_ms or now_ms)
        body |= {} if said is None else {"answer": said}
        headers: dict[str, str] = {}
    else:
        wait = running if record.status in _OPEN else outcome_unknown
        wait_ms = wait(record, now_ms).retry_after_ms or RETRY_SOON_MS
        headers = retry_after(wait_ms)
    return {
        "statusCode": HTTPStatus.OK.value,
        "headers": {"Content-Type": wire.JSON, **headers},
        "body": json.dumps(body),
        "isBase64Encoded": False,
    }


def _problem(
    code: str, request: HttpRequest, settings: Settings, *, retry_after_ms: int | None = None
) -> Answer:
    answer = IETF.refusal(code, base=settings.problem_base, retry_after_ms=retry_after_ms)
    return marked(with_headers(answer, {"Cache-Control": "no-store"}, request.shape), code)


def _time(at_ms: int) -> str:
    """The time as in RFC 3339, in UTC, to the millisecond."""
    at = datetime.fromtimestamp(at_ms / 1000, tz=UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
