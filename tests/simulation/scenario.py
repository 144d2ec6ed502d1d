"""What a simulated run consists of: who takes part, and what may go wrong."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from oncekey.reconciler.settings import ReconcilerSettings
from oncekey.record.record import Effects
from oncekey.settings import Settings
from tests.simulation.history import Circumstances

CALL_TIMEOUT_MS = 100
# A slow answer comes just before its caller gives up.
SLOW_MS = CALL_TIMEOUT_MS - 1
REMAINING_MS = 10_000
DEFAULTS = Settings()
TURNS = ReconcilerSettings()
# How long after the end of its worker's invocation a message is shown again.
AFTER_LEASE_MS = 1_000
# How often a reconciler runs.
SCHEDULE_MS = 60_000


class Kind(StrEnum):
    """What one move of a schedule does."""

    STEP = "step"  # the actor's next command is carried out and answered
    LOSE = "lose"  # carried out, and the answer is lost: the actor sees a time-out
    FAIL = "fail"  # not carried out; the actor sees a passing failure
    BREAK = "break"  # not carried out; the actor sees a failure that asking again will not cure
    DELAY = "delay"  # under way: the actor sees a time-out, and it may land later, or never
    KILL = "kill"  # the actor is dead; what it was sending may land later, or never
    LAND = "land"  # something under way arrives
    ADVANCE = "advance"  # time passes
    SWEEP = "sweep"  # DynamoDB deletes what has expired
    SKEW = "skew"  # the actor's clock jumps to an offset from the true time
    THROTTLE = "throttle"  # not carried out; the store says that it has too much to do
    SLOW = "slow"  # carried out, and time passes before the answer comes
    DUPLICATE = "duplicate"  # carried out and answered, and it may land once more, later
    FREEZE = "freeze"  # the sandbox stands still: nobody goes on, and nobody kills it
    THAW = "thaw"  # a frozen sandbox goes on where it stood
    REDELIVER = "redeliver"  # a queue shows a message again that somebody works on
    ROLL = "roll"  # the other release is deployed, and what begins from now on runs it


HARMLESS = frozenset({Kind.STEP, Kind.LAND, Kind.ADVANCE, Kind.SWEEP, Kind.THAW})
FAULTS = tuple(kind for kind in Kind if kind not in HARMLESS)

# A lost answer is a write that lands at once after its sender gave it up; a failed write is one
# that never lands. So these two reach every state that all five reach.
ESSENTIAL = (Kind.DELAY, Kind.KILL)
ALL_FAULTS = (Kind.LOSE, Kind.FAIL, Kind.BREAK, Kind.DELAY, Kind.KILL)
# They reach no other state than the above of one write; of several, and of time, they do.
MORE_FAULTS = (Kind.THROTTLE, Kind.SLOW, Kind.DUPLICATE)


class Until(StrEnum):
    """To which moment time passes."""

    LEASE_EDGE = "lease-edge"  # over by the fastest clock that there may be, not by the slowest
    LEASE = "lease"  # over by every clock
    MARGIN = "margin"  # the same, for whoever leaves out the lease's margin
    DUE = "due"
    RETENTION = "retention"
    AGE = "age"  # a day after the reservation, whatever has become of it


class Plan(StrEnum):
    """What a handler does."""

    SUCCEED = "succeed"
    FAIL_AFTER = "fail-after"  # raises after its effect
    FAIL_BEFORE = "fail-before"  # raises before its effect, which nobody can tell from the above
    NOT_EXECUTED = "not-executed"  # proves that nothing happened
    UNAVAILABLE = "unavailable"  # an answer that is not final, after the effect
    TIME_OUT = "time-out"  # raises while the call is under way: it may arrive within the grace
    # What follows is for recorded effects alone. There the above is done by the last step.
    CAUGHT = "caught"  # that step raises after its effect, and the handler answers 201 all the same
    DECLINED = "declined"  # that step proves that nothing happened, and the handler answers 402
    AGAIN = "again"  # it proves that nothing happened, is called again, and succeeds
    FAIL_AT_LAST = "fail-at-last"  # raises when all steps are done
    FINAL = "final"  # raises Final when all steps are done: what is collected is discarded
    FINAL_COMMIT = "final-commit"  # the same, and what is collected is applied
    FINAL_IN_STEP = "final-in-step"  # the step raises Final after its effect
    CONFLICT = "conflict"  # a condition of the last write does not hold
    STUBBORN = "stubborn"  # answers 201 whatever stops it


# What handlers of effects that are not recorded can do.
ON_ITS_OWN = (
    Plan.SUCCEED,
    Plan.FAIL_AFTER,
    Plan.FAIL_BEFORE,
    Plan.NOT_EXECUTED,
    Plan.UNAVAILABLE,
    Plan.TIME_OUT,
)


class Step(NamedTuple):
    """A step of a recorded handler. The provider recognises a repeat if it `is_idempotent`."""

    name: str = "charge"
    is_idempotent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The code of a recorded handler, the same in every attempt.

    It commits business writes as `created` if it `commits`, does its steps, and collects the last
    business writes. Results of steps that are large are kept beside the record.
    """

    steps: tuple[Step, ...] = (Step(),)
    commits: bool = False
    has_large_results: bool = False


class Move(NamedTuple):
    """One move of a schedule."""

    kind: Kind
    actor: str = ""
    detail: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in self if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """One request. Equal bodies are equal requests."""

    name: str
    body: str = "a"
    effects: Effects = Effects.UNRECORDED
    plan: Plan = Plan.SUCCEED
    # So that a reconciler can hand half-done work to a worker.
    keeps_request: bool = False
    remaining_ms: int = REMAINING_MS


ONE_STEP = Work()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Who takes part, and what may go wrong, how often.

    `killed_in_time`: the platform kills invocations at their deadline. `skews` are the offsets of
    clocks from the true time at the start, by actor; `skew_choices` those that a clock may jump to.
    `work` is what recorded handlers do.
    """

    callers: tuple[Caller, ...]
    settlers: tuple[str, ...] = ()
    work: Work = ONE_STEP
    settings: Settings = DEFAULTS
    killed_in_time: bool = True
    faults: tuple[Kind, ...] = ESSENTIAL
    most_faults: int = 0
    passes: tuple[Until, ...] = (Until.LEASE,)
    most_passes: int = 0
    sweeps: bool = False
    skews: tuple[tuple[str, int], ...] = ()
    skew_choices: tuple[int, ...] = ()

    @property
    def dies_in_time(self) -> bool:
        """Whether every invocation is killed at its deadline: a frozen one is not."""
        return self.killed_in_time and Kind.FREEZE not in self.faults

    @property
    def records_effects(self) -> bool:
        """Whether the effects are recorded."""
        return any(caller.effects is Effects.RECORDED for caller in self.callers)

    @property
    def most_skew_ms(self) -> int:
        """How far any clock can be from the true time."""
        offsets = [offset for _, offset in self.skews] + list(self.skew_choices)
        return max((abs(offset) for offset in offsets), default=0)

    @property
    def clocks_agree(self) -> bool:
        """Whether any two clocks differ by less than the margin."""
        offsets = [0, *(offset for _, offset in self.skews), *self.skew_choices]
        return max(offsets) - min(offsets) < self.settings.lease_margin_ms

    @property
    def circumstances(self) -> Circumstances:
        """What may be counted on in every run."""
        return Circumstances(
            killed_in_time=self.dies_in_time,
            clocks_agree=self.clocks_agree,
            most_skew_ms=self.most_skew_ms,
            records_effects=self.records_effects,
            progress_ms=progress_ms(self) if self.callers else None,
        )


def progress_ms(scenario: Scenario) -> int:
    """Within which time after the last fault everybody has an answer, and nothing waits any more.

    It is the sum of what can come one after the other: the lease of an attempt that has just begun,
    the grace in which its calls may still arrive, the longest delay that the reconcilers' turns so
    far lead to, the time for which a message is hidden from other workers, and one run of the
    reconciler or try of the client at the end of each. Clocks may be apart by the skew each time.
    """
    settings = scenario.settings
    lease_ms = max(caller.remaining_ms for caller in scenario.callers) + settings.lease_margin_ms
    turns = sum(name.startswith("reconciler") for name in scenario.settlers) + 1
    delay_ms = TURNS.delay_ms(turns, 1.0)
    waits = (lease_ms, settings.reconcile_grace_ms, delay_ms, lease_ms + AFTER_LEASE_MS)
    return sum(waits) + len(waits) * (SCHEDULE_MS + scenario.most_skew_ms)
