"""Reading messages: the outbox, and the dead letters of a queue."""
