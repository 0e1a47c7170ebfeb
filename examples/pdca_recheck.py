"""The flow `pdca.recheck`: what workers run for one batch of a PDCA request; `flows.py` serves it.

What it gets and has to return is described in docs/how-to/write-a-recheck-flow.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyoco import Flow, task

from strategy_metrics import METRICS, health_of, measure, read_returns

SHOWN_LINES = 5


def data_folder() -> Path:
    """PYOCO_PDCA_DATA_DIR, else the example data."""
    return Path(os.environ.get("PYOCO_PDCA_DATA_DIR") or Path(__file__).parent / "pdca")


@task
def recheck(
    strategies: Sequence[str],
    window: Mapping[str, object],
    params: Mapping[str, object] | None = None,
    request_id: str = "",
    batch: int = 1,
    reason: str = "",
    trace_id: str | None = None,
    client_id: str = "",
) -> dict[str, object]:
    """Measures every strategy of the batch; one without data has health `unknown`."""
    asked = (params or {}).get("recalc_metrics")
    metrics = [name for name in METRICS if not isinstance(asked, list) or name in asked]
    results, lines = [], []
    for strategy in strategies:
        returns = read_returns(data_folder(), strategy, window)
        values = () if returns is None else returns.values
        kpi = measure(values, metrics)
        health = health_of(kpi, len(values))
        results.append({"strategy": strategy, "health": health, "kpi": kpi})
        measured = " | ".join(f"{kpi[name]:.4f}" if name in kpi else "-" for name in METRICS)
        lines.append(f"| {strategy} | {health} | {measured} | {len(values)} | {_note(returns)} |")
        print(f"{strategy}: {health}, {len(values)} returns")
    report = "\n".join(
        (
            f"# Batch {batch} of request {request_id}",
            "",
            f"| strategy | health | {' | '.join(METRICS)} | returns | note |",
            "|---|---|---|---|---|---|---|",
            *lines,
            "",
        )
    )
    return {
        "results": results,
        "reports": [{"name": f"batch-{batch:04}.md", "media_type": "text/markdown", "text": report}],
    }


def _note(returns: object) -> str:
    malformed = getattr(returns, "malformed", None)
    if malformed is None:
        return "no data"
    shown = ", ".join(str(line) for line in malformed[:SHOWN_LINES])
    return f"{len(malformed)} malformed rows: line {shown}" if malformed else ""


FLOW = Flow("pdca.recheck") >> recheck
