"""`oncekey demo`: real requests against the real service, made to fail in ten ways.

`log` is what was seen, `promises` judges it (both pure), `scenes` is the play, `stage` is what the
scenes act with, `narrator` tells it, `report` sums it up, `command` runs it.
"""

from oncekey_local.demo.command import main

__all__ = ["main"]
