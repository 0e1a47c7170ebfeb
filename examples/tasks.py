"""The tasks of flow.yaml: plain functions, one per step. Results must be representable as JSON."""

from __future__ import annotations

READINGS = {"Kyoto": [18.5, 21.0, 24.5], "Oslo": [3.0, 4.5]}


def fetch(city: str) -> list[float]:
    print(f"fetching the readings of {city}")
    return READINGS[city]


def average(readings: list[float]) -> float:
    return sum(readings) / len(readings)


def report(city: str, average: float) -> str:
    """`city` is a param of the run, `average` is the result of that task."""
    return f"{city}: {average:.1f} °C"
