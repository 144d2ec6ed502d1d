"""The numbers and reasons on a command line. Each function reads one, or says its correct form."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# More than any count, rate or price that a command is asked about. Far larger numbers overflow
# where they are added up, or where Python's own functions take them.
_LARGEST = 10**9
# So many characters of a wrong number are repeated.
_SHOWN = 40


def whole(text: str) -> int:
    """A whole number, 0 or more."""
    return _whole(text, _LARGEST)


def up_to(most: int) -> Callable[[str], int]:
    """A function that reads a whole number from 0 to `most`."""

    def read(text: str) -> int:
        return _whole(text, most)

    return read


def _whole(text: str, most: int) -> int:
    # The length first: Python reads no number of thousands of digits.
    is_read = text.isascii() and text.isdecimal() and len(text) <= len(str(_LARGEST))
    if is_read and int(text) <= most:
        return int(text)
    raise argparse.ArgumentTypeError(f"{_short(text)} is refused: use a whole number, 0 to {most}")


def one_or_more(text: str) -> int:
    """A whole number, 1 or more."""
    if value := whole(text):
        return value
    raise argparse.ArgumentTypeError("use 1 or more")


def positive(text: str) -> float:
    """A number above 0."""
    value = number(text)
    if value > 0:
        return value
    raise argparse.ArgumentTypeError(f"{_short(text)} is not above 0: use a larger number")


def reason(text: str) -> str:
    """Why somebody does it."""
    if text.strip():
        return text
    raise argparse.ArgumentTypeError("say why: the audit table keeps it")


def number(text: str) -> float:
    """A number that can be added up with others."""
    try:
        value = float(text)
    except ValueError:
        value = float("inf")
    if abs(value) <= _LARGEST:
        return value
    raise argparse.ArgumentTypeError(f"{_short(text)} is refused: use a number, {_LARGEST} at most")


def _short(text: str) -> str:
    """The text as it was given, without the thousands of digits that it may have."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
