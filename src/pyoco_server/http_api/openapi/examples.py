"""Examples of responses in the OpenAPI document, from `examples.yaml`."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml

JSON = "application/json"


@cache
def _examples() -> dict[str, dict[int, Any]]:
    """By operation (`GET /runs`) and status."""
    found: dict[str, dict[int, Any]] = yaml.safe_load(files(__package__).joinpath("examples.yaml").read_text("utf-8"))
    return found


def add_examples(document: dict[str, Any]) -> None:
    """Adds an example to each JSON response that has none of its own."""
    for name, by_status in _examples().items():
        method, path = name.split(" ")
        responses = document["paths"][path][method.lower()]["responses"]
        for status, example in by_status.items():
            responses[str(status)]["content"][JSON].setdefault("example", example)
