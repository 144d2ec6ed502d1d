"""The times of a run as a plot: CPU a call, as a multiple of bare boto3's in the same run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncekey.settings import TRANSPORTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.benchmarks.figures import Figures
    from tests.benchmarks.measuring import Times

_COLOURS = {"oncekey": "#1f6feb", "oncekey, direct": "#2da44e", "Powertools": "#d4a72c"}
_LEFT, _WIDTH, _BAR, _GAP, _TOP = 150, 560, 12, 14, 48
_STYLE = "font-family:sans-serif;font-size:12px;fill:#57606a"


def plot(figures: Figures) -> str:
    """The plot as SVG. Each bar has a line from its lower to its upper quartile."""
    by_transport = {name: figures.times.get((name, "loopback"), {}) for name in TRANSPORTS}
    rows = [(case, _bars(case, by_transport)) for case in by_transport["sdk"]]
    longest = max([1.0, *(bar[2] for _, bars in rows for bar in bars.values())])
    scale = _WIDTH / longest
    parts, y = _legend(), float(_TOP)
    for case, bars in rows:
        parts.append(_text(_LEFT - 8, y + len(bars) * _BAR / 2 + 4, case, anchor="end"))
        for name, (middle, low, high) in bars.items():
            parts.append(_bar(y, middle * scale, _COLOURS[name]))
            parts.append(_line(low * scale, high * scale, y + _BAR / 2))
            parts.append(_text(_LEFT + high * scale + 6, y + _BAR - 2, f"{middle:.2f}"))
            y += _BAR
        y += _GAP
    parts.append(_rule(scale, y))
    width = _LEFT + _WIDTH + 50
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y + 8:.0f}"'
        f' style="{_STYLE}">\n<rect width="100%" height="100%" fill="white"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _bars(
    case: str, by_transport: Mapping[str, Mapping[str, Times]]
) -> dict[str, tuple[float, float, float]]:
    times = by_transport["sdk"][case]
    bars = {"oncekey": times.ratio("oncekey", "bare")}
    if case in by_transport["direct"]:
        bars["oncekey, direct"] = by_transport["direct"][case].ratio("oncekey", "bare")
    return bars | {"Powertools": times.ratio("powertools", "bare")}


def _legend() -> list[str]:
    parts, x = (
        [_text(_LEFT, 16, "CPU a call over loopback; 1 is bare boto3 sending oncekey's requests")],
        _LEFT,
    )
    for name, colour in _COLOURS.items():
        parts.append(f'<rect x="{x}" y="26" width="12" height="10" fill="{colour}"/>')
        parts.append(_text(x + 18, 35, name))
        x += 130
    return parts


def _bar(y: float, width: float, colour: str) -> str:
    return (
        f'<rect x="{_LEFT}" y="{y:.0f}" width="{width:.1f}" height="{_BAR - 2}" fill="{colour}"/>'
    )


def _line(start: float, end: float, y: float) -> str:
    points = f'x1="{_LEFT + start:.1f}" x2="{_LEFT + end:.1f}" y1="{y - 1:.1f}" y2="{y - 1:.1f}"'
    return f'<line {points} stroke="#24292f"/>'


def _rule(scale: float, bottom: float) -> str:
    x = _LEFT + scale
    points = f'x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 6}" y2="{bottom:.0f}"'
    return f'<line {points} stroke="#24292f" stroke-dasharray="3 3"/>'


def _text(x: float, y: float, words: str, *, anchor: str = "start") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{words}</text>'
