"""Sorting a ledger that is larger than the memory, for `compare_ledgers`.

Neither a scan of DynamoDB nor a provider's list (Stripe's is newest first) is sorted by id.
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
    """The rows in the order of their ids as `str`, until the block ends.

    Before the block begins, all rows are read and written to a temporary file of about twice their
    size. A few megabytes of memory suffice for any number of rows. The file has no name: it is
    removed when the block ends in any way, and when the process is killed. Rows with the same id
    keep their order. They are read in the thread that entered the block.

    SQLite, which comes with Python, sorts the rows: it merges sorted runs on disk. It chooses the
    directory as https://www.sqlite.org/tempfiles.html says: `SQLITE_TMPDIR`, `TMPDIR`, or a
    writable directory, which is `/tmp` in Lambda.

    Args:
        rows: any number of rows. They are pickled, so they must be small values that can be.
        id_of: returns the id of a row.

    Raises:
        TypeError: an id is not a str.
        sqlite3.OperationalError: there is no room for the file.
    """
    import pickle
    import sqlite3

    def written() -> Iterator[tuple[bytes, bytes]]:
        for number, row in enumerate(rows, start=1):
            row_id = checked_id(id_of(row), f"row {number}")
            # UTF-8's bytes sort in the order of code points. `surrogatepass` also encodes those
            # Python strings that UTF-8 cannot.
            yield row_id.encode("utf-8", "surrogatepass"), pickle.dumps(row)

    # An empty name is a private database on disk (https://www.sqlite.org/inmemorydb.html).
    with contextlib.closing(sqlite3.connect("")) as database:
        database.execute("PRAGMA temp_store = FILE")
        database.execute("CREATE TABLE ledger (id BLOB, pickled BLOB)")
        database.executemany("INSERT INTO ledger VALUES (?, ?)", written())
        found = database.execute("SELECT pickled FROM ledger ORDER BY id, rowid")
        # Only this process can write that file, so unpickling it is safe.
        yield (pickle.loads(pickled) for (pickled,) in found)  # noqa: S301
