"""Sorting a ledger that is larger than the memory, for `compare_ledgers`.

Neither a scan of DynamoDB nor a provider's list (Stripe's is newest first) comes sorted by id.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TypeVar

from oncekey.ledger.values import checked_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Row = TypeVar("Row")


@contextlib.contextmanager
def sorted_by_id(rows: Iterable[Row], *, id_of: Callable[[Row], str]) -> Iterator[Iterator[Row]]:
    """The rows in the order of their ids as `str`, for as long as the block lasts.

    All rows are read before the block begins, and written to a temporary file, which takes about
    twice their size; a few megabytes of memory suffice for any number. The file has no name: it is
    gone when the block ends, however it ends, and when the process is killed. Rows with the same id
    keep their order. They are read in the thread that entered the block.

    SQLite, which comes with Python, does the sorting: it merges sorted runs that it keeps on disk.
    https://www.sqlite.org/tempfiles.html says where: in `SQLITE_TMPDIR`, in `TMPDIR`, or in what it
    finds to be writable, which in Lambda is `/tmp`.

    Args:
        rows: of any number. They are pickled, so let them be small values of classes that can be.
        id_of: the id of a row.

    Raises:
        TypeError: an id is no str.
        sqlite3.OperationalError: there is no room for the file.
    """
    import pickle  # noqa: PLC0415 -- only who compares ledgers pays for these two
    import sqlite3  # noqa: PLC0415

    def written() -> Iterator[tuple[bytes, bytes]]:
        for number, row in enumerate(rows, start=1):
            row_id = checked_id(id_of(row), f"row {number}")
            # The bytes of UTF-8 sort as code points do. Python also has strings that UTF-8 has not.
            yield row_id.encode("utf-8", "surrogatepass"), pickle.dumps(row)

    # An empty name is a private database on disk (https://www.sqlite.org/inmemorydb.html).
    with contextlib.closing(sqlite3.connect("")) as database:
        database.execute("PRAGMA temp_store = FILE")
        database.execute("CREATE TABLE ledger (id BLOB, pickled BLOB)")
        database.executemany("INSERT INTO ledger VALUES (?, ?)", written())
        found = database.execute("SELECT pickled FROM ledger ORDER BY id, rowid")
        # Nobody but this process has ever been able to write that file.
        yield (pickle.loads(pickled) for (pickled,) in found)  # noqa: S301
