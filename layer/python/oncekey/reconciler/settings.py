"""How a reconciler takes its turns: how often, how long, and until when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oncekey.errors import ConfigurationError
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
    """How a record is looked at again and again, and when that ends.

    Args:
        first_delay_ms: from the first turn to the second; each that follows is twice as long.
        longest_delay_ms: no two turns are further apart.
        max_attempts: after so many turns, or runs that were handed back, a person is told. With the
            delays that are the defaults, that is after five to ten hours.
        resolver_timeout_ms: how long a resolver may take; after that its turn is over.
        outbox_grace_ms: a message that is older and still in the outbox is sent again.
        escalate_again_ms: what was escalated and is not settled is escalated again after that.
    """

    first_delay_ms: int = 60_000
    longest_delay_ms: int = 3 * 3_600_000
    max_attempts: int = 10
    resolver_timeout_ms: int = 10_000
    outbox_grace_ms: int = 60_000
    escalate_again_ms: int = 7 * _DAY_MS

    def __post_init__(self) -> None:
        faults = [
            f"{name} is {value}: {least} to {most} is possible"
            for name, (least, most) in _RANGES.items()
            if not least <= (value := getattr(self, name)) <= most
        ]
        if faults:
            raise ConfigurationError("reconciler settings", faults)

    def delay_ms(self, attempts: int, random_fraction: float) -> int:
        """The time from the turn with this number, from 1, to the next.

        It doubles up to a cap; chance takes it to between half and all of that, so that what became
        unknown in one moment is not asked about in one moment for ever.
        """
        doubled = self.first_delay_ms << min(attempts - 1, 40)
        return int(min(self.longest_delay_ms, doubled) * (1 + random_fraction) / 2)


def reconciler_settings_from(environment: Mapping[str, str]) -> ReconcilerSettings:
    """The settings that `environment` states, else the defaults.

    Raises:
        ConfigurationError: with every fault found, in one message.
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
