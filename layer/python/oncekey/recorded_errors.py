"""The exceptions of recorded effects: steps, commits and what was collected for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oncekey.errors import OncekeyError

if TYPE_CHECKING:
    from collections.abc import Mapping


class RunStopped(BaseException):
    """Raised out of a step or a commit when this attempt must not go on; let it pass.

    Another attempt has taken over, the store did not confirm a checkpoint, or the code does not fit
    what is on record. It is no `Exception`, so that a handler does not catch it by mistake;
    whatever the handler makes of it, the operation answers for what is on record.
    """


class EffectMisused(OncekeyError, RuntimeError):  # noqa: N818 -- what an author did, not an error of ours
    """A step, commit or transaction is used in a way that could not be resumed; change the code.

    What was asked for has not been done. Inside a step that is not idempotent it is an error like
    any other: the step is in doubt.
    """


class TransactionInvalid(OncekeyError, ValueError):  # noqa: N818 -- as above
    """What was collected does not fit into one DynamoDB transaction; nothing of it was applied.

    The message names the item, by its number in the order of collection and its table (or a
    message by its topic), and the limit.
    """


@dataclass(frozen=True, slots=True)
class RefusedWrite:
    """A write whose condition did not hold.

    `item` is what it met, if anything, as Python values; it is left out of logs and `repr`.
    """

    number: int
    kind: str
    table: str
    item: Mapping[str, Any] | None

    def __str__(self) -> str:
        return f"item {self.number} ({self.kind} on {self.table})"

    def __repr__(self) -> str:
        return f"RefusedWrite({self})"


class ConditionFailed(OncekeyError):  # noqa: N818 -- an answer of the database, not an error
    """A condition of the author's did not hold; nothing of the transaction was applied.

    Raised by `op.commit`, to be mapped to an answer, where the write names no `otherwise`; what was
    collected for it is discarded. By the protected handler itself, if the final commit failed so;
    the same key may then run again.
    """

    def __init__(self, writes: tuple[RefusedWrite, ...]) -> None:
        self.writes = writes
        super().__init__(writes)

    def __str__(self) -> str:
        failed = ", ".join(map(str, self.writes))
        return (
            f"nothing was committed, because a condition did not hold: {failed}; give the write"
            " otherwise=Final(...), or catch this around op.commit"
        )
