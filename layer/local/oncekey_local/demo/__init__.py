"""`oncekey demo`: real requests against the real service, in thirteen scenes.

The first two show the normal case. In the others, clients, functions or the provider fail.

`log` records a scene; `promises` and `money` check that log (all pure). `scenes` has the
explanations and promises, `plays` the actions. Plays use `stage` and `backstage`. `narrator` prints
what happens, with texts from `words`, and `report` prints the summary. `director` plays all scenes,
and `command` runs the demo.
"""

from oncekey_local.demo.command import run

__all__ = ["run"]
