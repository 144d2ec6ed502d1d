"""The local runtime as a real process, with the sample service or another one."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import queue
import select
import threading
from dataclasses import dataclass
from multiprocessing.connection import Listener
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from oncekey_local.dev_process import DevProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from multiprocessing.connection import Connection

ROOT = Path(__file__).parents[2]
REFERENCE_SERVICE = "infra.service:SERVICE"
SAMPLE_SERVICE = "tests.support.sample_service:SERVICE"
_PATIENCE_S = 60


@contextlib.contextmanager
def running(
    service: str = SAMPLE_SERVICE,
    *,
    env: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    **options: object,
) -> Iterator[DevProcess]:
    """`oncekey dev` for the length of a block.

    `env` are variables for the functions, `environment` variables for `oncekey dev` itself; any
    other option is the command's own, such as `timeout_s=1`. The provider holds its events unless
    told otherwise: what a test shows would come about through them as well. A function of the
    reference service is started at its first call: most tests need few of them.
    """
    arguments = ["--service", service]
    options = {"webhooks": "hold", **options}
    if service == REFERENCE_SERVICE:
        options = {"warm": 0, **options}
    for name, value in (env or {}).items():
        arguments += ["--env", f"{name}={value}"]
    for name, option in options.items():
        arguments += [f"--{name.replace('_', '-')}", str(option)]
    with DevProcess(*arguments, cwd=str(ROOT), environment=environment) as dev:
        yield dev


@dataclass(frozen=True)
class Answer:
    """An HTTP answer, with all its header lines."""

    status: int
    header_lines: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def headers(self) -> dict[str, str]:
        """By lower-case name; of a repeated one, the last."""
        return {name.lower(): value for name, value in self.header_lines}

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def send(
    url: str,
    method: str = "GET",
    path: str = "/",
    *,
    token: str | None = None,
    headers: Mapping[str, str | bytes] | None = None,
    body: bytes | None = None,
) -> Answer:
    """One request on a connection of its own.

    Raises what `http.client` raises when it is not answered.
    """
    address = urlsplit(url)
    sent: dict[str, str | bytes] = {"Authorization": f"Bearer {token}"} if token else {}
    connection = http.client.HTTPConnection(
        address.hostname or "", address.port, timeout=_PATIENCE_S
    )
    with contextlib.closing(connection):
        connection.request(method, path, body=body, headers={**sent, **(headers or {})})
        response = connection.getresponse()
        return Answer(response.status, tuple(response.getheaders()), response.read())


class Meeting:
    """Where the handlers `meet` and `spin` come to say that they run, and wait to be let go.

    Several can be here at once, so a test holds requests side by side without measuring time.
    """

    def __init__(self) -> None:
        self._listener = Listener(("127.0.0.1", 0), authkey=b"test")
        vars(self._listener)["_listener"]._socket.settimeout(_PATIENCE_S)
        self._threads: list[threading.Thread] = []
        self._answers: queue.SimpleQueue[Answer | Exception] = queue.SimpleQueue()
        self.port = int(self._listener.address[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def call(self, dev: DevProcess, path: str = "/meet") -> None:
        """Sends a request that comes here, without waiting for its answer."""
        thread = threading.Thread(target=self._call, args=(dev, path))
        self._threads.append(thread)
        thread.start()

    def arrival(self) -> tuple[int, Connection]:
        """The process id of the next handler that comes, and the line to let it go by."""
        connection = self._listener.accept()
        return connection.recv(), connection

    def answer(self) -> Answer:
        """The next answer to a call, or the error that a call has met."""
        answer = self._answers.get(timeout=_PATIENCE_S)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _call(self, dev: DevProcess, path: str) -> None:
        try:
            self._answers.put(
                send(dev.url, "POST", f"{path}?port={self.port}", token=dev.token("acme"))
            )
        except (OSError, http.client.HTTPException) as error:
            self._answers.put(error)


@contextlib.contextmanager
def watched(pids: Iterable[int]) -> Iterator[Callable[[], None]]:
    """Watches processes; the block is given what returns as soon as all of them have ended.

    It holds on to the processes themselves, so a reused process id does not confuse it.
    """
    descriptors = [os.pidfd_open(pid) for pid in pids]

    def wait() -> None:
        for descriptor in descriptors:
            ended, _, _ = select.select([descriptor], [], [], _PATIENCE_S)
            assert ended, "a process is still there"

    try:
        yield wait
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def is_alive(pid: int) -> bool:
    """Whether there is a process with this id that is not merely waiting to be reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
