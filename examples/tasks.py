"""The tasks of flow.yaml: plain functions, one per step. What a function returns must be JSON to be kept."""

from __future__ import annotations

READINGS = {"Kyoto": [18.5, 21.0, 24.5], "Oslo": [3.0, 4.5]}


def fetch(city: str) -> list[float]:
    print(f"fetching the readings of {city}")
    return READINGS[city]


def average(readings: list[float]) -> float:
    return sum(readings) / len(readings)


def report(city: str, average: float) -> str:
    """`city` is a param of the run, `average` is what the task of that name returned."""
    return f"{city}: {average:.1f} °C"
