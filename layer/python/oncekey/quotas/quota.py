"""The quota of a tenant: its limits, and the checks of their values."""

from __future__ import annotations

from datetime import timedelta

from oncekey.errors import ConfigurationError
from oncekey.misuse import explained
from oncekey.value import Value

_MINUTE = timedelta(minutes=1)
_LONGEST_WINDOW = timedelta(days=1)
# Larger than any sensible limit, and within the range of a counter.
_LARGEST_LIMIT = 10**12
_MOST_SHARDS = 64


@explained("Quota(new_keys=100)")
class Quota(Value, kw_only=True):
    """The limits of one tenant; at least one is given. A request beyond a limit gets a 429.

    `new_keys` and `active_keys` never refuse an existing key: its repeats are replayed, refused and
    resumed as usual. Both are counted in the transaction that reserves the key, so these limits are
    exact. One tenant never uses up the quota of another.

    Args:
        new_keys: how many keys a tenant may reserve in a window. Windows are fixed, so two
            neighbouring windows together admit twice as many. An expired key that is used again is
            a new key.
        active_keys: how many of a tenant's keys may be reserved and not expired. A key counts from
            its reserve for as long as answers are stored, and up to an hour more (or a 24th of the
            retention, if that is longer). It counts no longer if its record stays in doubt, and no
            shorter if its record is deleted.
        lookups: how many repeats of existing keys may be answered in a window: replays and
            refusals. Each sandbox counts them separately, in memory. A retry that runs is not a
            look-up.
        window: one minute by default; one second to one day.
        scope: `operation` (the default: each operation has its own counters) or `tenant`: one
            count over all operations whose quota has this scope. Give these the same limits.
        shards: the number of items that a tenant's counts are spread over, each with its share of
            the limit. One item can count some tens of new keys a second. More shards can count
            more, but cost reads of full shards when the limit is near.

    Raises:
        ConfigurationError: an argument is wrong; the message names every fault.
    """

    new_keys: int | None = None
    active_keys: int | None = None
    lookups: int | None = None
    window: timedelta = _MINUTE
    scope: str = "operation"
    shards: int = 1

    def __post_init__(self) -> None:
        faults = [
            f"{name} is {limit!r}: a whole number from 1 to {_LARGEST_LIMIT} is needed"
            for name, limit in self._limits().items()
            if limit is not None and not _is_number(limit, _LARGEST_LIMIT)
        ]
        if all(limit is None for limit in self._limits().values()):
            faults.append("no limit is given: new_keys, active_keys or lookups")
        if not isinstance(self.window, timedelta):
            faults.append(f"window is {self.window!r}: a timedelta is needed")
        elif not timedelta(seconds=1) <= self.window <= _LONGEST_WINDOW:
            faults.append(f"window is {self.window}: one second to one day is possible")
        if self.scope not in ("operation", "tenant"):
            faults.append(f"scope is {self.scope!r}: 'operation' or 'tenant' is needed")
        if not _is_number(self.shards, _MOST_SHARDS):
            faults.append(f"shards is {self.shards!r}: 1 to {_MOST_SHARDS} is possible")
        elif not faults and self.shards > min(
            self.new_keys or _MOST_SHARDS, self.active_keys or _MOST_SHARDS
        ):
            faults.append(f"shards is {self.shards}: a limit is less, and has no share for each")
        if faults:
            raise ConfigurationError("Quota(...)", faults)

    @property
    def counts_keys(self) -> bool:
        """Whether a new key is counted in the table."""
        return self.new_keys is not None or self.active_keys is not None

    @property
    def window_ms(self) -> int:
        """The length of a window in milliseconds."""
        return self.window // timedelta(milliseconds=1)

    def window_at(self, now_ms: int) -> int:
        """The number of the window that `now_ms` is in."""
        return now_ms // self.window_ms

    def _limits(self) -> dict[str, object]:
        return {
            "new_keys": self.new_keys,
            "active_keys": self.active_keys,
            "lookups": self.lookups,
        }


def _is_number(value: object, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most
