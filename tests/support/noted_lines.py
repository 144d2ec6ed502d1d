"""An operator whose audit lines are kept in a list."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oncekey_operator.actions.acting import Acting
from oncekey_operator.audit import Audit

if TYPE_CHECKING:
    from oncekey.clock import Clock
    from oncekey.store.store import Store
    from oncekey_operator.audit import Line

WHO, WHY = "ada", "the provider says so"


@dataclass
class Noted:
    """The lines in the order in which they were added. `fails` makes adding fail."""

    lines: list[Line] = field(default_factory=list)
    fails: bool = False

    def add(self, line: Line) -> None:
        """See `oncekey_operator.audit.Lines`."""
        if self.fails:
            raise ConnectionError
        self.lines.append(line)

    def outcomes(self) -> list[str]:
        """The outcome of each line."""
        return [line.outcome for line in self.lines]


def operator(store: Store, clock: Clock, noted: Noted) -> Acting:
    """A person who acts on `store`."""
    audit = Audit(lines=noted, who=WHO, why=WHY, clock=clock)
    return Acting(store=store, audit=audit, clock=clock)
