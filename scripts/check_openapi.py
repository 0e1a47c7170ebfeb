"""Lists what in one OpenAPI document breaks clients of an older one; exit status 1 if anything does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from scripts.openapi_changes import breaking_changes


def document_in(path: Path) -> dict[str, Any]:
    """The document in a file of YAML or JSON."""
    document: dict[str, Any] = yaml.load(path.read_text("utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return document


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/check-openapi", description=__doc__)
    parser.add_argument("old", type=Path, help="document that clients know, as docs/openapi-released.yaml")
    parser.add_argument("new", type=Path, help="document to check, as docs/openapi.yaml")
    given = parser.parse_args(arguments)

    found = breaking_changes(document_in(given.old), document_in(given.new), today=datetime.now(UTC).date())

    for change in found:
        print(change)
    count = f"{len(found)} breaking changes; CONTRIBUTING.md says what to do" if found else "compatible"
    print(f"{given.old} -> {given.new}: {count}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
