"""The chart of the watch transports: one bar per figure, in proportion, as valid SVG."""

import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from bench.transport_rows import FIGURES, WAYS, drawn, main, way_rows
from bench.transports import WAYS as MEASURED

SVG = "{http://www.w3.org/2000/svg}"


def figures(**changed: float) -> dict[str, float]:
    return {f"ways.{way}.{figure}": 10.0 for way in WAYS for figure in FIGURES} | changed


def widths(picture: str) -> list[float]:
    return [float(bar.attrib["width"]) for bar in Xml.fromstring(picture).iter(f"{SVG}rect")]


def test_every_measured_transport_has_its_rows() -> None:
    assert WAYS.keys() == MEASURED.keys()
    assert {row.key for row in way_rows()} == {*figures(), "ways.nobody.cpu"}


def test_bars_are_proportional_to_their_figures() -> None:
    first, second, *_ = widths(drawn(figures(**{"ways.poll02.late_p50": 5.0})))

    assert second == pytest.approx(first / 2, abs=0.1)


def test_a_zero_figure_has_a_bar() -> None:
    assert min(widths(drawn(dict.fromkeys(figures(), 0.0)))) > 0


def test_results_in_json_are_drawn_into_a_file(tmp_path: Path) -> None:
    rows = [{"key": key, "ours": {"median": value}} for key, value in figures().items()]
    source, picture = tmp_path / "ways.json", tmp_path / "ways.svg"
    source.write_text(json.dumps({"rows": [*rows, {"key": "sse.p50", "ours": None}]}))

    main([str(source), str(picture)])

    assert len(widths(picture.read_text())) == len(WAYS) * len(FIGURES)
