"""The arguments of the command lines. Each function reads one, or says its correct form."""

from __future__ import annotations

import argparse
import contextlib
import math
import re

_PORT_MAX = 65_535
# Lambda stops every function after this.
_TIMEOUT_S_MAX = 900
# Lambda waits no longer for a batch.
_INTERVAL_S_MAX = 300
# SQS's own.
_VISIBILITY_TIMEOUT_S_MAX = 43_200
# Some thirty years, either way: a token that is over is needed for tests.
_LIFETIME_S_MAX = 10**9
# So many characters of a wrong number are repeated.
_SHOWN = 40
_SETTING = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)", re.DOTALL)


def port(text: str) -> int:
    """A port, or 0 for any free one."""
    if text.isdecimal() and int(text) <= _PORT_MAX:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port: use 0 to {_PORT_MAX}")


def count(text: str) -> int:
    """A number of processes."""
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of processes: use 1 or more")


def count_or_zero(text: str) -> int:
    """A number of processes that may be none."""
    if text.isdecimal():
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of processes: use 0 or more")


def seconds(text: str) -> float:
    """A function's timeout."""
    timeout_s = _number(text)
    if 0 < timeout_s <= _TIMEOUT_S_MAX:
        return timeout_s
    raise argparse.ArgumentTypeError(
        f"{text!r} is no timeout: use seconds, more than 0 and at most {_TIMEOUT_S_MAX}"
    )


def interval(text: str) -> float:
    """The time between two runs or tries."""
    interval_s = _number(text)
    if 0 < interval_s <= _INTERVAL_S_MAX:
        return interval_s
    raise argparse.ArgumentTypeError(
        f"{text!r} is no interval: use seconds, more than 0 and at most {_INTERVAL_S_MAX}"
    )


def schedule(text: str) -> float:
    """The time between two calls of a schedule, or `off`."""
    if text == "off":
        return math.inf
    try:
        return interval(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}; or off") from None


def window(text: str) -> float:
    """For how long a batch waits to become larger."""
    window_s = _number(text)
    if 0 <= window_s <= _INTERVAL_S_MAX:
        return window_s
    raise argparse.ArgumentTypeError(f"{text!r} is no window: use seconds, 0 to {_INTERVAL_S_MAX}")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1


def visibility_timeout(text: str) -> int:
    """For how long the queue hides a received message."""
    if text.isdecimal() and 1 <= int(text) <= _VISIBILITY_TIMEOUT_S_MAX:
        return int(text)
    raise argparse.ArgumentTypeError(
        f"{text!r} is no visibility timeout: use whole seconds, 1 to {_VISIBILITY_TIMEOUT_S_MAX}"
    )


def lifetime(text: str) -> int:
    """For how long a token is good; a negative number is one that is over."""
    with contextlib.suppress(ValueError):
        if -_LIFETIME_S_MAX <= int(text) <= _LIFETIME_S_MAX:
            return int(text)
    raise argparse.ArgumentTypeError(
        f"{text[:_SHOWN]!r} is no lifetime: use whole seconds, {_LIFETIME_S_MAX} at most"
    )


def setting(text: str) -> tuple[str, str]:
    """A variable's name and value."""
    if found := _SETTING.fullmatch(text):
        return found["name"], found["value"]
    raise argparse.ArgumentTypeError(f"{text!r} must look like NAME=VALUE")
