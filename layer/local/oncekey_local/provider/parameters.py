"""Reading form-encoded parameters. Every value is checked, and unknown names are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from oncekey_local.provider.errors import ProviderError, invalid_request

if TYPE_CHECKING:
    from collections.abc import Collection

# Stripe's limits.
METADATA_ENTRIES_MAX = 50
METADATA_NAME_LENGTH_MAX = 40
METADATA_VALUE_LENGTH_MAX = 500


class Parameters:
    """The parameters of one request. Read the known ones, then call `finish`."""

    def __init__(self, encoded: str) -> None:
        self.pairs = tuple(sorted(parse_qsl(encoded, keep_blank_values=True)))
        self._values = dict(self.pairs)
        self._known: set[str] = set()

    def text(self, name: str, *, choices: Collection[str] | None = None) -> str | None:
        """A non-empty string, one of `choices` if given; None if it was not sent."""
        self._known.add(name)
        value = self._values.get(name)
        if value == "":
            raise invalid_request(
                f"You passed an empty string for '{name}'. We assume empty values are an "
                "attempt to unset a parameter; however this one cannot be unset.",
                param=name,
                code="parameter_invalid_empty",
            )
        if value is not None and choices is not None and value not in choices:
            raise invalid_request(
                f"Invalid {name}: must be one of {', '.join(sorted(choices))}", param=name
            )
        return value

    def required_text(self, name: str, *, choices: Collection[str] | None = None) -> str:
        """Like `text`, but the parameter must be there."""
        value = self.text(name, choices=choices)
        if value is None:
            raise _missing(name)
        return value

    def integer(self, name: str, *, minimum: int, maximum: int) -> int | None:
        """A whole number from `minimum` to `maximum`; None if it was not sent."""
        value = self.text(name)
        if value is None:
            return None
        if not value.removeprefix("-").isascii() or not value.removeprefix("-").isdecimal():
            raise invalid_request(
                f"Invalid integer: {value}", param=name, code="parameter_invalid_integer"
            )
        number = int(value[:20])
        if not minimum <= number <= maximum:
            raise invalid_request(
                f"Invalid {name}: must be between {minimum} and {maximum}",
                param=name,
                code="parameter_invalid_integer",
            )
        return number

    def required_integer(self, name: str, *, minimum: int, maximum: int) -> int:
        """Like `integer`, but the parameter must be there."""
        number = self.integer(name, minimum=minimum, maximum=maximum)
        if number is None:
            raise _missing(name)
        return number

    def flag(self, name: str) -> bool:
        """`true` or `false`; false if it was not sent."""
        value = self.text(name)
        if value not in (None, "true", "false"):
            raise invalid_request(f"Invalid boolean: {value}", param=name)
        return value == "true"

    def mapping(self, name: str) -> dict[str, str]:
        """The entries `name[...]`, within the limits of metadata."""
        prefix = f"{name}["
        names = [key for key in self._values if key.startswith(prefix) and key.endswith("]")]
        self._known.update(names)
        entries = {key[len(prefix) : -1]: self._values[key] for key in names}
        if len(entries) > METADATA_ENTRIES_MAX:
            raise invalid_request(
                f"Too many entries in {name}: at most {METADATA_ENTRIES_MAX}", param=name
            )
        for key, value in entries.items():
            if (
                not 0 < len(key) <= METADATA_NAME_LENGTH_MAX
                or len(value) > METADATA_VALUE_LENGTH_MAX
            ):
                raise invalid_request(
                    f"Invalid {name}: names have 1 to {METADATA_NAME_LENGTH_MAX} characters "
                    f"and values at most {METADATA_VALUE_LENGTH_MAX}",
                    param=f"{name}[{key}]",
                )
        return {key: value for key, value in entries.items() if value != ""}

    def ignore(self, *names: str) -> None:
        """Accept parameters, lists and mappings that have no effect in this provider."""
        self._known.update(key for key in self._values if key.partition("[")[0] in names)

    def finish(self) -> None:
        """Refuse all parameters that were not read."""
        for name in sorted(self._values.keys() - self._known):
            raise invalid_request(
                f"Received unknown parameter: {name}", param=name, code="parameter_unknown"
            )


def _missing(name: str) -> ProviderError:
    return invalid_request(f"Missing required param: {name}.", param=name, code="parameter_missing")
