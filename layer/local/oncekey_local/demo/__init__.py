"""`oncekey demo`: real requests against the real service, in ten scenes.

The first two show what is meant to happen; the others have clients, functions and provider fail.

`log` is what was seen, `promises` judges it (both pure), `scenes` is the play, `stage` is what the
scenes act with, `narrator` tells it, `report` sums it up, `command` runs it.
"""

from oncekey_local.demo.command import run

__all__ = ["run"]
