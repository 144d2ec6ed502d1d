"""Every exception of the library: when it is raised, and what to do now.

Only the standard library is imported here, because everything else imports this module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class OncekeyError(Exception):
    """The root of all exceptions that the library raises."""


class ConfigurationError(OncekeyError, ValueError):
    """The library is used or configured wrongly; all faults found are in one message.

    Raised when a handler is decorated, or at the first call where the environment is at fault.
    Nothing has been written.
    """

    def __init__(self, where: str, faults: list[str]) -> None:
        self.where = where
        self.faults = faults
        super().__init__(where, faults)

    def __str__(self) -> str:
        return f"{self.where}: " + "; ".join(self.faults)


class NotExecuted(OncekeyError):  # noqa: N818 -- a statement about the world, raised by authors, not an error of ours
    """Raised by a handler to state that nothing happened: the same key may run again at once.

    Raise it only for what is proven not to have been executed, such as a refusal by the provider. A
    timeout proves nothing.
    """


class Final(OncekeyError):  # noqa: N818 -- an answer, not an error
    """Raised anywhere below a handler to end its operation with this answer.

    It is stored, whatever its status.
    `body` is sent as it is if it is text, and as JSON otherwise. `headers` come on top of its
    content type.
    """

    def __init__(
        self, status: int, body: object = None, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status = status
        self.body = body
        self.headers = dict(headers or {})
        super().__init__(status, body, self.headers)

    def __str__(self) -> str:
        # The body may hold what no log should.
        return f"the operation ends with status {self.status}"

    def __repr__(self) -> str:
        return f"Final({self.status})"


class RequestRefused(OncekeyError):  # noqa: N818 -- not an error of the program: an answer to the caller
    """A request that is answered without reaching the handler, and without a write.

    `code` is the stable problem code of the answer; `detail` says what the caller can do about it.
    """

    def __init__(self, code: str, detail: str) -> None:
        self.code = code
        self.detail = detail
        super().__init__(code, detail)


class StoreError(OncekeyError):
    """The store did not do what it was asked; what was asked may still have been applied.

    `transient`: asking again may succeed. Otherwise (no permission, no such table) only a change of
    the deployment helps.
    """

    def __init__(self, reason: str, *, transient: bool) -> None:
        self.reason = reason
        self.transient = transient
        super().__init__(reason)

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments are lost by Exception's own pickling.
        return (_store_error, (self.reason, self.transient))


def _store_error(reason: str, transient: bool) -> StoreError:  # noqa: FBT001 -- called by pickle only
    return StoreError(reason, transient=transient)
