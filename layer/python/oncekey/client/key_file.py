"""A key that outlives the process: stored before the first request is sent."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from oncekey.clock import Clock, SystemClock
from oncekey.errors import OncekeyError
from oncekey.http import wire
from oncekey.http.http_date import http_date, read_http_date

# What systems say of a file system without hard links, such as FAT and some network shares.
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
# Windows opens no folder, and its NTFS keeps a journal of names.
_FOLDERS_CAN_BE_OPENED = os.name == "posix"
_LINES = r"([!-~]{1,255})\n([^\n]+)\n"


class KeyFile:
    """The key of one operation in a file, for scripts and command lines.

        order = KeyFile("order-7.key")
        client.post(url, json=body, headers=order.headers())
        order.forget()  # once the answer is stored on your side

    A program that is restarted finds the key that it sent before, and gets the first answer. If
    your program has a database, a column beside the order is better than a file: write the key in
    the transaction that creates the order.

    Args:
        path: the file. Its folder exists, and lies on a disk that outlives the process and has hard
            links.
        clock: the source of time and randomness, for tests.
    """

    def __init__(self, path: str | os.PathLike[str], *, clock: Clock | None = None) -> None:
        self._path = Path(path)
        self._clock = clock or SystemClock()

    def headers(self) -> dict[str, str]:
        """The headers of every request of this operation: its key, and when it was first made.

        When this returns, the file is on disk. Of two processes that begin at once, both get the
        same key.

        Raises:
            OncekeyError: the file holds something else.
            OSError: the file cannot be written, as without hard links; make no request then.
        """
        while (text := self._text()) is None:
            self._make()
        # The process that made the file may have been killed before this.
        self._sync_folder()
        found = re.fullmatch(_LINES, text)
        if found is None or read_http_date(found[2]) is None:
            raise OncekeyError(f"{self._path} holds no key; if no request was sent, remove it")
        return {wire.KEY: found[1], wire.FIRST_SENT: found[2]}

    def forget(self) -> None:
        """Remove the key. The next request is a new operation.

        When this returns, the file is gone from the disk.
        """
        self._path.unlink(missing_ok=True)
        self._sync_folder()

    def _text(self) -> str | None:
        try:
            return self._path.read_text("ascii", errors="replace")
        except FileNotFoundError:
            return None

    def _make(self) -> None:
        key, made = self._clock.new_operation_id(), http_date(self._clock.now_ms() // 1000)
        # The whole text appears at once under its name, and never replaces another.
        draft = self._path.with_name(f"{self._path.name}.{key}")
        try:
            with draft.open("x", encoding="ascii") as file:
                file.write(f"{key}\n{made}\n")
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, self._path)
        except FileExistsError:
            pass  # another process was first
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            why = "a KeyFile needs hard links: put it on a file system that has them"
            raise OSError(error.errno, why, str(self._path)) from error
        finally:
            draft.unlink(missing_ok=True)

    def _sync_folder(self) -> None:
        """Make the file's name, or its absence, outlive a loss of power."""
        if not _FOLDERS_CAN_BE_OPENED:
            return
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
