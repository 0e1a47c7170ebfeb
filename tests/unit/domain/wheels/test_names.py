"""File names of wheels and their tags."""

from __future__ import annotations

import pytest
from packaging.version import Version

from pyoco_server.domain.wheels.wheel import MAX_TAGS, parse_tags, parse_wheel_name
from pyoco_server.errors import InvalidRequest


def test_spellings_of_a_package_are_the_same_package() -> None:
    spelled = [f"{package}-1.0-py3-none-any.whl" for package in ("Demo_Pkg", "demo.pkg", "demo_pkg")]

    assert {parse_wheel_name(name).package for name in spelled} == {"demo-pkg"}


def test_a_name_says_the_version_with_or_without_a_build_number() -> None:
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
def test_what_is_not_the_plain_name_of_a_wheel_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_wheel_name(name)


def test_tags_are_joined_by_commas_and_each_counts_once() -> None:
    assert parse_tags("gpu, batch,gpu") == ("gpu", "batch")
    assert parse_tags("") == parse_tags("  ") == ()


@pytest.mark.parametrize("text", ["a b", "a,,b", "a,", "é", "a.b", "x" * 65, ",".join(map(str, range(MAX_TAGS + 1)))])
def test_what_is_no_tag_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_tags(text)
