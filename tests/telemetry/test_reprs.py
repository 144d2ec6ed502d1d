"""What is printed of a value shows no secret, no credential, no key and nothing of a body."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import pytest

import oncekey
from oncekey import Completed, Final, idempotent, idempotent_function, jwt_claim
from oncekey.engine.job import Job, JobMessage
from oncekey.engine.store_state import OperationContext
from oncekey.flow.commands import Answered, Raised, Unserialisable
from oncekey.functions.operation import Call
from oncekey.http.decorator import idempotent as decorator
from oncekey.http.event import HttpRequest, read_request
from oncekey.http.fingerprint import fingerprints, selected_fingerprint
from oncekey.http.job import HttpJob
from oncekey.powertools.middleware import idempotent_route
from oncekey.record.identity import Identity
from oncekey.record.outcome import Failed, Ran, Replayed
from oncekey.record.record import Effects
from oncekey.record.stored_answer import Blob, Place, StoredRef
from oncekey.settings import Settings
from oncekey.testing.memory import ManualClock, MemoryStore
from oncekey.value import Value
from oncekey.webhooks import Delivery, Publish, StripeSignature, webhook
from tests.support.events import load, with_body, with_header, with_key
from tests.support.protected import Context
from tests.support.records import record
from tests.support.replacing import replace

if TYPE_CHECKING:
    from oncekey.engine.request import Request

CANARY = "canary-7f3a9c"
SECRET = CANARY.encode() + b"-0123456789"


def modules() -> list[Any]:
    """Every module of the package."""
    found = pkgutil.walk_packages(oncekey.__path__, "oncekey.")
    return [importlib.import_module(each.name) for each in found]


VALUES = {
    f"{kind.__module__}.{kind.__qualname__}": kind
    for module in modules()
    for kind in vars(module).values()
    if isinstance(kind, type) and kind.__module__ == module.__name__
    if is_dataclass(kind) or (issubclass(kind, Value) and kind.fields_)
}

# A field of one of these types can hold what an author or a client gave, whatever its name.
ANYTHING = re.compile(
    r"\b(Any|object|bytes|BaseException|Exception|StoredAnswer|Selection|Secrets|SecretsSource"
    r"|CallerSource|KeySource|FunctionKey|NotExecutedRule|T|R)\b"
)
# A text of one of these names is of a request, or of its answer.
TOLD = re.compile(r"^(key|principal|body|text|stored|payload|raw_\w+|headers?|request|response)$")
# These are written by us, or stand where a person is to see them.
SHOWN = {
    # Where a scan goes on: keys of items, which are hashes and random ids.
    "oncekey.store.due_index.DuePage.after",
    "oncekey.store.dynamodb.outbox.OutboxPage.after",
    "oncekey.outbox.sweep.Place.after",
    # What a comparison is made for; the values of a secret field are left out.
    "oncekey.ledger.values.FieldDifference.ours",
    "oncekey.ledger.values.FieldDifference.theirs",
}


def _is_told(field: str, kind: str) -> bool:
    is_text = TOLD.match(field) is not None and "str" in kind
    return is_text or ANYTHING.search(kind) is not None


def fields_of(kind: Any) -> dict[str, str]:
    """The fields of a dataclass or a value of ours, and their types as they are written."""
    if is_dataclass(kind):
        return {each.name: str(each.type) for each in fields(kind)}
    written: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        written |= each.__dict__.get("__annotations__", {})  # noqa: RUF063 -- of this class alone
    return {name: str(written[name]) for name in kind.fields_}


def shown_fields(kind: type) -> set[str]:
    """The fields whose values stand in what is printed of a value."""
    value: Any = object.__new__(kind)
    for name in fields_of(kind):
        object.__setattr__(value, name, f"{CANARY}-{name};")
    printed = f"{value!r} {value} {value:}"
    return set(re.findall(rf"{CANARY}-(\w+);", printed))


@pytest.mark.fault("K9.2")
@pytest.mark.parametrize("name", sorted(VALUES))
def test_no_value_prints_a_field_that_can_hold_a_secret(name: str) -> None:
    """Of every value of the package, what is printed has no field of an open type, and none that is
    a key, a caller's name, or a part of a request or an answer.

    Hide such a field by `field(repr=False)`. Red when a field is added without a thought for it.
    """
    kind = VALUES[name]
    types = fields_of(kind)

    shown = {
        field
        for field in shown_fields(kind)
        if _is_told(field, types[field]) and f"{name}.{field}" not in SHOWN
    }

    assert shown == set()


def a_request() -> HttpRequest:
    """A request with the canary wherever a client or a gateway can put one."""
    event = with_header(load("apigw_http_v2_post"), "authorization", f"Bearer {CANARY}")
    event = with_key(with_header(event, "x-note", CANARY), f"{CANARY}-key-0001")
    event = with_body(event, f'{{"card": "{CANARY}"}}')
    event["rawQueryString"] = f"access_token={CANARY}"
    event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = CANARY
    return read_request(event)


def a_keyed_request() -> Request:
    """The request under its key, by a policy with a secret, a principal and hooks."""
    options = decorator(
        operation="POST /payments",
        tenant=jwt_claim("tenant_id"),
        principal=jwt_claim("sub"),
        fingerprint_secrets=[SECRET],
        mode="queued",
    )
    policy, clock, request = options.bound().policy, ManualClock(), a_request()
    context = Context(clock, clock.now_ms() + 10_000)
    operation_context = OperationContext(policy.options(Settings()), MemoryStore())
    keyed = policy.keyed_request(request, policy.caller(request), context, operation_context, clock)
    return replace(keyed, job=Job(event=f'{{"body": "{CANARY}"}}'), stored_event=CANARY.encode())


def keyed(secret: bytes, _given: Any) -> Any:
    """An author's callable that was given a secret."""
    return secret


HOOK: Any = functools.partial(keyed, SECRET)
OPTIONS: dict[str, Any] = {
    "tenant": HOOK,
    "fingerprint": HOOK,
    "fingerprint_secrets": [SECRET],
    "not_executed": HOOK,
}
HTTP_OPTIONS: dict[str, Any] = {
    **OPTIONS,
    "principal": HOOK,
    "store_when": HOOK,
    "before_store": HOOK,
    "upgrade_response": HOOK,
}
PRINTED: dict[str, Any] = {
    "a decorator": lambda: idempotent(operation="POST /x", **HTTP_OPTIONS),
    "a middleware": lambda: idempotent_route(**HTTP_OPTIONS),
    "an operation of HTTP": lambda: idempotent(operation="POST /x", **HTTP_OPTIONS).bound(),
    "a job": lambda: HttpJob(idempotent(operation="POST /x", **HTTP_OPTIONS).bound(), HOOK, False),
    "a decorator of functions": lambda: idempotent_function(operation="f", key=HOOK, **OPTIONS),
    "a decorator of webhooks": lambda: webhook(
        operation="POST /w",
        scheme=StripeSignature(),
        tenant=HOOK,
        event_id=HOOK,
        secrets=SECRET,
    ),
    "a request": a_request,
    "a request under its key": a_keyed_request,
    "an identity": lambda: a_keyed_request().identity,
    "a fingerprint": lambda: fingerprints(a_request(), None, (SECRET,)),
    "a call's fingerprint": lambda: selected_fingerprint(CANARY, (SECRET,)),
    "a call": lambda: Call((CANARY,), {"card": CANARY}),
    "a delivery": lambda: Delivery(id="evt_1", body=SECRET, request=a_request()),
    "what is published": lambda: Publish("topic", {"card": CANARY}),
    "a task": lambda: JobMessage(pk="pk", operation_id="id", owner="o", event={"body": CANARY}),
    "a record": lambda: replace(
        record(), key=CANARY, principal=CANARY, response=CANARY, request=CANARY, tenant="acme"
    ),
    "a result": lambda: Answered(value={"body": CANARY}, stored=CANARY, is_final=True),
    "a mistake": lambda: Unserialisable(TypeError(CANARY)),
    "an exception": lambda: Raised(ValueError(CANARY)),
    "an outcome": lambda: Ran(value=CANARY, record=record(), expires_at_s=None),
    "a failure": lambda: Failed(ValueError(CANARY)),
    "a replay": lambda: Replayed(record(), stored=CANARY),
    "what a resolver found": lambda: Completed({"body": CANARY}),
    "a final answer": lambda: Final(402, {"card": CANARY}, headers={"X-Note": CANARY}),
    "bytes beside a record": lambda: Blob(
        at=StoredRef(place=Place.ITEM, name="n", digest="d"), data=SECRET, expires_at_s=0
    ),
}


@pytest.mark.fault("K9.2")
@pytest.mark.parametrize("name", PRINTED)
def test_nothing_that_is_printed_shows_a_secret(name: str) -> None:
    """Decorators, operations, requests, fingerprints and exceptions, printed in any way, say what
    they are and show nothing of what they were given.

    Red when a generated repr shows a secret, a header, a body, or a callable that holds one.
    """
    value = PRINTED[name]()

    printed = [repr(value), str(value), f"{value}", f"{value!r}", f"{[value]}", f"{(value,)!s}"]

    assert CANARY not in " ".join(printed)


@pytest.mark.fault("K9.2")
def test_the_hash_of_a_body_is_not_shown_either() -> None:
    """The plain hash, which a secret is there to hide, is no more shown than the secret.

    Red when what is hidden is the secret alone.
    """
    found = fingerprints(a_request(), None, (SECRET,))

    plain = next(iter(found.by_algorithm.values()))
    assert plain not in repr(found)
    assert plain not in repr(a_keyed_request())


def test_an_identity_still_says_what_it_is_for() -> None:
    """What helps to find an operation is shown: its name and its tenant."""
    identity = Identity(tenant="acme", operation="POST /payments", key=CANARY)

    assert "acme" in repr(identity)
    assert "POST /payments" in repr(identity)
    options = replace(a_keyed_request().options, effects=Effects.RECORDED)
    assert Effects.RECORDED.value in repr(replace(a_keyed_request(), options=options))
