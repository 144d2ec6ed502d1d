"""Idempotent functions: for SQS records, events, workflow steps and plain calls."""
