"""`oncekey demo`: real requests against the real service, in thirteen scenes.

The first two show what is meant to happen; the others have clients, functions and provider fail.

`log` is what was seen, `promises` and `money` judge it (all pure), `scenes` is the play, with what
is done in `plays`, `stage` and `backstage` are what the scenes act with, `narrator` tells it in the
`words` it has, `report` sums it up, `director` plays, `command` runs it.
"""

from oncekey_local.demo.command import run

__all__ = ["run"]
