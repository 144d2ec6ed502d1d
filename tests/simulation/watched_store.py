"""What is done to the store, as events: what stood there before, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.record.commit import Commit
from oncekey.record.record import Record, Status
from oncekey.record.stored_answer import AnswerDamaged, Blob, StoredRef, opened
from oncekey.record.transitions import Transition
from oncekey.store.store import Written
from tests.simulation.history import Event, Kept, Wrote

if TYPE_CHECKING:
    from oncekey.record.business_write import BusinessWrite
    from oncekey.testing.memory import MemoryStore

Stored = Transition | Commit | Blob


@dataclass(frozen=True, slots=True)
class WatchedStore:
    """A store that tells what is done to it."""

    store: MemoryStore

    def carry_out(
        self, what: Stored, *, at_ms: int, actor: str, late: bool
    ) -> tuple[object, Event]:
        """Do it; what the store answers, and the event."""
        if isinstance(what, Blob):
            self.store.save(what)
            return None, Kept(at_ms=at_ms, actor=actor, name=what.at.name)
        store = self.store
        transition = what.transition if isinstance(what, Commit) else what
        assert transition is not None
        before = store.read(transition.pk)
        writes, messages = len(store.writes), len(store.messages)
        if isinstance(what, Commit):
            reply: object = store.commit(what)
        else:
            reply = store.write(what)
        after = store.read(transition.pk)
        event = Wrote(
            at_ms=at_ms,
            actor=actor,
            transition=transition,
            permitted=isinstance(reply, Written),
            before=before,
            after=after,
            late=late,
            writes=tuple(map(_item, store.writes[writes:])),
            messages=tuple(store.messages[messages:]),
            answer=self._answer(before, after),
        )
        return reply, event

    def _answer(self, before: Record | None, after: Record | None) -> str:
        if after is None or after is before or after.status is not Status.COMPLETED:
            return ""
        at = after.response if isinstance(after.response, StoredRef) else None
        try:
            return opened(after.response, None if at is None else self.store.fetch(at))
        except AnswerDamaged as damage:
            return str(damage)


def _item(write: BusinessWrite) -> str:
    name: str = write.parameters["Item"]["id"]["S"]
    return name
