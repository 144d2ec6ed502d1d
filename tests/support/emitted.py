"""The metrics that the layer emits, read from standard output."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

NAMESPACE, SERVICE = "payments-prod", "payments"
Line = dict[str, Any]


class Emitted:
    """What was written to standard output."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def lines(self) -> list[Line]:
        """The lines since the last look."""
        return [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]

    def values(self) -> dict[str, Any]:
        """The values by name, of all lines since the last look."""
        found: dict[str, Any] = {}
        for line in self.lines():
            for directive in line["_aws"]["CloudWatchMetrics"]:
                found |= {each["Name"]: line[each["Name"]] for each in directive["Metrics"]}
        return found
