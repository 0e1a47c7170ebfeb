"""What runs printed, against what is stored of it. Pure.

Every flow numbers its lines from 1, with the process that printed them, and tells the witness how many there were.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from chaos.evidence import Evidence, Finding, Printed
from chaos.journal import Journal
from chaos.states import final
from pyoco_server.domain.execution.snapshot import run_status


def misprinted(evidence: Evidence, journal: Journal) -> Iterator[Finding]:
    """Of every attempt the stored lines begin with the first, and none is missing in between, or there twice; of the
    one that completed the run all are there.
    """
    for run_id, lines in evidence.printed.items():
        if any(later.attempt < earlier.attempt for earlier, later in pairwise(lines)):
            yield run_id, "an earlier attempt wrote behind a later one"
        for attempt in sorted({line.attempt for line in lines}):
            texts = _numbered(lines, attempt)
            if texts and texts != _whole(_process(texts[0]), len(texts)):
                yield run_id, f"attempt {attempt} printed {texts}"
        execution = final(run_id, evidence.logs.get(run_id, ()))
        if run_status(execution) != "COMPLETED":
            continue
        ended = [line for line in evidence.witness.get(run_id, ()) if line.what == "end" and line.detail]
        texts = _numbered(lines, execution.attempt)
        if texts not in [_whole(str(line.pid), int(line.detail)) for line in ended]:
            said = [(line.pid, int(line.detail)) for line in ended]
            yield run_id, f"completed by attempt {execution.attempt}, which left {texts}; processes and lines: {said}"


def _numbered(lines: Sequence[Printed], attempt: int) -> list[str]:
    return [line.text for line in lines if line.attempt == attempt and line.stream == "stdout"]


def _whole(process: str, count: int) -> list[str]:
    return [f"line {process} {number}" for number in range(1, count + 1)]


def _process(text: str) -> str:
    return text.split()[1] if len(text.split()) == 3 else ""
