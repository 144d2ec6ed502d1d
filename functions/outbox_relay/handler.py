"""The Lambda on the outbox table's stream."""

from __future__ import annotations

from oncekey.relay import OutboxRelay

handler = OutboxRelay()
