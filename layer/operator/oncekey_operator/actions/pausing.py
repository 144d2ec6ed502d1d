"""Pausing new work, and resuming it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from oncekey.record.pause import Pause, PauseScope

if TYPE_CHECKING:
    from oncekey.store.pauses import Pausable
    from oncekey.store.store import Store
    from oncekey_operator.actions.acting import Acting


def pause(acting: Acting, scope: PauseScope, name: str) -> Pause | None:
    """Pause new work. The reason is given to the callers that are refused.

    Returns the pause that this one replaces, if any.

    Raises:
        CommandError: the audit line was not written, and nothing is paused.
        StoreError: the store did not answer; the pause may be on record.
    """
    store = cast("Pausable", acting.store)
    made = Pause(
        scope=scope,
        name=name,
        reason=acting.audit.why,
        by=acting.audit.who,
        since_ms=acting.clock.now_ms(),
    )
    before = _state(_found(store, scope, name))
    intention = acting.audit.intend("pause", pk=_pk(scope, name), before=before)
    former = store.pause(made)
    intention.end("done", after=_state(made))
    return former


def resume(acting: Acting, scope: PauseScope, name: str) -> Pause | None:
    """End a pause, and return it; None if there was none, and nothing was changed.

    Raises:
        CommandError: the audit line was not written, and nothing is resumed.
        StoreError: the store did not answer; the pause may have been removed.
    """
    store = cast("Pausable", acting.store)
    found = _found(store, scope, name)
    if found is None:
        return None
    intention = acting.audit.intend("resume", pk=_pk(scope, name), before=_state(found))
    former = store.resume(scope, name)
    intention.end("done" if former else "was-not-paused", after=_state(None))
    return former


def _found(store: Store, scope: PauseScope, name: str) -> Pause | None:
    return next((each for each in store.pauses() if (each.scope, each.name) == (scope, name)), None)


def _pk(scope: PauseScope, name: str) -> str:
    return f"pause#{scope}#{name}"


def _state(pause: Pause | None) -> str:
    return "not paused" if pause is None else f"paused: {pause.reason}"
