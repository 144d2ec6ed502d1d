"""The record of an operation: its states, its writes, and what it means for a request. Pure."""
