"""The stand-in of the payment provider, in its own process, with counts of its calls."""

from __future__ import annotations

import contextlib
import json
import sys
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.local_deployment.child_process import ChildProcess
from infra.local_deployment.toolkit import ROOT
from oncekey_local.processes import clean_environment
from oncekey_local.provider import READY

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class ProviderProcess:
    """A running provider."""

    url: str

    def charges(self) -> int:
        """How many charges it has made so far."""
        return self._count("charges")

    def refunds(self) -> int:
        """How many refunds it has made so far."""
        return self._count("refunds")

    def lose_answers(self, count: int) -> None:
        """Do the next `count` calls' work, and leave them without an answer."""
        data = json.dumps({"lose_answer": count}).encode()
        urllib.request.urlopen(f"{self.url}/_faults", data=data).close()  # noqa: S310 -- our own process

    def _count(self, what: str) -> int:
        with urllib.request.urlopen(f"{self.url}/_state") as answer:  # noqa: S310 -- our own process
            return int(json.load(answer)[what])


@contextlib.contextmanager
def provider_process() -> Iterator[ProviderProcess]:
    """A provider that has done nothing yet, until the end of the block."""
    with ChildProcess(
        sys.executable,
        "oncekey_local.provider",
        *("--port", "0"),
        ready=READY,
        environment=clean_environment(),
        folder=ROOT,
    ) as provider:
        yield ProviderProcess(provider.line.removeprefix(READY))
