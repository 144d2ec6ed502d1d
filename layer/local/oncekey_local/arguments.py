"""What the command lines accept: each reads one argument's text, or says what it must look like."""

from __future__ import annotations

import argparse
import re

_PORT_MAX = 65_535
# Lambda stops every function after this.
_TIMEOUT_S_MAX = 900
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


def seconds(text: str) -> float:
    """A function's timeout."""
    try:
        timeout_s = float(text)
    except ValueError:
        timeout_s = 0
    if 0 < timeout_s <= _TIMEOUT_S_MAX:
        return timeout_s
    raise argparse.ArgumentTypeError(
        f"{text!r} is no timeout: use seconds, more than 0 and at most {_TIMEOUT_S_MAX}"
    )


def setting(text: str) -> tuple[str, str]:
    """A variable's name and value."""
    if found := _SETTING.fullmatch(text):
        return found["name"], found["value"]
    raise argparse.ArgumentTypeError(f"{text!r} must look like NAME=VALUE")
