"""What `oncekey pause` and `oncekey resume` share: the options that say what is paused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey_operator.exits import UsageError

if TYPE_CHECKING:
    import argparse

    from oncekey.record.pause import PauseScope


def add_paused(parser: argparse.ArgumentParser) -> None:
    """Add the options that name an operation, a tenant or everything."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("operation", nargs="?", metavar="OPERATION", help="the operation's name")
    what.add_argument("--tenant", metavar="NAME", help="a tenant, in all its operations")
    what.add_argument("--all", action="store_true", help="all operations and tenants of the table")
    parser.add_argument("--reason", metavar="TEXT", help="why; callers that are refused get it")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def paused_by(options: argparse.Namespace) -> tuple[PauseScope, str] | None:
    """The scope and the name that the options say; None if they say nothing.

    Raises:
        UsageError: they say what, and not why; or the other way round.
    """
    from oncekey.record.pause import EVERYTHING, PauseScope

    found: tuple[PauseScope, str] | None = None
    if options.all:
        found = PauseScope.ALL, EVERYTHING
    elif options.tenant is not None:
        found = PauseScope.TENANT, options.tenant
    elif options.operation is not None:
        found = PauseScope.OPERATION, options.operation
    is_said = found is not None and found[1].strip() and (options.reason or "").strip()
    if not is_said and (found is not None or options.reason is not None or options.yes):
        raise UsageError("say whose work it is, and --reason TEXT, which the audit table keeps")
    return found


def words(scope: PauseScope, name: str) -> str:
    """What is paused, for a person."""
    from oncekey.record.pause import PauseScope

    return "everything" if scope is PauseScope.ALL else f"{scope} {name}"
