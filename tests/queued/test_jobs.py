"""`Jobs`, and the options of `mode="queued"`: what is refused, and in which words."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import pytest

from oncekey import (
    ConfigurationError,
    DynamoDBStore,
    idempotent,
    jwt_claim,
    single_tenant,
)
from oncekey.errors import EnvelopeUnreadable, JobUnfinished
from oncekey.outbox.inbox import Delivered
from oncekey.queued.jobs import Jobs
from oncekey.testing.memory import MemoryStore
from tests.support.accepted import Accepted
from tests.support.async_world import POST, Accepting
from tests.support.events import with_tenant
from tests.support.protected import answers
from tests.support.replacing import replace

MESSAGE = Delivered(
    id="message-1",
    topic="oncekey.job",
    payload={},
    operation_id="operation-1",
    operation="POST /reports",
    tenant="acme",
    created_at_ms=0,
)


def made(operation: str = "POST /reports", **options: Any) -> Any:
    """A decorated handler."""
    options = {"mode": "queued", "tenant": single_tenant(), "store": MemoryStore(), **options}

    @idempotent(operation=operation, **options)
    def create_report(event: dict[str, Any], context: object) -> dict[str, Any]:
        return {"statusCode": 201}

    return create_report


def undecorated(event: Any, context: Any) -> None:
    """A handler that nothing protects."""


def test_jobs_take_the_messages_of_their_handlers() -> None:
    """Topic and operation must both fit."""
    jobs = Jobs(made("POST /reports"), made("POST /exports"))

    assert jobs.takes(MESSAGE)
    assert jobs.takes(replace(MESSAGE, operation="POST /exports"))
    assert not jobs.takes(replace(MESSAGE, operation="POST /payments"))
    assert not jobs.takes(replace(MESSAGE, topic="payment.requested"))


NEITHER = "is decorated with neither @idempotent(mode='queued') nor on_abandoned='complete'"
WRONG: dict[str, tuple[tuple[Any, ...], list[str]]] = {
    "none": ((), ["name the handlers"]),
    "undecorated": (
        (undecorated,),
        [f"undecorated {NEITHER}"],
    ),
    "sync": (
        (made(mode="sync"),),
        [f"create_report {NEITHER}"],
    ),
    "twice": (
        (made(), made()),
        ["create_report is a second handler of 'POST /reports'"],
    ),
    "no handler": (
        (5,),
        [f"a handler {NEITHER}"],
    ),
    "several": (
        (undecorated, made(), made(), 5),
        [
            f"undecorated {NEITHER}",
            "create_report is a second handler of 'POST /reports'",
            f"a handler {NEITHER}",
        ],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_handlers_are_refused_together(name: str) -> None:
    """Each fault is named, in one message, before any message is taken."""
    handlers, faults = WRONG[name]

    with pytest.raises(ConfigurationError) as refused:
        Jobs(*handlers)

    assert refused.value.faults == faults


@pytest.mark.parametrize("change", [{"operation": "POST /other"}, {"topic": "other"}])
def test_a_message_for_nobody_here_is_refused(change: dict[str, Any]) -> None:
    """The worker is told where to name the handler; the payload is not repeated."""
    message = replace(MESSAGE, payload={"secret": "of-the-customer"}, **change)

    with pytest.raises(ValueError, match=r"no handler takes .*: name it in Jobs\(\.\.\.\)") as told:
        Jobs(made()).perform(message, None)

    assert "of-the-customer" not in str(told.value)


def test_a_message_that_tells_of_no_request_is_unreadable() -> None:
    """It is refused before the store is asked."""
    with pytest.raises(EnvelopeUnreadable):
        Jobs(made()).perform(MESSAGE, None)


def test_a_request_that_no_longer_fits_is_not_run() -> None:
    """Where a release finds no tenant, or another one, in the accepted request, the worker raises,
    names the operation and what is wrong, and the record waits.
    """
    service = Accepting()
    service.send(with_tenant(POST, None))
    newer = Accepting(store=service.store, tenant=jwt_claim("tenant_id"))
    before = service.record

    other = Accepting(store=service.store, tenant=lambda _context: "another")
    for release, code in ((newer, "tenant-missing"), (other, "request-invalid")):
        with pytest.raises(ValueError, match=f"'POST /payments' does not fit.*{code}"):
            release.perform(service.message)
        assert (service.record, release.runs) == (before, [])


def test_what_is_raised_of_an_unfinished_run_survives_pickling() -> None:
    """Worker pools hand exceptions on; what it says and when to come back stay."""
    error = JobUnfinished(operation="POST /reports", operation_id="operation-1", retry_after_s=1)

    copied = pickle.loads(pickle.dumps(error))  # noqa: S301 -- of our own making

    assert isinstance(copied, JobUnfinished)
    assert (str(copied), copied.retry_after_s) == (str(error), 1)
    assert "let the queue deliver its message again" in str(error)


OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "another mode": ({"mode": "later"}, "mode is 'later': 'sync' or 'queued' is needed"),
    "no mode": ({"mode": None}, "mode is None: 'sync' or 'queued' is needed"),
    "a deadline without waiting": (
        {"mode": "sync", "start_within": timedelta(minutes=1)},
        "start_within needs mode='queued'",
    ),
    "a number": (
        {"start_within": 60},
        "start_within is 60: a timedelta is needed, such as timedelta(seconds=60)",
    ),
    "too short": (
        {"start_within": timedelta(milliseconds=999)},
        "start_within_ms is 999: 1000 to 1209600000 is possible",
    ),
    "too long": (
        {"start_within": timedelta(days=14, milliseconds=1)},
        "start_within_ms is 1209600001: 1000 to 1209600000 is possible",
    ),
    "conflict": (
        {"in_progress": "conflict"},
        "in_progress is 'conflict': mode='queued' answers 202, or use 'wait'",
    ),
    "no key": (
        {"required": False},
        "required is False: what is accepted for later needs a key (mode='queued')",
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_that_does_not_fit_the_mode_is_refused(name: str) -> None:
    """The one fault is named when the handler is decorated."""
    options, fault = OPTIONS[name]

    with pytest.raises(ConfigurationError) as refused:
        made(**options)

    assert refused.value.faults == [fault]


def test_faults_of_the_mode_are_told_together() -> None:
    """Nobody has to mend them one by one."""
    with pytest.raises(ConfigurationError) as refused:
        made(in_progress="conflict", required=False, start_within=timedelta(0))

    assert len(refused.value.faults) == 3


@pytest.mark.parametrize("policy", [None, "accepted", "wait"])
@pytest.mark.parametrize("within", [timedelta(seconds=1), timedelta(days=14)])
def test_options_that_fit_are_taken(policy: str | None, within: timedelta) -> None:
    """A limit itself is possible."""
    assert Jobs(made(in_progress=policy, start_within=within)).takes(MESSAGE)


def test_a_route_cannot_be_async() -> None:
    """A middleware's handler cannot be called by a worker; it says what to use."""
    powertools = pytest.importorskip("oncekey.powertools")

    with pytest.raises(ConfigurationError) as refused:
        powertools.idempotent_route(tenant=single_tenant(), mode="queued")

    assert refused.value.faults == [
        "mode='queued' is for handlers under @idempotent: a worker cannot run a route alone"
    ]


@pytest.mark.parametrize("is_named", [False, True])
def test_without_an_outbox_the_first_request_says_what_to_do(
    is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is accepted that no worker could be told of: ConfigurationError names the variable
    and the argument, whether the store was passed or comes from the environment.
    """
    monkeypatch.setenv("ONCEKEY_TABLE", "idempotency")
    handler = made(store=DynamoDBStore("idempotency") if is_named else None)

    with pytest.raises(ConfigurationError, match="mode='queued' needs an outbox") as refused:
        handler(POST, None)

    assert refused.value.where == "@idempotent(operation='POST /reports')"
    assert "ONCEKEY_OUTBOX_TABLE" in str(refused.value)
    assert "DynamoDBStore(table, outbox=...)" in str(refused.value)


def test_the_deadline_comes_from_the_environment_unless_it_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ONCEKEY_START_WITHIN_MS is for all operations that do not say it themselves."""
    monkeypatch.setenv("ONCEKEY_START_WITHIN_MS", "120000")
    everybodys, own = Accepting(), Accepting(start_within=timedelta(minutes=1))
    everybodys.send(POST)
    own.send(POST)

    dues = [each.record.due for each in (everybodys, own)]
    waits = [due.at_ms - own.clock.now_ms() for due in dues if due is not None]
    assert waits == [120_000, 60_000]


def test_switched_off_the_handler_answers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ONCEKEY_DISABLED nothing is accepted for later: unit tests see the handler itself."""
    monkeypatch.setenv("ONCEKEY_DISABLED", "1")
    service = Accepting()
    service.then = answers(200, "at once")

    assert service.send(POST)["body"] == "at once"
    assert service.store.asked == []


@pytest.mark.parametrize(
    ("status", "options", "is_kept"),
    [
        (200, {}, False),
        (404, {}, False),
        (429, {}, True),
        (500, {}, True),
        (500, {"store_when": "begun"}, False),
        (200, {"store_when": lambda answer: answer["body"] == "done"}, True),
    ],
    ids=["200", "404", "429", "500", "begun", "own rule"],
)
@pytest.mark.parametrize("is_switched_off", [True, False])
def test_a_worker_keeps_the_message_of_work_without_a_final_answer(
    status: int,
    options: dict[str, Any],
    is_kept: bool,
    is_switched_off: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`perform` raises then, with ONCEKEY_DISABLED too.

    Red when a worker that is switched off acknowledges a 500, and the accepted request is lost.
    """
    service = Accepted(**options)
    service.send(POST)
    service.then = answers(status)
    if is_switched_off:
        monkeypatch.setenv("ONCEKEY_DISABLED", "1")
        monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "worker")

    if not is_kept:
        service.works()
        return
    with pytest.raises(JobUnfinished):
        service.works()
