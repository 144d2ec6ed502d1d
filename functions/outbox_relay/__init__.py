"""The relay function: it sends the messages in the outbox table to the queue of payments."""
