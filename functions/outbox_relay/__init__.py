"""The relay: sends what is written to the outbox table to the queue of payments."""
