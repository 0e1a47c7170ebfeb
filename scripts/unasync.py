"""Generates `http_client/_sync` from `http_client/_async`; with --check it only reports stale files.

Every substitution must be used, so that the list does not outlive the code.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "pyoco_server" / "http_client"
SOURCE, TARGET = PACKAGE / "_async", PACKAGE / "_sync"

# Names that only the async form uses leave unused and unsorted imports behind; async generators have no `yield from`.
FIXES = ("--select", "F401,I,UP028", "--fix", "--unsafe-fixes", "--exit-zero", "--quiet")
SUBSTITUTIONS = [
    (r"The async client, written by hand\. .*(?=\"\"\")", "The blocking client, generated from `_async`."),
    (r"The async client of", "The blocking client of"),
    (r"between tasks", "between threads"),
    (r"await asyncio\.to_thread\(([\w.]+), ", r"\1("),
    (r"connection\.timing\.sleep_async or asyncio\.sleep", "connection.timing.sleep"),
    (r"AsyncGenerator\[(\w+(?:\.\w+)?), None\]", r"Generator[\1, None, None]"),
    (r"Awaitable\[(\w+)\]", r"\1"),
    (r"asynccontextmanager", "contextmanager"),
    (r"async (def|with|for)\b", r"\1"),
    (r"await ", ""),
    (r"__a(enter|exit|iter|next)__", r"__\1__"),
    (r"\banext\(", "next("),
    (r"\baclos(e|ing)\b", r"clos\1"),
    (r"\baiter_(bytes|raw)\b", r"iter_\1"),
    (r"\bhttp_client\._async\b", "http_client._sync"),
    (r"\bAsync(?=[A-Z])", ""),
]


def generated(source: Path, used: set[int]) -> str:
    """The blocking form of a source file, formatted; `used` collects the substitutions that applied."""
    text = source.read_text("utf-8")
    for number, (pattern, replacement) in enumerate(SUBSTITUTIONS):
        text, count = re.subn(pattern, replacement, text)
        if count:
            used.add(number)
    header = f"# Generated from _async/{source.name} by scripts/unasync. Do not edit.\n"
    fixed = _ruff(source.name, header + text, "check", *FIXES)
    return _ruff(source.name, fixed, "format", "--quiet")


def _ruff(name: str, text: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(TARGET / name), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def stale_files(*, write: bool) -> list[str]:
    """The names of files whose content is not current; `write` brings them up to date."""
    used: set[int] = set()
    expected = {source.name: generated(source, used) for source in sorted(SOURCE.glob("*.py"))}
    unused = [pattern for number, (pattern, _) in enumerate(SUBSTITUTIONS) if number not in used]
    if unused:
        raise SystemExit(f"unused substitutions: {unused}")
    actual = {path.name: path.read_text("utf-8") for path in TARGET.glob("*.py")}
    stale = sorted(name for name in expected | actual if expected.get(name) != actual.get(name))
    for name in stale if write else ():
        if name in expected:
            (TARGET / name).write_text(expected[name], "utf-8")
        else:
            (TARGET / name).unlink()
    return stale


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is stale")
    check = parser.parse_args().check
    stale = stale_files(write=not check)
    for name in stale:
        print(f"_sync/{name}: {'stale; run scripts/unasync' if check else 'written'}", file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
