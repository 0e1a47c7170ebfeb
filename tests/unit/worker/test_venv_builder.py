"""The reason of a failed installation: pip's messages without passwords; and what was installed."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

from pyoco_server.worker.wheels.venv_builder import VenvBuilder, _reason


@pytest.mark.parametrize(
    "address",
    ["https://ann:secret@index.test/simple", "http://secret@proxy.test:8080", "git+ssh://ann:se/cr:secret@git.test/x"],
)
def test_passwords_in_addresses_are_hidden(address: str) -> None:
    reason = _reason("", f"ERROR: cannot reach '{address}' today")

    assert "secret" not in reason
    assert reason.startswith("ERROR: cannot reach")
    assert ".test" in reason


def test_the_end_of_a_password_is_hidden_in_a_shortened_text() -> None:
    reason = _reason("", f"https://ann:{'secret' * 100}@index.test/simple")

    assert reason == "https://***@index.test/simple"


def test_a_conflict_is_reported_with_its_addresses_hidden() -> None:
    output = "Looking\nThe conflict is caused by:\n  a @ https://ann:secret@index.test/a.whl\n\nTo fix this"

    assert _reason(output, "ERROR") == "ERROR\nThe conflict is caused by:\n  a @ https://***@index.test/a.whl"


def test_what_is_installed_is_found_without_reading_the_metadata_of_wheels(tmp_path: Path) -> None:
    builder = VenvBuilder(tmp_path, [], {}, 60)
    packages = builder._packages()
    (packages / "demo_one-1.0.dist-info").mkdir(parents=True)
    (packages / "bomb-1.0.egg-info").mkdir()
    with (packages / "bomb-1.0.egg-info" / "PKG-INFO").open("wb") as bomb:
        bomb.truncate(512 * 1024**2)
    wanted = {canonicalize_name(name): Version(version) for name, version in {"demo-one": "1", "absent": "2"}.items()}
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    missing = builder.missing(wanted)

    assert missing == ["absent"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most < 64 * 1024
