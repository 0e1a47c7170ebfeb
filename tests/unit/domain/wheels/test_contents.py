"""Contents of wheels: accepted files, and files refused before they are unpacked."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.domain.wheels import contents
from pyoco_server.domain.wheels.contents import check_contents
from pyoco_server.domain.wheels.wheel import parse_wheel_name
from pyoco_server.errors import InvalidRequest
from support.wheels import NAME, described, large_wheel, wheel, zipped


def check(data: bytes, name: str = NAME) -> None:
    check_contents(io.BytesIO(data), len(data), parse_wheel_name(name))


def refused(data: bytes, why: str, name: str = NAME) -> None:
    with pytest.raises(InvalidRequest, match=why):
        check(data, name)


def test_a_wheel_is_accepted_compressed_or_stored() -> None:
    check(wheel())
    check(zipped({"demo.py": b"", **described()}, zipfile.ZIP_STORED))


def test_names_may_differ_in_spelling() -> None:
    check(wheel("Demo.Pkg", "1.0.0"), "demo_pkg-1.0-py3-none-any.whl")


def test_a_zip64_wheel_is_accepted(tmp_path: Path) -> None:
    path = large_wheel(tmp_path / NAME, 200_000)

    check(path.read_bytes())


def test_a_wheel_of_very_many_files_is_accepted() -> None:
    check(wheel(files={f"demo/{number}.py": b"" for number in range(66_000)}))


def test_a_wheel_with_more_files_than_any_package_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MAX_ENTRIES", 3)

    refused(wheel(), "more than 3 files")


def test_a_directory_too_large_to_load_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MAX_DIRECTORY_BYTES", 100)

    refused(wheel(), "its directory is too large")


@pytest.mark.parametrize("data", [b"", b"PK", b"no zip at all" * 100, b"\0" * 1000])
def test_bytes_that_are_no_zip_are_refused(data: bytes) -> None:
    refused(data, "is not a wheel")


@pytest.mark.parametrize("left", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_zip_is_refused(left: float) -> None:
    data = wheel(files={"demo/data.bin": bytes(range(256)) * 100})

    refused(data[: int(len(data) * left)], "is not a wheel")


def test_a_zip_with_extra_bytes_is_refused() -> None:
    refused(b"#!/bin/sh\n" + wheel(), "is not a wheel")
    refused(wheel() + b"more", "is not a wheel")


@pytest.mark.parametrize(
    "path",
    ["../evil.py", "demo/../../evil.py", "/etc/evil", "demo//x.py", "./demo.py", "C:/evil", "a\\b.py", "..", "x\ny.py"],
)
def test_a_file_that_would_leave_its_folder_is_refused(path: str) -> None:
    refused(wheel(files={path: b""}), "leave its folder")


@pytest.mark.parametrize("path", ["demo/" + "n" * 256, "demo/" + "ん" * 86, "a/" * 512 + "b"])
def test_a_file_with_an_invalid_name_is_refused(path: str) -> None:
    check(wheel(files={"demo/" + "n" * 255: b"", "a/" * 500 + "b": b""}))

    refused(wheel(files={path: b""}), "too long for file systems")


def test_a_link_is_refused() -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in described().items():
            archive.writestr(name, data)
        link = zipfile.ZipInfo("demo/link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")

    refused(target.getvalue(), "a link or a device")


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_files_whose_names_collide_on_a_disk_are_refused() -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in [*described().items(), ("demo.py", b"1"), ("demo.py", b"2")]:
            archive.writestr(name, data)

    refused(target.getvalue(), "two files of the same name")
    refused(wheel(files={"Demo.py": b""}), "two files of the same name")


def test_a_zip_bomb_is_refused() -> None:
    refused(wheel(files={"demo/zeros.bin": b"\0" * 40_000_000}), "out of all proportion")


def test_a_zip_bomb_with_overlapping_files_is_refused() -> None:
    data = wheel(files={f"demo/{number}.bin": bytes(5000) for number in range(50)})
    # Every directory entry points to the bytes of the first one, with its size.
    directory = data.rindex(b"PK\x05\x06")
    start = int.from_bytes(data[directory + 16 : directory + 20], "little")
    entries = bytearray(data[start:])
    at = 0
    while (at := entries.find(b"PK\x01\x02", at)) >= 0:
        entries[at + 20 : at + 24] = (100_000).to_bytes(4, "little")
        entries[at + 42 : at + 46] = bytes(4)
        at += 1

    refused(data[:start] + bytes(entries), "overlap")


@pytest.mark.parametrize("place", [10_000, 2**63 - 1, 2**64 - 1])
def test_a_file_outside_of_the_zip_is_refused(place: int) -> None:
    data = bytearray(wheel())
    entry = data.rindex(b"PK\x01\x02")
    name_bytes = int.from_bytes(data[entry + 28 : entry + 30], "little")
    large = struct.pack("<2HQ", 1, 8, place)
    data[entry + 30 : entry + 32] = len(large).to_bytes(2, "little")
    data[entry + 42 : entry + 46] = b"\xff" * 4
    data[entry + 46 + name_bytes : entry + 46 + name_bytes] = large
    end = data.rindex(b"PK\x05\x06")
    length = int.from_bytes(data[end + 12 : end + 16], "little") + len(large)
    data[end + 12 : end + 16] = length.to_bytes(4, "little")

    refused(bytes(data), "not before its directory")


def test_encryption_and_rare_compression_are_refused() -> None:
    refused(zipped({"demo.py": b"x", **described()}, zipfile.ZIP_LZMA), "a method")
    data = bytearray(wheel())
    at = data.index(b"PK\x01\x02")
    data[at + 8] |= 1
    refused(bytes(data), "encrypted")


@pytest.mark.parametrize("missing", ["METADATA", "WHEEL", "RECORD"])
def test_a_zip_without_required_wheel_files_is_refused(missing: str) -> None:
    files = {name: data for name, data in described().items() if not name.endswith(missing)}

    refused(zipped({"demo.py": b"", **files}), f"no {missing}")


def test_a_zip_needs_exactly_one_metadata_folder() -> None:
    refused(zipped({"demo.py": b""}), "0 folders")
    refused(wheel(files=described("other")), "2 folders")


@pytest.mark.parametrize(("package", "version"), [("other", "1.0"), ("demo", "1.1")])
def test_a_wheel_whose_metadata_contradicts_its_name_is_refused(package: str, version: str) -> None:
    refused(wheel(package, version), "a folder of another wheel")

    metadata = {"demo-1.0.dist-info/METADATA": f"Name: {package}\nVersion: {version}\n\n".encode()}
    refused(zipped({**described(), **metadata}), "its METADATA is of")


@pytest.mark.parametrize(
    "text", [b"", b"Name: demo\n", b"Name: demo\nName: demo\nVersion: 1.0\n", b"\xff\xfe", b"x" * 99]
)
def test_metadata_needs_exactly_one_name_and_version(text: bytes) -> None:
    refused(zipped({**described(), "demo-1.0.dist-info/METADATA": text}), "Name and Version once")


def test_metadata_with_an_overlong_version_number_is_refused() -> None:
    text = b"Name: demo\nVersion: " + b"1" * 5000

    refused(zipped({**described(), "demo-1.0.dist-info/METADATA": text}), "its METADATA is of")


def test_metadata_may_have_a_long_description() -> None:
    text = b"Name: demo\nVersion: 1.0\n\n" + b"A long description. " * 20_000

    check(zipped({**described(), "demo-1.0.dist-info/METADATA": text}))


@pytest.mark.parametrize("part", list(contents.MAX_LOADED_BYTES))
def test_what_pip_loads_into_memory_is_limited(part: str) -> None:
    text = described().get(f"demo-1.0.dist-info/{part}", b"") + b"\n" * (contents.MAX_LOADED_BYTES[part] + 1)

    refused(zipped({**described(), f"demo-1.0.dist-info/{part}": text}), f"its {part} is larger than")


def test_metadata_is_read_to_its_end() -> None:
    text = b"Name: demo\nVersion: 1.0\n" + b"Keywords: a\n" * 30_000 + b"Name: other\n"

    refused(zipped({**described(), "demo-1.0.dist-info/METADATA": text}), "Name and Version once")


def test_a_size_that_the_sender_made_smaller_does_not_help() -> None:
    path = "demo-1.0.dist-info/METADATA"
    text = described()[path] + b"x" * 600_000
    data = zipped({**described(), path: text})
    claimed = data.replace(struct.pack("<L", len(text)), struct.pack("<L", 100))

    refused(claimed, "is not a wheel")


@given(st.data())
def test_a_damaged_wheel_is_refused_or_accepted(data: st.DataObject) -> None:
    damaged = bytearray(wheel())
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))

    with suppress(InvalidRequest):
        check(bytes(damaged))


@pytest.mark.parametrize(
    "requirement",
    [
        "evil @ file:///tmp/evil",
        "evil@ https://example.org/evil.tar.gz",
        "evil @ git+https://example.org/evil; extra == 'dev'",
        "demo2\n evil @ file:///tmp/evil",
    ],
)
def test_a_requirement_from_an_address_is_refused_because_pip_would_build_it(requirement: str) -> None:
    text = f"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nrequires-dist: demo1>=2\nRequires-Dist: {requirement}\n"

    refused(zipped({**described(), "demo-1.0.dist-info/METADATA": text.encode()}), "requires a package from an address")
