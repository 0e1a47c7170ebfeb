"""The figures as a table, as Markdown and as JSON; only the JSON is not rounded."""

import json
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.journal import Journal, Side
from bench.row import Row
from bench.rows import limit_rows, product_rows

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
HEADINGS = ("what", "unit", "ours", "spread", "peer", "spread", "ratio", "budget", "holds")
LIMIT_HEADINGS = ("limit of the machine", "unit", "median", "spread")


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """The conditions of the measurement, required to compare its figures with others."""

    lines: tuple[str, ...]

    @classmethod
    def of_this_machine(cls, *, extra: Sequence[str]) -> "Circumstances":
        return cls(
            lines=(
                f"machine: {os.cpu_count()} cores, {_cpu_model()}, {platform.system()} {platform.release()}",
                f"Python of this product and of the benchmark: {platform.python_version()}",
                *extra,
            )
        )


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A finished run of the benchmark."""

    circumstances: Circumstances
    journal: Journal

    def text(self) -> str:
        blocks = ["\n".join(self.circumstances.lines)]
        blocks += [_aligned(heads, cells) for heads, cells in self._tables() if cells]
        blocks += ["\n".join([READING, *(f"note: {note}" for note in self.journal.notes)])]
        return "\n\n".join(blocks)

    def markdown(self) -> str:
        blocks = ["\n".join(f"- {line}" for line in self.circumstances.lines)]
        blocks += [_piped(heads, cells) for heads, cells in self._tables() if cells]
        blocks += ["\n".join(f"- {line}" for line in (READING, *self.journal.notes))]
        return "\n\n".join(blocks)

    def json(self) -> str:
        def entry(row: Row, sides: Sequence[Side]) -> dict[str, object]:
            return {
                "key": row.key,
                "title": row.title,
                "unit": row.unit,
                "better": row.better,
                **{side: self._figure(side, row) for side in sides},
            }

        rows = [
            entry(row, ("ours", "peer"))
            | {
                "ratio": self._ratio(row),
                "budget": row.budget.text if row.budget else None,
                "holds": row.budget.holds(self.journal) if row.budget else None,
            }
            for row in product_rows()
        ]
        content = {
            "circumstances": self.circumstances.lines,
            "rows": rows,
            "limits": [entry(row, ("limit",)) for row in limit_rows()],
            "notes": self.journal.notes,
        }
        return json.dumps(content, indent=2, ensure_ascii=False)

    def _figure(self, side: Side, row: Row) -> dict[str, object] | None:
        samples = self.journal.samples(side, row.key)
        if not samples:
            return None
        median = self.journal.median(side, row.key)
        return {"median": median, "min": min(samples), "max": max(samples), "samples": samples}

    def _ratio(self, row: Row) -> float | None:
        ours, peer = self.journal.median("ours", row.key), self.journal.median("peer", row.key)
        if not ours or not peer:
            return None
        return ours / peer if row.better == "higher" else peer / ours

    def _tables(self) -> Iterator[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
        measured = [row for row in product_rows() if any(self.journal.samples(s, row.key) for s in ("ours", "peer"))]
        yield HEADINGS, [self._cells(row) for row in measured]
        limits = [row for row in limit_rows() if self.journal.samples("limit", row.key)]
        yield LIMIT_HEADINGS, [(row.title, row.unit, *self._shown("limit", row)) for row in limits]

    def _cells(self, row: Row) -> tuple[str, ...]:
        ratio = self._ratio(row)
        holds = row.budget.holds(self.journal) if row.budget else None
        return (
            row.title,
            row.unit,
            *self._shown("ours", row),
            *self._shown("peer", row),
            "–" if ratio is None else f"{ratio:.2f} ×" if ratio < 10 else f"{ratio:,.0f} ×",
            row.budget.text if row.budget else "–",
            "–" if holds is None else "yes" if holds else "NO",
        )

    def _shown(self, side: Side, row: Row) -> tuple[str, str]:
        samples = self.journal.samples(side, row.key)
        median = self.journal.median(side, row.key)
        if median is None:
            return "–", "–"
        return _number(median), f"{_number(min(samples))}..{_number(max(samples))}"


READING = (
    "A figure is the median of the rounds, the spread their smallest and largest; "
    "the ratio says how many times better ours is (below 1: the peer is better)."
)


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _aligned(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[i]) for line in [headings, *lines]) for i in range(len(headings))]
    shown = [headings, ["─" * width for width in widths], *lines]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in shown
    )


def _piped(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    shown = [headings, ["---"] * len(headings), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in shown)


def write_into(page: Path, results: str) -> None:
    """Replaces the text between the two markers of a page; a file without them gets only the results."""
    block = f"{BEGIN}\n{results}\n{END}"
    old = page.read_text() if page.exists() else ""
    before, found, rest = old.partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(before + block + after if found else block + "\n")
