"""Where the handlers of `sample_event_functions` come to be told what to do."""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing.connection import Listener
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_PATIENCE_S = 60


@dataclass(frozen=True)
class Batch:
    """What an invocation was called with."""

    event: dict[str, Any]

    @property
    def records(self) -> list[dict[str, Any]]:
        """The batch."""
        records: list[dict[str, Any]] = self.event["Records"]
        return records

    @property
    def bodies(self) -> list[str]:
        """What the messages say."""
        return [record["body"] for record in self.records]

    @property
    def keys(self) -> list[str]:
        """Which items have changed."""
        return [record["dynamodb"]["Keys"]["pk"]["S"] for record in self.records]


@dataclass(frozen=True)
class Visit(Batch):
    """An invocation that waits for its instruction."""

    pid: int
    function: str
    _connection: Connection

    def answer(self, value: object = None) -> None:
        """Lets it return this."""
        self._tell("answer", value)

    def answer_failed(self, *positions: int) -> None:
        """Lets it return that the records at these positions have failed."""
        names = ["messageId" if "messageId" in record else "dynamodb" for record in self.records]
        ids = [
            record[name] if name == "messageId" else record[name]["SequenceNumber"]
            for name, record in zip(names, self.records, strict=True)
        ]
        failures = [{"itemIdentifier": ids[position]} for position in positions]
        self.answer({"batchItemFailures": failures})

    def fail(self) -> None:
        """Lets it raise."""
        self._tell("fail", "as the test wants it")

    def leave(self) -> None:
        """Lets it end its process."""
        self._tell("leave", None)

    def spin(self) -> None:
        """Lets it run for ever."""
        self._tell("spin", None)

    def _tell(self, what: str, value: object) -> None:
        with self._connection:
            self._connection.send((what, value))


class Desk:
    """A port that the handlers find in their environment."""

    def __init__(self) -> None:
        self._listener = Listener(("127.0.0.1", 0), authkey=b"test")
        vars(self._listener)["_listener"]._socket.settimeout(_PATIENCE_S)
        self.environment = {"DESK_PORT": str(self._listener.address[1])}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._listener.close()

    def visit(self) -> Visit:
        """The next invocation that comes."""
        connection = self._listener.accept()
        pid, function, event = connection.recv()
        return Visit(event, pid, function.rpartition("-local-")[2], connection)
