"""The mistakes that a play can show: how each is named, and what to do instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.record.record import Effects
from oncekey.testing.checking.processes import AFTER, BEFORE, OUTSIDE, STEP
from oncekey.value import Value

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence


class Mistake(Value):
    """A likely mistake. Its texts end without a full stop."""

    name: str
    remedy: str


NOT_PROTECTED = Mistake(
    "the handler did not reserve its key in the store of this play",
    "decorate it with @idempotent or @idempotent_function, and send an event with a key and a"
    " tenant; if it is a batch handler, give context=, because Powertools reports what a record"
    " raises without it as a failed item",
)
REFUSED = Mistake(
    "the event is refused before a key is reserved",
    "correct the event as the answer says",
)
NO_SUCCESS = Mistake(
    "the event does not lead to a final answer",
    "give an event that the handler answers with 2xx, and bring whatever it calls into its usual"
    " state",
)
NOTHING_COUNTED = Mistake(
    "`effects=` and `writes=` counted nothing",
    "pass what the handler changes: a list, a dictionary, or a function that returns one or a"
    " number",
)
TENANT_REFUSED = Mistake(
    "the handler refuses the tenant that the play made up, or the event in `other_tenant=`",
    "give other_tenant=, an event of another tenant that the handler knows",
)
# With these, nothing was checked.
UNCHECKED = (NOT_PROTECTED, REFUSED, NO_SUCCESS, NOTHING_COUNTED, TENANT_REFUSED)
BEFORE_THE_RESERVE = Mistake(
    "an effect before the reserve: it is made outside the decorated function, for every request",
    "move it into the function under @idempotent",
)
AFTER_THE_ANSWER = Mistake(
    "an effect after the answer was recorded: code around the decorated function makes it, for"
    " replays, too, and no retry makes it after a crash",
    "move it into the function under @idempotent",
)
NON_FINAL_STORED = Mistake(
    "a non-final error was stored: `Final` or `store_when` declares it final, and every retry gets"
    " it until the retention ends",
    "return or raise 5xx, 408, 425 and 429 without `Final`, and let `store_when` refuse them",
)
OUTSIDE_A_STEP = Mistake(
    "an outside effect without a step: effects='recorded', and the operation does not know of it",
    "make it in a step: op.step('charge', lambda: ..., idempotent=True), with"
    " op.downstream_key('charge') for the provider",
)
OUTSIDE_THE_TRANSACTION = Mistake(
    "a business write outside the transaction: it is there although the operation is not complete",
    "collect it with op.transaction.put(...), which applies it together with the answer",
)
TWO_EFFECTS = Mistake(
    "two effects in one step: a crash between them leaves half a step, or makes the first twice",
    "make two steps of them, each with a name and a downstream key of its own",
)
NOT_IDEMPOTENT_STEP = Mistake(
    "a step with idempotent=True repeats its effect",
    "send the provider op.downstream_key(...) of the step's name, and let `effects=` show what the"
    " provider did, not how often it was asked; or leave out idempotent=True",
)
NOT_REPEATABLE = Mistake(
    "effects='repeatable', and running again repeats an effect",
    "send the provider op.downstream_key(...), or declare effects='recorded' with a step for each"
    " effect",
)
FALSE_PROOF = Mistake(
    "the handler says that nothing happened, and something had: `NotExecuted` or `not_executed=`",
    "use them only for errors that are raised before the effect, or by a provider that refused it",
)
FRESH_VALUES = Mistake(
    "the answer, a row or a message takes a value from the clock or from chance, so that each run"
    " makes another one",
    "derive ids from op.operation_id, and record a time or a random value in a step:"
    " op.step('time', ..., idempotent=True)",
)
KEY_FROM_BODY = Mistake(
    "the key is taken from the body, not from the Idempotency-Key header",
    "leave the header to the client: it alone knows whether two equal bodies are one intention",
)
KEY_TOO_WIDE = Mistake(
    "the key of the function is taken from more than what identifies the call",
    "take `key=` from what stays the same if the call is repeated, such as the id of the message",
)
KEY_ELSEWHERE = Mistake(
    "the key is not taken from the Idempotency-Key header alone",
    "leave the header as the client sent it",
)
TENANT_FROM_BODY = Mistake(
    "the tenant is taken from the body, which the client controls",
    "take it from the verified request context: tenant=jwt_claim('tenant_id')",
)
TENANT_SHARED = Mistake(
    "the tenant is not taken from the verified request context, so two tenants share a key",
    "take it from there: tenant=jwt_claim('tenant_id')",
)
REMEMBERED = Mistake(
    "something outside the operation remembers an earlier one, such as a global cache by the key,"
    " so that a new operation does nothing",
    "leave it to the layer to remember answers, and send the provider op.downstream_key(...), which"
    " differs for each tenant and key; if the provider knows a call by your own number, give"
    " reset=",
)
STORE_RACES = Mistake(
    "the store lets two requests reserve one key",
    "make its conditional writes atomic, also between threads",
)
EVENT_CHANGED = Mistake(
    "the handler changes the event, so that whoever sends it again sends another request",
    "work on a copy: event = {**event, ...}, or copy.deepcopy(event)",
)
NOT_REPLAYABLE = Mistake(
    "a result that cannot be replayed: the work was done, and its answer could not be stored",
    "return a proxy answer with a text body; a function returns JSON values, dataclasses, pydantic"
    " models, Decimal, datetime, UUID or bytes",
)
ANSWER_AROUND = Mistake(
    "code around the decorated function makes the answer from what only the first run knows",
    "make the whole answer in the function under @idempotent",
)
FAILURE_SWALLOWED = Mistake(
    "the handler catches the provider's failure and answers success",
    "let the exception pass, so that a retry can succeed",
)
FAILURE_AS_REFUSAL = Mistake(
    "the handler answers 4xx although the provider may have done it, as after a timeout",
    "answer 4xx only if the provider has refused, and let every other exception pass",
)
STEPS_DIFFER = Mistake(
    "the steps of a retry are not those of the first run",
    "name and order steps by the request alone, never by the clock or chance",
)
UNCLEAR = Mistake(
    "none that the play can name",
    "play it alone with the line below, under a debugger",
)


def tenant_from_header(name: str) -> Mistake:
    """The mistake of a tenant that a client chooses."""
    return Mistake(
        f"the tenant is taken from the header {name!r}, which the client controls",
        "take it from the verified request context: tenant=jwt_claim('tenant_id')",
    )


def fingerprint_ignores(paths: Sequence[str]) -> Mistake:
    """The mistake of a fingerprint that does not depend on these values of the body."""
    named = f"; or, if they may differ in a retry, say ignored={paths!r}" if any(paths) else ""
    return Mistake(
        "the fingerprint leaves out what was changed, so that two different requests look the same",
        "select every member of the body that decides what is done with `fingerprint=`" + named,
    )


def key_from_header(name: str) -> Mistake:
    """The mistake of a key that depends on another header."""
    return Mistake(f"the key depends on the header {name!r}", KEY_ELSEWHERE.remedy)


def repeated(
    made: Counter[str], first: Counter[str], effects: Effects, *, is_write: bool
) -> Mistake:
    """The mistake that repeated an effect.

    `made` counts the effects of the play by their places, and `first` those of the first run.
    """
    excess = {place: n - first[place] for place, n in made.items() if n > first[place]}
    # The most particular place first.
    places = sorted(excess, key=lambda place: (not place.startswith(STEP), place == AFTER))
    for place in places:
        if place == BEFORE:
            return BEFORE_THE_RESERVE
        if place == AFTER:
            return AFTER_THE_ANSWER
        if place.startswith(STEP):
            return TWO_EFFECTS if first[place] > 1 else NOT_IDEMPOTENT_STEP
        if place == OUTSIDE:
            return _outside(effects, is_write=is_write)
    return UNCLEAR


def _outside(effects: Effects, *, is_write: bool) -> Mistake:
    match effects:
        case Effects.RECORDED:
            return OUTSIDE_THE_TRANSACTION if is_write else OUTSIDE_A_STEP
        case Effects.REPEATABLE:
            return NOT_REPEATABLE
        case _:
            return FALSE_PROOF
