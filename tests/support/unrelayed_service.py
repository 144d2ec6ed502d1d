"""The reference service whose outbox has no relay, as if each had been given up on."""

from __future__ import annotations

from infra.service import SERVICE as REFERENCE
from tests.support.replacing import replace

SERVICE = replace(
    REFERENCE,
    functions=tuple(each for each in REFERENCE.functions if each.name != "outbox-relay"),
)
