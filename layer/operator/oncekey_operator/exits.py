"""The exit statuses of all commands, and the error that ends a command with one of them."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """How a command ended."""

    DONE = 0
    REFUSED = 1  # something is wrong, or the state of the record does not permit the action
    USAGE = 2  # the command line or the configuration is wrong
    NO_ANSWER = 3  # the store did not answer
    INTERRUPTED = 130


class CommandError(Exception):
    """Ends a command. The message is for the person, and says what to do."""

    def __init__(self, message: str, status: Exit = Exit.REFUSED) -> None:
        super().__init__(message)
        self.status = status


class UsageError(CommandError):
    """The command line or the configuration is wrong."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Exit.USAGE)
