"""What can go wrong with the local store, on command."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Faults:
    """What goes wrong at the moment.

    `down`: requests that arrive are neither applied nor answered; those already inside finish.
    `lose_answers`: so many writes from now on are applied, and their answers lost. `delay_ms`:
    every request waits before it is applied.
    """

    down: bool = False
    lose_answers: int = 0
    delay_ms: int = 0

    def change(self, changes: object) -> None:
        """Takes over the named values, all or none.

        Raises `ValueError` that names every one that is wrong.
        """
        if not isinstance(changes, dict):
            message = 'send a JSON object such as {"down": true}'
            raise ValueError(message)  # noqa: TRY004 - of the sender's, not of ours
        wrong = [fault for name, value in changes.items() if (fault := _wrong(name, value))]
        if wrong:
            raise ValueError("; ".join(wrong))
        for name, value in changes.items():
            setattr(self, name, value)


def _wrong(name: str, value: object) -> str | None:
    match name:
        case "down":
            return None if isinstance(value, bool) else "down must be true or false"
        case "lose_answers" | "delay_ms":
            whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
            return None if whole else f"{name} must be a whole number, 0 or more"
        case _:
            return f"{name!r} is unknown: use down, lose_answers, delay_ms"
