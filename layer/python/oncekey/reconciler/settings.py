"""The settings of a reconciler's turns: how often, how long, and how many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.errors import ConfigurationError
from oncekey.options import kind_faults
from oncekey.settings import whole_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping

_DAY_MS = 24 * 3_600_000
_RANGES = {
    "first_delay_ms": (1, _DAY_MS),
    "longest_delay_ms": (1, 30 * _DAY_MS),
    "max_attempts": (1, 1_000),
    "resolver_timeout_ms": (1, 900_000),
    "outbox_grace_ms": (0, _DAY_MS),
    "escalate_again_ms": (_DAY_MS, 90 * _DAY_MS),
}
_VARIABLES = {
    "ONCEKEY_RECONCILE_FIRST_DELAY_MS": "first_delay_ms",
    "ONCEKEY_RECONCILE_LONGEST_DELAY_MS": "longest_delay_ms",
    "ONCEKEY_RECONCILE_MAX_ATTEMPTS": "max_attempts",
    "ONCEKEY_RESOLVER_TIMEOUT_MS": "resolver_timeout_ms",
    "ONCEKEY_OUTBOX_GRACE_MS": "outbox_grace_ms",
    "ONCEKEY_ESCALATE_AGAIN_MS": "escalate_again_ms",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcilerSettings:
    """When a record is visited again, and when it is escalated.

    Args:
        first_delay_ms: the delay from the first turn to the second. Each later delay is twice as
            long.
        longest_delay_ms: the longest delay between two turns.
        max_attempts: after this many turns, or attempts of handed-back work, a record is escalated.
            With the default delays, this is after five to ten hours.
        resolver_timeout_ms: the longest time for a resolver. After that its turn is over.
        outbox_grace_ms: a message that is still in the outbox after this time is sent again.
        escalate_again_ms: a record that is not settled is escalated again after this time.
    """

    first_delay_ms: int = 60_000
    longest_delay_ms: int = 3 * 3_600_000
    max_attempts: int = 10
    resolver_timeout_ms: int = 10_000
    outbox_grace_ms: int = 60_000
    escalate_again_ms: int = 7 * _DAY_MS

    def __post_init__(self) -> None:
        given: dict[str, int] = {name: getattr(self, name) for name in _RANGES}
        faults = kind_faults({name: (value, int) for name, value in given.items()})
        faults = faults or [
            f"{name} is {given[name]}: {least} to {most} is possible"
            for name, (least, most) in _RANGES.items()
            if not least <= given[name] <= most
        ]
        if faults:
            raise ConfigurationError("reconciler settings", faults)

    def delay_ms(self, attempts: int, random_fraction: float) -> int:
        """The time in milliseconds from this turn (`attempts`, from 1) to the next.

        It doubles up to the longest delay. A random part makes it between half and all of that, so
        that records that became unknown together are not always asked about together.
        """
        doubled = self.first_delay_ms << min(attempts - 1, 40)
        return int(min(self.longest_delay_ms, doubled) * (1 + random_fraction) / 2)


def reconciler_settings_from(environment: Mapping[str, str]) -> ReconcilerSettings:
    """The settings from `environment`, with defaults for the others.

    Raises:
        ConfigurationError: a value is wrong; the message names every fault.
    """
    numbers, faults = whole_numbers(environment, _VARIABLES)
    try:
        settings = ReconcilerSettings(**numbers)
    except ConfigurationError as error:
        faults += error.faults
    else:
        if not faults:
            return settings
    raise ConfigurationError("reconciler settings", faults)
