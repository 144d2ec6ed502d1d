"""Moving messages on: those that were set aside, and dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.store.dynamodb.outbox import OutboxTable
    from oncekey_operator.actions.acting import Acting
    from oncekey_operator.messages.outbox import OutboxItem
    from oncekey_operator.messages.queues import DeadLetterQueue


def requeue(acting: Acting, outbox: OutboxTable, item: OutboxItem) -> bool:
    """Put back a message that was set aside: the next sweep sends it.

    Returns False if it is no longer in the table.

    Raises:
        CommandError: the audit line was not written, and nothing was changed.
        StoreError: the table did not answer; the message may have been put back.
    """
    intention = acting.audit.intend(
        "redrive",
        pk=f"outbox#{item.id}",
        operation_id=item.operation_id,
        before=f"set aside: {item.reason}",
    )
    is_there = outbox.requeue(item.id)
    intention.end("done" if is_there else "gone", after="waiting" if is_there else "")
    return is_there


def move_back(
    acting: Acting, queue: DeadLetterQueue, most: int, moved: Callable[[int], None]
) -> int:
    """Move up to `most` dead letters back to their queue. `moved` hears the number so far.

    Returns how many were moved. After a failure the rest is where it was; call it again.

    Raises:
        CommandError: the audit line was not written, and nothing was moved.
        ClientError: SQS refused a call; the audit table says how many were moved before.
    """
    name = queue.url.rpartition("/")[2]
    intention = acting.audit.intend(
        "redrive", pk=f"queue#{name}", before=f"about {queue.count()} dead letters"
    )
    done = 0
    outcome = "failed"
    try:
        for letters in queue.receive(most):
            count = queue.move_back(letters)
            done += count
            moved(done)
            if count < len(letters):
                # The queue refuses some of them, and would refuse them again.
                break
        outcome = "done"
    finally:
        intention.end(outcome, after=f"{done} moved")
    return done
