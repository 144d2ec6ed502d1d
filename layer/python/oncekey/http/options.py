"""The check of the options of `@idempotent`, which finds all faults at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from oncekey import options
from oncekey.http.headers import is_header_name

if TYPE_CHECKING:
    from oncekey.http.decorator import idempotent

_DURATIONS = ["wait_up_to", "retention", "gone_for", "start_within", "max_lease", "reconcile_grace"]
_SWITCHES = ["required", "store_raw_key"]
# The default of `gone_for`.
GONE_FOR = timedelta(hours=24)


def option_faults(given: idempotent, settings: dict[str, int | str]) -> list[str]:
    """Every fault of the given options, in sentences that say what to do."""
    return [
        *options.name_faults(given.operation),
        *options.caller_faults(given.tenant, given.principal),
        *options.effects_faults(given.effects, given.max_lease),
        *options.preset_faults(given.preset, given.store_when, given.after_expiry),
        *options.fingerprint_faults(given.fingerprint),
        *_left_out_faults(given.ignore_query, given.base_path),
        *options.secrets_faults(given.fingerprint_secrets),
        *options.key_faults(given.methods, given.min_key_length),
        *options.proof_faults(given.not_executed),
        *options.hook_faults(
            {"before_store": given.before_store, "upgrade_response": given.upgrade_response}
        ),
        *options.event_faults(given.on_event),
        *options.cache_faults(given.local_cache),
        *options.kind_faults({name: (getattr(given, name), bool) for name in _SWITCHES}),
        *options.text_faults({"problem_base": given.problem_base}),
        *_replay_faults(given.replay_headers),
        *options.version_faults(given.response_version),
        *options.mode_faults(given.mode, given.in_progress, given.start_within, given.required),
        *options.wait_faults(given.in_progress, given.wait_up_to),
        *_abandonment_faults(given),
        *_gone_faults(given.after_expiry, given.gone_for),
        *options.clock_faults(given.clock),
        *options.store_faults(given.store),
        *options.quota_faults(given.quota),
        *options.duration_faults({name: getattr(given, name) for name in _DURATIONS}),
        *options.settings_faults(settings),
    ]


def route_faults(mode: object, on_abandoned: object) -> list[str]:
    """What is wrong with these options where a middleware protects a route of an app."""
    given = {"mode='queued'": mode == "queued"}
    given["on_abandoned='complete'"] = on_abandoned == "complete"
    return [
        f"{option} is for handlers under @idempotent: a worker cannot run a route alone"
        for option, is_given in given.items()
        if is_given
    ]


def _left_out_faults(names: object, base_path: object) -> list[str]:
    faults: list[str] = []
    is_listed = isinstance(names, Collection) and not isinstance(names, str | bytes)
    listed: list[object] = [*names] if is_listed and isinstance(names, Collection) else [None]
    if not all(isinstance(name, str) and name.strip("*") for name in listed):
        faults.append("ignore_query is a collection of names, such as ('X-Amz-*',)")
    is_path = isinstance(base_path, str) and base_path.startswith("/") and base_path[-1] != "/"
    if base_path != "" and not is_path:
        faults.append("base_path begins with a slash and ends without one, such as '/v1'")
    return faults


def _replay_faults(chosen: object) -> list[str]:
    if chosen is None:
        return []
    is_choice = isinstance(chosen, Mapping) and all(
        is_header_name(name) and isinstance(yes, bool) for name, yes in chosen.items()
    )
    if is_choice:
        return []
    return ["replay_headers says of each header whether it is repeated: {'Set-Cookie': True}"]


def _gone_faults(after_expiry: object, gone_for: object) -> list[str]:
    if after_expiry == "run" and gone_for != GONE_FOR:
        # Whoever gives a time expects a 410 in it, and the key would run again at once.
        return ["gone_for needs after_expiry='gone': without it, an expired key runs again"]
    # Without a time, the key would run again at once, as with "run".
    is_time = isinstance(gone_for, timedelta) and gone_for > timedelta(0)
    if after_expiry != "gone" or is_time:
        return []
    return [f"gone_for is {gone_for!r}: after_expiry='gone' needs a time, or leave gone_for out"]


def _abandonment_faults(given: idempotent) -> list[str]:
    if given.on_abandoned == "wait":
        return []
    if given.on_abandoned != "complete":
        return [f"on_abandoned is {given.on_abandoned!r}: 'wait' or 'complete' is needed"]
    faults: list[str] = []
    if given.effects != "recorded":
        faults.append("on_abandoned='complete' needs effects='recorded': nothing else is half done")
    if given.mode == "queued":
        faults.append("on_abandoned='complete' is for mode='sync': a queue brings work back itself")
    if given.store_raw_key is False:
        faults.append(
            "on_abandoned='complete' keeps the request, and in it the key that"
            " store_raw_key=False keeps out"
        )
    return faults
