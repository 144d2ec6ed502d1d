"""Settles what nobody else does."""
