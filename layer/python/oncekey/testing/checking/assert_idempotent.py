"""`assert_idempotent`: plays a handler under retries, races and crashes, and checks promises."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from oncekey.http.job import job_of
from oncekey.tenants import SINGLE_TENANT
from oncekey.testing.checking.calling import call_with
from oncekey.testing.checking.mistakes import UNCHECKED
from oncekey.testing.checking.plays import Plays
from oncekey.testing.checking.processes import Observed
from oncekey.testing.checking.promises import Broken, first_run
from oncekey.testing.checking.runs import Subject
from oncekey.testing.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Sized
    from contextlib import AbstractContextManager

    from oncekey.store.store import Store

    Countable = Sized | Callable[[], Sized | int]

FIRST, TENANT = "first", "another tenant"
LEFT_OUT = (
    "assert_idempotent left out 'another tenant', because the event does not show whose it is: give"
    " other_tenant=, or declare tenant=single_tenant()"
)


def assert_idempotent(
    handler: Callable[..., Any],
    event: Any,
    *,
    effects: Countable | None = None,
    writes: Countable | None = None,
    failing: Callable[[], AbstractContextManager[object]] | None = None,
    other_body: Any = None,
    ignored: Sequence[str] = (),
    other_tenant: Any = None,
    reset: Callable[[], object] | None = None,
    jobs: Sequence[Callable[..., Any]] = (),
    context: Any = None,
    store: Callable[[], Store] = MemoryStore,
    only: str | None = None,
    seed: int = 0,
) -> list[str]:
    """Check that `handler` keeps the promises of its decorator for `event`.

    It plays the handler on stores in memory and under a clock of its own: it sends the event again,
    five times at once, with another key, body, header and tenant, and kills the handler before and
    after each of its calls of the store. What must hold then depends on the declared kind of
    effects. Nothing is read from the source; only what the handler does counts.

    A process that is killed does nothing more to the store. It is killed by an exception, so
    `finally` blocks run, unlike in a real crash. Effects that they make are counted.

    Args:
        handler: decorated with `@idempotent` or `@idempotent_function`, or code that calls such a
            function: a router, a Powertools resolver. It may be `async def`. It is called with the
            event and the context, or with the event alone if it takes one argument.
        event: a request that the handler answers with success, with a key and a tenant; or the
            argument of a function.
        effects: what has happened outside, at a fake provider: a list, a dictionary, or a function
            that returns one or a number. It only grows. If the provider recognises a key of its
            own, it must show each key once: a dictionary by key does.
        writes: the same for rows that the handler writes to tables of its own. Rows of
            `op.transaction` are counted without it.
        failing: returns a context manager in which the provider fails.
        other_body: an event with the same key that must be refused. By default, the values of an
            HTTP request's JSON body are changed one by one, and none may get the first answer.
        ignored: the values of the JSON body that `fingerprint=` leaves out on purpose, each by its
            path: `["sent_at", "items.0.note"]`.
        other_tenant: the event of another tenant with the same key. By default, the tenant is
            replaced where the request context names it, or else the claims that are named after a
            tenant, or all claims. If there is none, a warning says that the play was left out.
        reset: empties the fake provider and the handler's tables. It is called before each play.
            You need it if the provider knows a call by something other than the operation's id,
            such as the number of an order, because each play has the same order.
        jobs: the handlers with `mode="queued"`, if `handler` is none itself. Their messages are
            delivered to a worker.
        context: the Lambda context, if the handler needs one. A batch handler does.
        store: makes a store for each play.
        only: plays this play alone, by the name that a message or the result says, such as `kill
            after complete`.
        seed: the first of the seeds that decide whose turn it is if several requests run at once.

    Returns:
        The names of the plays.

    Raises:
        AssertionError: a promise does not hold. The message names it, what happened, the likely
            mistake, and the arguments that play this alone.
        ValueError: there is no such play as `only`.
        TypeError: `ignored` is one path and no list.
    """
    __tracebackhide__ = True
    if isinstance(ignored, str):
        # It would be a list of letters.
        raise TypeError(f"ignored is a list of paths: write [{ignored!r}]")
    subject = Subject(
        call=call_with(handler, context),
        event=event,
        effects=None if effects is None else Observed("effects", effects),
        writes=None if writes is None else Observed("writes", writes),
        store=store,
        jobs=jobs or ([handler] if job_of(handler) is not None else []),
        failing=failing,
        other_body=other_body,
        ignored=ignored,
        other_tenant=other_tenant,
        reset=reset,
        seed=seed,
    )
    try:
        first = first_run(subject)
    except Broken as broken:
        raise AssertionError(_message(handler, broken, FIRST)) from broken.cause
    plays = dict(Plays(subject, first).by_name())
    if only not in {None, FIRST, *plays}:
        raise ValueError(f"there is no play {only!r} of this handler: {', '.join(plays)}")
    if TENANT not in plays and first.record.tenant != SINGLE_TENANT:
        warnings.warn(LEFT_OUT, stacklevel=2)
    played = [name for name in plays if only in {None, name}]
    for name in played:
        try:
            plays[name]()
        except Broken as broken:
            raise AssertionError(_message(handler, broken, name)) from None
    return [FIRST, *played]


def _message(handler: Callable[..., Any], broken: Broken, play: str) -> str:
    name = getattr(handler, "__qualname__", repr(handler)).rpartition("<locals>.")[2]
    seed = "" if broken.seed is None else f", seed={broken.seed}"
    is_checked = broken.mistake not in UNCHECKED
    return (
        f"{name} {'is not idempotent' if is_checked else 'cannot be checked'}\n"
        f"  promise: {broken.promise}\n"
        f"  play:    {play}\n"
        f"  seen:    {broken.seen}\n"
        f"  mistake: {broken.mistake.name}\n"
        f"  remedy:  {broken.mistake.remedy}\n"
        f"  again:   assert_idempotent({name}, event, ..., only={play!r}{seed})"
    )
