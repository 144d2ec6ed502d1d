"""Pointers, which find the record of an operation by its id alone."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.record.identity import digest
from oncekey.record.policy import LONGEST_WORK_S
from oncekey.record.stored_answer import Blob, Place, StoredRef

if TYPE_CHECKING:
    from oncekey.engine.request import Request
    from oncekey.record.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """The partition key of the record, and the hash of its caller.

    The caller is hashed because tenant and principal may be personal data.
    """

    pk: str
    caller: str


def caller_digest(tenant: str, principal: str) -> str:
    """The hash of the caller who may read the status. It reveals neither tenant nor principal."""
    return digest(tenant, principal)


def pointer_place(operation_id: str) -> StoredRef:
    """The item of the pointer to this operation, in the table of the records."""
    return StoredRef(place=Place.ITEM, name=f"op#{operation_id}", digest="")


def pointer_to(record: Record, request: Request, now_ms: int) -> Blob:
    """The pointer to `record`, made for `request`. It outlives the operation and its answer."""
    identity = request.identity
    fields = {"pk": record.pk, "caller": caller_digest(identity.tenant, identity.principal)}
    return Blob(
        at=pointer_place(record.operation_id),
        data=json.dumps(fields, separators=(",", ":")).encode("ascii"),
        expires_at_s=request.expires_at_s(now_ms) + LONGEST_WORK_S,
    )


def pointer_from(data: bytes) -> Pointer | None:
    """The pointer stored as `data`; None if `data` is not a pointer."""
    try:
        fields = json.loads(data)
        return Pointer(pk=str(fields["pk"]), caller=str(fields["caller"]))
    except (ValueError, KeyError, TypeError):
        return None
