"""Saves new versions of a package of the flows while workers run it, and checks which version each run used.

chaos_code ─▶ code-7/__init__.py, later.py       a link: both modules change at once
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

from chaos.evidence import Evidence, Finding
from chaos.journal import Journal
from chaos.states import starts_of

PACKAGE = "chaos_code"


class CodeChanger:
    """`folder` is the working directory of the workers, which reload what is saved there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._versions = count(1)

    def change(self) -> str:
        """Saves the next version and returns its name."""
        version = f"code-{next(self._versions)}"
        (self._folder / version).mkdir()
        for module in ("__init__.py", "later.py"):
            (self._folder / version / module).write_text(f"STAMP = {version!r}\n")
        link = self._folder / f"{PACKAGE}.new"
        link.symlink_to(version)
        link.rename(self._folder / PACKAGE)
        return version


def code_mismatches(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """A run uses one version from start to end, and its start names it: equal names are equal code."""
    stamps: dict[str | None, str] = {}
    for run_id, lines in evidence.side_effects.items():
        starts = starts_of(evidence.logs[run_id])
        for line in (line for line in lines if line.what == "used"):
            first, _, later = line.detail.partition(",")
            if first != later:
                yield run_id, f"imported {first}, and later {later}"
            # With several attempts the line does not say which of them wrote it.
            if len(starts) == 1 and stamps.setdefault(starts[0].code_version, first) != first:
                known = stamps[starts[0].code_version]
                yield run_id, f"ran {first} as version {starts[0].code_version}, which was {known} in another run"
