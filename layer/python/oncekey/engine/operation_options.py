"""The options and settings that all requests of one operation share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.errors import ConfigurationError
from oncekey.record.policy import IETF_NAME, Encoding, Policy
from oncekey.record.record import Effects
from oncekey.settings import Settings
from oncekey.value import Value, field

if TYPE_CHECKING:
    from collections.abc import Callable

    from oncekey.engine.local_cache import LocalCache
    from oncekey.quotas.quota import Quota
    from oncekey.telemetry.operation_event import OnEvent


def nothing_proves_it(_error: BaseException) -> bool:
    """The rule of an author who names no exceptions: only `NotExecuted` is a proof."""
    return False


class OperationOptions(Value, kw_only=True):
    """The options that the engine needs. They are made once for each environment.

    Args:
        effects: what the author declares about the handler's effects.
        settings: the operation's settings.
        is_not_executed: whether an exception proves that nothing happened.
        encoding: the form of the stored answer.
        response_version: the version of the answers that this release gives.
        preset: the name of the preset, for answers that are given without the handler.
        is_queued: whether a worker runs the handler.
        stores_raw_key: whether key and principal may be stored.
        has_status_url: whether there is a URL for the operation's status.
        quota: what a tenant may use.
        on_event: the author's hook.
        local_cache: how many completed records a sandbox remembers; 0 for none.
    """

    effects: Effects
    settings: Settings = field(default_factory=Settings)
    is_not_executed: Callable[[BaseException], bool] = field(default=nothing_proves_it, repr=False)
    encoding: Encoding = Encoding.RESULT
    response_version: int = 1
    preset: str = IETF_NAME
    is_queued: bool = False
    stores_raw_key: bool = True
    has_status_url: bool = False
    quota: Quota | None = None
    on_event: OnEvent | None = field(default=None, repr=False)
    local_cache: int = 0
    # The policy that the operation's records carry.
    policy: Policy = field(init=False)
    cache: LocalCache | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make the policy that the records of the operation carry.

        Raises:
            ConfigurationError: the operation needs the index `due`, which is switched off.
        """
        needs_index = self.is_queued or self.effects is Effects.RECORDED
        if needs_index and not self.settings.due_shards:
            what = "mode='queued'" if self.is_queued else "effects='recorded'"
            fault = (
                f"ONCEKEY_DUE_SHARDS is 0, which switches the index `due` off, and {what} needs it:"
                " without it, no reconciler finds work that was abandoned"
            )
            raise ConfigurationError("oncekey settings", [fault])
        policy = Policy(
            encoding=self.encoding,
            retention_s=self.settings.retention_s,
            gone_for_s=self.settings.gone_for_s,
            response_version=self.response_version,
            preset=self.preset,
            is_queued=self.is_queued,
            grace_ms=self.settings.reconcile_grace_ms,
        )
        object.__setattr__(self, "policy", policy)
        object.__setattr__(self, "cache", _cache(self.local_cache))

    @property
    def counts_keys(self) -> bool:
        """Whether a new key is counted when it is reserved."""
        return self.quota is not None and self.quota.counts_keys


def _cache(most: int) -> LocalCache | None:
    if not most:
        return None
    from oncekey.engine.local_cache import LocalCache

    return LocalCache(most)
