"""The Lambda handler of the outbox table's stream."""

from __future__ import annotations

from oncekey.outbox import OutboxRelay

handler = OutboxRelay()
