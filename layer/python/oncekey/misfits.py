"""Exceptions that code raises for input of another form than it expects."""

from __future__ import annotations

# Also for input that is nested too deeply for a parser. A `next(...)` that finds nothing raises
# StopIteration, which no coroutine can raise. Any other exception is a fault of the program.
MISFITS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    StopIteration,
    TypeError,
    ValueError,
)
