"""Japanese for the English texts of the code. English stays in the code at its place, and is the key of the catalogues.

A new text needs a line in the module of its area; tests/unit/japanese lists what is missing. The catalogues are imported by the
first text that is shown in Japanese, so English costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from pyoco_server.japanese.catalogue import Catalogue

# By area: the modules of its folder, each with its TEXTS.
AREAS = {
    # What is wrong, what happened: the details of errors, and what programs print.
    "messages": (
        "access",
        "airflow",
        "broker",
        "command_line",
        "executions",
        "flow_yaml",
        "graphs",
        "pdca",
        "rechecks",
        "requests",
        "sdk",
        "settings",
        "strategies",
        "system",
        "usage",
        "validation",
        "wheels",
        "worker",
    ),
    # `--help` of the four programs.
    "commands": ("client", "programs"),
    # The OpenAPI document.
    "openapi": (
        "access",
        "audit",
        "common",
        "executions",
        "fleet",
        "jobs",
        "overview",
        "rechecks",
        "runs",
        "strategies",
    ),
}


def is_japanese_locale(environ: Mapping[str, str], *first: str) -> bool:
    """Whether the locale in this environment is Japanese; variables with the names `first` have precedence over it."""
    locales = (environ.get(name, "") for name in (*first, "LC_ALL", "LC_MESSAGES", "LANG"))
    return next((locale for locale in locales if locale), "").lower().startswith("ja")


def japanese(text: str, area: str = "messages") -> str:
    """The text in Japanese, paragraph by paragraph; what has no translation stays English."""
    if "\n" not in text:
        return catalogue(area).translate(text)
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    translated = [catalogue(area).translate(paragraph) for paragraph in paragraphs]
    return text if translated == paragraphs else "\n\n".join(translated)


@cache
def catalogue(area: str) -> Catalogue:
    """All texts of an area."""
    texts: dict[str, str] = {}
    for module in AREAS[area]:
        texts |= import_module(f"{__name__}.{area}.{module}").TEXTS
    return Catalogue(texts)
