"""File names of wheels, their tags, and the order of versions."""

from __future__ import annotations

import pytest
from packaging.version import Version

from pyoco_server.domain.wheels.wheel import MAX_TAGS, Wheel, check_newer, parse_tags, parse_wheel_name
from pyoco_server.errors import InvalidRequest, WheelVersionConflict


def test_spellings_of_a_package_are_the_same_package() -> None:
    spelled = [f"{package}-1.0-py3-none-any.whl" for package in ("Demo_Pkg", "demo.pkg", "demo_pkg")]

    assert {parse_wheel_name(name).package for name in spelled} == {"demo-pkg"}


def test_a_file_name_contains_the_version_with_or_without_a_build_number() -> None:
    assert parse_wheel_name("demo-1.10.0-py3-none-any.whl").version == Version("1.10")
    assert parse_wheel_name("demo-2.0rc1-7_ubuntu-cp311-cp311-manylinux_2_17_x86_64.whl").version == Version("2.0rc1")


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".whl",
        "demo.whl",
        "demo-1.0.tar.gz",
        "demo-1.0-py3-none-any.WHL",
        "demo-one-py3-none-any.whl",
        "demo-1.0-py3-none.whl",
        "demo-1.0-x-py3-none-any.whl",
        "a__b-1.0-py3-none-any.whl",
        "../demo-1.0-py3-none-any.whl",
        "/demo-1.0-py3-none-any.whl",
        "dir\\demo-1.0-py3-none-any.whl",
        "demo-1.0-py3-none-any.whl\n",
        "dem o-1.0-py3-none-any.whl",
        "dèmo-1.0-py3-none-any.whl",
        f"{'d' * 200}-1.0-py3-none-any.whl",
    ],
)
def test_an_invalid_file_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_wheel_name(name)


def test_tags_are_joined_by_commas_and_each_counts_once() -> None:
    assert parse_tags("gpu, batch,gpu") == ("gpu", "batch")
    assert parse_tags("") == parse_tags("  ") == ()


@pytest.mark.parametrize("text", ["a b", "a,,b", "a,", "é", "a.b", "x" * 65, ",".join(map(str, range(MAX_TAGS + 1)))])
def test_an_invalid_tag_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_tags(text)


def stored(name: str) -> Wheel:
    return Wheel(name=name, size_bytes=1, bucket="b", nuid=name, modified=0.0, sha256_hex=None)


@pytest.mark.parametrize("version", ["1.1", "1.0.post1", "1.0.1", "2.0a1", "1.0+local"])
def test_a_newer_version_may_follow(version: str) -> None:
    check_newer(parse_wheel_name(f"demo-{version}-py3-none-any.whl"), [stored("demo-1.0-py3-none-any.whl")])


@pytest.mark.parametrize(
    "name",
    [
        "demo-1.10-py3-none-any.whl",
        "demo-1.10.0-py3-none-any.whl",
        "Demo-1.10-py3-none-any.whl",
        "demo-1.9-py3-none-any.whl",
        "demo-1.10rc1-py3-none-any.whl",
        "demo-1.10-2-py3-none-any.whl",
        "demo-1.10-cp312-cp312-win_amd64.whl",
    ],
)
def test_the_same_or_an_older_version_may_not_follow_under_any_file_name(name: str) -> None:
    present = [stored("demo-1.0-py3-none-any.whl"), stored("demo-1.10-py3-none-any.whl")]

    with pytest.raises(WheelVersionConflict, match=r"demo-1.10-py3-none-any.whl is registered"):
        check_newer(parse_wheel_name(name), present)


def test_other_packages_and_invalid_names_do_not_conflict() -> None:
    present = [stored("other-9-py3-none-any.whl"), stored("demo_extra-9-py3-none-any.whl"), stored("notes.txt")]

    check_newer(parse_wheel_name("demo-1.0-py3-none-any.whl"), present)
