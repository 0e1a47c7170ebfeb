"""The rows of the transports, and their figures as an SVG, which needs no library."""

import json
import sys
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from bench.row import Row

WAYS = {
    "poll1": "polling, 1 s",
    "poll02": "polling, 0.2 s",
    "long": "long polling",
    "sse": "SSE",
    "ws": "WebSocket",
}
FIGURES = {
    "late_p50": ("printed → seen, p50", "ms"),
    "late_p95": ("printed → seen, p95", "ms"),
    "requests": ("requests per watcher and second", "1/s"),
    "bytes": ("bytes received per watcher and second", "B/s"),
    "cpu": ("gateway, of one processor", "%"),
}
UNWATCHED = "nobody"

_WIDTH, _ROW, _LEFT, _BARS, _TOP = 720, 26, 130, 460, 34
_COLOURS = {"poll1": "#8c6d31", "poll02": "#b58d3d", "long": "#7b8794", "sse": "#2f7ed8", "ws": "#3a9d5d"}


def way_rows() -> list[Row]:
    """One row per way and figure, and one for the gateway without watchers."""
    rows = [
        Row(key=f"ways.{way}.{figure}", title=f"100 watchers of a log by {name}: {words}", unit=unit, better="lower")
        for figure, (words, unit) in FIGURES.items()
        for way, name in WAYS.items()
    ]
    alone = f"the same job without watchers: {FIGURES['cpu'][0]}"
    return [*rows, Row(key=f"ways.{UNWATCHED}.cpu", title=alone, unit=FIGURES["cpu"][1], better="lower")]


def drawn(medians: Mapping[str, float]) -> str:
    """An SVG with a block of bars per figure; `medians` by the keys of the rows."""
    blocks, top = [], 0
    for figure, (words, unit) in FIGURES.items():
        values = {way: medians[f"ways.{way}.{figure}"] for way in WAYS}
        blocks.append(_block(top, f"{words} ({unit})", values))
        top += _TOP + _ROW * len(values) + 12
    style = "text{font:13px system-ui,sans-serif;fill:#57606a}.head{font-weight:600}"
    title = "What a hundred watchers of one log see how late, and what they cost"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" role="img">'
        f"<title>{title}</title><style>{style}</style>{''.join(blocks)}</svg>\n"
    )


def _block(top: int, words: str, values: Mapping[str, float]) -> str:
    most = max(values.values()) or 1.0
    parts = [f'<text class="head" x="4" y="{top + 20}">{escape(words)}</text>']
    for place, (way, value) in enumerate(values.items()):
        y, width = top + _TOP + place * _ROW, max(1.0, _BARS * value / most)
        parts.append(f'<text x="4" y="{y + 14}">{escape(WAYS[way])}</text>')
        parts.append(f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="18" rx="2" fill="{_COLOURS[way]}"/>')
        parts.append(f'<text x="{_LEFT + width + 6:.1f}" y="{y + 14}">{_shown(value)}</text>')
    return "".join(parts)


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main(arguments: Sequence[str]) -> None:
    """`python -m bench.transport_rows figures.json picture.svg`: draw what `scripts/bench --json` has written."""
    source, picture = map(Path, arguments)
    rows = json.loads(source.read_text())["rows"]
    picture.write_text(drawn({row["key"]: row["ours"]["median"] for row in rows if row["ours"]}))


if __name__ == "__main__":
    main(sys.argv[1:])
