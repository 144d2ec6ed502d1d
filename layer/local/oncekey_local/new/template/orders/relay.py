"""The relay: sends the messages of the outbox table to the queue."""

from oncekey.outbox import OutboxRelay

handler = OutboxRelay()
