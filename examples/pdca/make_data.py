"""Makes the returns of the example strategies, always the same: `python examples/pdca/make_data.py`."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from random import Random

# The mean return of a day and its deviation.
STRATEGIES = {
    "strat.meanrev.m1": (0.0012, 0.008),
    "strat.trend.h1": (0.0009, 0.010),
    "strat.breakout.d1": (-0.0035, 0.018),
    "strat.carry.d1": (0.0004, 0.003),
}
FIRST, DAYS = date(2025, 1, 1), 400


def main() -> None:
    for name, (mean, deviation) in STRATEGIES.items():
        random = Random(name)
        days = (FIRST + timedelta(days=number) for number in range(DAYS))
        rows = [f"{day},{random.gauss(mean, deviation):.6f}" for day in days if day.weekday() < 5]
        (Path(__file__).parent / f"{name}.csv").write_text("\n".join(("date,return", *rows, "")), "utf-8")


if __name__ == "__main__":
    main()
