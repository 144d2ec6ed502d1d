"""The transition of a record that is looked at and stays what it is.

```
 UNKNOWN            Reschedule   UNKNOWN            the reconciler
 FAILED_RETRYABLE   Reschedule   FAILED_RETRYABLE   the reconciler, half-done work
 PENDING            Reschedule   PENDING            the reconciler
```

It is among those of `oncekey.transitions`, whose docstring has them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from oncekey.record import Due
    from oncekey.transitions import Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Reschedule:
    """Somebody looks at the record now, and next when it is `due`.

    It is written before a resolver is asked: of two reconcilers one gets the turn, and a resolver
    that never returns has had its own. `attempts` counts the turns taken. `escalated_at_ms`: a
    person has to settle it, and is told so, or told again.
    """

    pk: str
    seen: Seen
    due: Due
    attempts: int
    escalated_at_ms: int | None = None
