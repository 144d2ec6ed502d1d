"""Functions that take effect once: SQS records, events, steps, plain calls."""
