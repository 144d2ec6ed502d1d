"""Finding one record: by its key, by the operation's id, or by its reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.engine.operation_pointer import pointer_from, pointer_place
from oncekey.record.identity import Identity
from oncekey.record.references import read_reference
from oncekey_operator.exits import CommandError
from oncekey_operator.records.listing import Wanted, open_records

if TYPE_CHECKING:
    from oncekey.record.record import Record
    from oncekey.store.due_index import OpenRecords
    from oncekey.store.store import Store


def by_key(
    store: Store, *, tenant: str, operation: str, key: str, principal: str = ""
) -> Record | None:
    """The record of a client's key; None if there is none.

    Raises:
        StoreError: the store did not answer.
    """
    return store.read(Identity(tenant=tenant, operation=operation, key=key, principal=principal).pk)


def by_reference(store: Store, reference: str) -> Record | None:
    """The record that `op.reference` names, if it still has that operation.

    Raises:
        StoreError: the store did not answer.
        ValueError: it is no reference.
    """
    pk, operation_id = read_reference(reference)
    record = store.read(pk)
    return record if record is not None and record.operation_id == operation_id else None


def by_operation_id(store: OpenRecords, operation_id: str) -> Record | None:
    """The record of an operation, by its pointer, or else among the open ones in the index.

    A job has a pointer, and so has an operation with `in_progress="accepted"`. Any other operation
    is found while it is open. When it is settled, only its key or its reference finds it.

    Raises:
        StoreError: the store did not answer.
    """
    data = store.fetch(pointer_place(operation_id))
    pointer = None if data is None else pointer_from(data)
    record = None if pointer is None else store.read(pointer.pk)
    if record is not None and record.operation_id == operation_id:
        return record
    return next(open_records(store, Wanted(operation_id=operation_id)), None)


def found(record: Record | None, what: str) -> Record:
    """The record.

    Raises:
        CommandError: there is none.
    """
    if record is None:
        raise CommandError(f"there is no record of {what}")
    return record
