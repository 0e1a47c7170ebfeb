"""Generated pages are current, and linked documents exist."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATOR = runpy.run_path(str(ROOT / "scripts" / "gen_docs.py"))
NAMES: tuple[str, ...] = GENERATOR["NAMES"]
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


@pytest.mark.parametrize("name", NAMES)
def test_a_generated_page_is_current(name: str) -> None:
    written = (ROOT / "docs" / name).read_text("utf-8")

    assert written == GENERATOR["page"](name), "run scripts/gen-docs"


@pytest.mark.parametrize("document", [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")], ids=lambda path: path.name)
def test_a_link_between_documents_resolves(document: Path) -> None:
    broken = [link for link in LINK.findall(document.read_text("utf-8")) if not (document.parent / link).exists()]

    assert broken == []
