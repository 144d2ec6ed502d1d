"""The local payment provider in a process of its own, as tests and their SDK meet it."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import requests
import stripe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# It would leave a file in the home folder of whoever runs the tests.
stripe.enable_telemetry = False

API_KEY = "sk_test_local"
READY = "oncekey provider: listening on "
WAIT_TIMEOUT_MS = 20_000


@dataclass(frozen=True)
class Provider:
    """A running provider."""

    url: str

    def control(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """One request to a control endpoint: the status and the JSON of the answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def arm(self, **faults: int | bool) -> None:
        """Set faults; ending a hold returns when the held calls have been applied."""
        status, answer = self.control("POST", "/_faults", faults)
        assert status == 200, answer

    def counts(self) -> dict[str, int]:
        """What `/_state` says."""
        return cast("dict[str, int]", self.control("GET", "/_state")[1])

    def since(self, before: Mapping[str, int]) -> dict[str, int]:
        """How many of each there are more than there were."""
        return {name: count - before[name] for name, count in self.counts().items()}

    def payment_intents(self) -> list[dict[str, Any]]:
        """The first page of what it holds, newest first."""
        headers = {"Authorization": f"Bearer {API_KEY}"}
        request = urllib.request.Request(self.url + "/v1/payment_intents", headers=headers)
        with urllib.request.urlopen(request, timeout=30) as response:
            return cast("list[dict[str, Any]]", json.load(response)["data"])

    def wait_held(self, count: int) -> None:
        """Return when so many calls are held."""
        status, answer = self.control(
            "POST", "/_wait", {"held": count, "timeout_ms": WAIT_TIMEOUT_MS}
        )
        assert status == 200, answer

    def webhooks(self, **changes: object) -> dict[str, Any]:
        """Change how events are sent; without a hold all of them are delivered then."""
        status, state = self.control("POST", "/_webhooks", changes)
        assert status == 200, state
        return cast("dict[str, Any]", state)

    def finish(self, *, decline: bool = False) -> None:
        """End the charges that are processing."""
        status, answer = self.control("POST", "/_finish", {"decline": decline})
        assert status == 200, answer

    def disarm(self) -> None:
        """End every fault."""
        self.arm(
            **dict.fromkeys(("delay_ms", "fail", "lose_answer", "decline", "process"), 0),
            hold=False,
        )

    def reset(self) -> None:
        """Forget everything."""
        self.control("POST", "/_reset")


@contextmanager
def running_provider() -> Iterator[Provider]:
    """A provider on a free port, which ends with the block, or with this process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "oncekey_local.provider", "--port", "0", "--exit-with-stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(READY), line
        try:
            yield Provider(line.removeprefix(READY).strip())
        finally:
            process.terminate()


@contextmanager
def sdk(
    url: str, *, retries: int = 0, api_key: str = API_KEY, timeout_s: float = 30
) -> Iterator[stripe.StripeClient]:
    """The official SDK, bound to the provider at `url`."""
    with requests.Session() as session:
        yield stripe.StripeClient(
            api_key,
            base_addresses={"api": url},
            max_network_retries=retries,
            http_client=stripe.RequestsClient(timeout=timeout_s, session=session),
        )
