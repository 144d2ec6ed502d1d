"""The audit table: who did what, when and why.

An action has two lines. The first is written before the action, so that no action is without one.
The second says how it ended. Lines are added and never changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from oncekey_operator.advice import advice_about
from oncekey_operator.exits import CommandError, Exit, UsageError
from oncekey_operator.output import iso

if TYPE_CHECKING:
    from collections.abc import Mapping

    from oncekey.clock import Clock

INTENDED = "intended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the audit table.

    Attributes:
        pk: the key of the record, or the name of what was changed (`pause#tenant#acme`).
        at: the time as UTC, and the action's id: the order of lines, and no two are the same.
        action_id: the same in both lines of an action.
        action: what was done: `settle`, `bust`, `erase`, `pause`...
        outcome: `intended`, and in the second line how it ended.
        who: the ARN of the AWS identity, or the login name on the local runtime.
        why: the reason that the person gave.
        operation_id: the operation's id; empty if the action is about none.
        before: the state before, in a few words.
        after: the state after it; empty in the first line.
    """

    pk: str
    at: str
    action_id: str
    action: str
    outcome: str
    who: str
    why: str
    operation_id: str = ""
    before: str = ""
    after: str = ""

    def item(self) -> dict[str, dict[str, str]]:
        """The item of the table, without empty attributes."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: {"S": value} for name, value in values.items() if value}


def line_from(item: Mapping[str, Mapping[str, Any]]) -> Line:
    """The line in an item."""
    return Line(**{name: item.get(name, {}).get("S", "") for name in Line.__slots__})


class Lines(Protocol):
    """Where lines are added."""

    def add(self, line: Line) -> None:
        """Add a line. When it returns, the line is durable."""
        ...


@dataclass(frozen=True, slots=True)
class AuditTable:
    """The lines in DynamoDB."""

    client: Any
    table: str

    def add(self, line: Line) -> None:
        """See `Lines.add`."""
        if not self.table:
            raise UsageError(
                "no audit table is named, and nothing is changed without one: say --audit-table"
                " NAME, or give the stack an output OncekeyAuditTable"
            )
        try:
            self.client.put_item(
                TableName=self.table,
                Item=line.item(),
                ConditionExpression="attribute_not_exists(pk)",
            )
        except self.client.exceptions.ConditionalCheckFailedException:
            # A line's key has the action's id, so it is this line: the answer to the first call was
            # lost, and boto3 sent it again.
            return

    def of(self, pk: str) -> list[Line]:
        """The lines about `pk`, in the order of time."""
        pages = self.client.get_paginator("query").paginate(
            TableName=self.table,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": pk}},
        )
        return [line_from(item) for page in pages for item in page["Items"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Adds the lines of one person's actions, all for one reason."""

    lines: Lines
    who: str
    why: str
    clock: Clock

    def intend(
        self, action: str, *, pk: str, operation_id: str = "", before: str = ""
    ) -> Intention:
        """Add the first line of an action. Without it, the action must not begin.

        Raises:
            CommandError: the line was not written.
        """
        line = Line(
            pk=pk,
            at=f"{iso(self.clock.now_ms())}#{(action_id := self.clock.new_operation_id())}",
            action_id=action_id,
            action=action,
            outcome=INTENDED,
            who=self.who,
            why=self.why,
            operation_id=operation_id,
            before=before,
        )
        try:
            self.lines.add(line)
        except CommandError:
            raise
        except Exception as error:
            advice = advice_about(error)
            raise CommandError(
                "nothing was changed, because the audit line was not written:"
                f" {error}{advice and f': {advice}'}",
                Exit.USAGE if advice else Exit.NO_ANSWER,
            ) from error
        return Intention(audit=self, line=line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intention:
    """An action that has its first line."""

    audit: Audit
    line: Line = field(repr=False)

    def end(self, outcome: str, *, after: str = "") -> None:
        """Add the second line. The action has happened: a failure here is raised as it is."""
        first = self.line
        self.audit.lines.add(
            Line(
                pk=first.pk,
                at=f"{iso(self.audit.clock.now_ms())}#{first.action_id}#end",
                action_id=first.action_id,
                action=first.action,
                outcome=outcome,
                who=first.who,
                why=first.why,
                operation_id=first.operation_id,
                before=first.before,
                after=after,
            )
        )
