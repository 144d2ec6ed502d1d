"""The numbers on a command line. Each function reads one, or says its correct form."""

from __future__ import annotations

import argparse
from math import isfinite


def whole(text: str) -> int:
    """A whole number, 0 or more."""
    if text.isascii() and text.isdecimal():
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no whole number: use 0 or more")


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
    raise argparse.ArgumentTypeError(f"{text!r} is not above 0: use a larger number")


def number(text: str) -> float:
    """A finite number."""
    try:
        value = float(text)
    except ValueError:
        value = float("inf")
    if isfinite(value):
        return value
    raise argparse.ArgumentTypeError(f"{text!r} is no number")
