"""The log of a run in a browser: hostile lines, long logs, search, following, links, download."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from pyoco_server.http_client import PyocoHttpClient
from support.browsers import Complaints, axe_violations

OpenPage = Callable[..., Page]

MANY, NEEDLE = 30_000, 20_123
MOST_ROWS = 120
HOSTILE = [
    "<script>document.title = 'owned'</script><img src=x onerror=alert(1)>",
    "\x1b[1;31mbold red\x1b[0m and \x1b]8;;javascript:alert(1)\x1b\\no link\x1b]8;;\x1b\\\x1b[2J",
    "user\u202egnp.exe, nul \x00, bell \x07",
    "漢字 and مرحبا",
]
LONG_CHARS = 1_000_000


def submit(api: httpx.Client, flow: str, **params: Any) -> str:
    run_id: str = api.post("/runs", json={"flow_name": flow, "params": params}).raise_for_status().json()["run_id"]
    return run_id


def finished(api: httpx.Client, flow: str, **params: Any) -> str:
    run_id = submit(api, flow, **params)
    with PyocoHttpClient(str(api.base_url), timeout=60.0) as client:
        assert client.wait(run_id, timeout_sec=120.0)["status"] == "COMPLETED"
    return run_id


@pytest.fixture(scope="module")
def many(deployment: str) -> str:
    """A run with a long log."""
    with httpx.Client(base_url=deployment, timeout=60.0) as api:
        return finished(api, "chatters", count=MANY, needle=NEEDLE)


def in_sight(page: Page) -> list[int]:
    """The numbers of the lines in the window."""
    numbers: list[int] = page.evaluate(
        """() => {
            const box = document.querySelector(".log-scroller").getBoundingClientRect();
            return [...document.querySelectorAll(".log-number")].filter((each) => {
                const own = each.getBoundingClientRect();
                return own.bottom > box.top + 1 && own.top < box.bottom - 1;
            }).map((each) => Number(each.dataset.number));
        }"""
    )
    return numbers


def line(page: Page, number: int) -> Any:
    return page.locator(f".log-line:has([data-number='{number}']) .log-text")


def test_hostile_lines_are_shown_and_have_no_effect(api: httpx.Client, open_page: OpenPage) -> None:
    run_id = finished(api, "prints", texts=HOSTILE, long=LONG_CHARS)

    page = open_page(f"#/runs/{run_id}/log?line=1")

    expect(line(page, 1)).to_contain_text(HOSTILE[0])
    expect(line(page, 2)).to_have_text(re.compile(r"^bold red and no link\s*$"))
    expect(line(page, 2).locator(".ansi-bold.ansi-1")).to_have_text("bold red")
    expect(line(page, 3)).to_contain_text("user‹U+202E›gnp.exe, nul ␀, bell ␇")
    assert page.locator(".log-text :is(script, img, a)").count() == 0
    assert "owned" not in page.title()
    assert len(line(page, 5).inner_text()) < 3000
    line(page, 5).get_by_role("button").click()
    expect(line(page, 5)).to_have_text(re.compile("x{22000}"))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert axe_violations(page) == []


def test_a_long_log_has_few_rows_in_the_document_and_every_line_can_be_reached(many: str, open_page: OpenPage) -> None:
    page = open_page(f"#/runs/{many}/log")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))

    expect(line(page, MANY)).to_contain_text(f"line {MANY} of many")
    page.locator(".log-scroller").focus()
    page.keyboard.press("Home")
    expect(line(page, 1)).to_contain_text("line 1 of many")
    assert in_sight(page)[0] == 1
    for share in (0.25, 0.5, 0.75):
        page.locator(".log-scroller").evaluate("(box, share) => { box.scrollTop = share * box.scrollHeight }", share)
        number = int(MANY * share) + 10
        expect(line(page, number)).to_contain_text(f"line {number} of many")
        assert page.locator(".log-row").count() <= MOST_ROWS
    page.locator(".log-scroller").focus()
    page.keyboard.press("End")
    expect(line(page, MANY)).to_be_in_viewport()

    assert in_sight(page)[-1] == MANY
    assert len([url for url in asked if "/logs" in url]) < 20


def test_a_turn_of_the_wheel_moves_the_lines_by_as_many_pixels(many: str, open_page: OpenPage) -> None:
    page = open_page(f"#/runs/{many}/log?line=1")
    expect(line(page, 1)).to_contain_text("line 1 of many")

    page.locator(".log-scroller").hover()
    page.mouse.wheel(0, 20 * 40)

    expect(line(page, 41)).to_be_in_viewport()
    page.wait_for_function("document.querySelector('.log-number[data-number=\"41\"]') !== null")
    assert in_sight(page)[0] in (40, 41)


def test_ctrl_f_searches_the_whole_log_and_not_only_what_is_in_sight(many: str, open_page: OpenPage) -> None:
    page = open_page(f"#/runs/{many}/log?line=5")
    expect(line(page, 5)).to_be_in_viewport()
    assert page.locator(f"[data-number='{NEEDLE}']").count() == 0

    page.keyboard.press("Control+f")
    page.keyboard.type("needle")

    expect(page.locator("mark")).to_have_text("Needle")
    expect(page.locator("mark")).to_be_in_viewport()
    expect(page.locator(".log-count")).to_have_text("1 of 1")
    assert f"line={NEEDLE}" in page.url
    assert "q=needle" in page.url
    assert page.locator(".log-row").count() <= MOST_ROWS


def test_n_goes_from_match_to_match_around_the_ends(many: str, open_page: OpenPage) -> None:
    page = open_page(f"#/runs/{many}/log?q=line%201000&line=1")
    count = page.locator(".log-count")
    expect(count).to_have_text("11 lines")  # 1000, and 10000 to 10009

    for key, number in (("n", 1000), ("n", 10_000), ("N", 1000), ("N", 10_009), ("n", 1000)):
        page.keyboard.press(key)

        expect(line(page, number)).to_be_in_viewport()
        expect(page).to_have_url(re.compile(f"line={number}(&|$)"))


def test_a_search_without_a_match_says_so(many: str, open_page: OpenPage) -> None:
    page = open_page(f"#/runs/{many}/log")

    page.get_by_role("searchbox").fill("NEEDLE")

    expect(page.locator(".log-count")).to_have_text("No match")


def test_task_and_level_choose_lines(api: httpx.Client, open_page: OpenPage) -> None:
    run_id = finished(api, "prints", texts=["one", "two"])
    page = open_page(f"#/runs/{run_id}/log")
    expect(page.locator(".log-row")).to_have_count(3)

    page.get_by_role("combobox", name="Task").select_option("greet")

    expect(page.locator(".log-row")).to_have_count(1)
    expect(line(page, 3)).to_contain_text("saying hello")
    expect(page.locator(".log-foot")).to_contain_text("1 of 3 lines")
    page.get_by_role("combobox", name="Level").select_option("ERROR")
    expect(page.get_by_text("No line has this task and level")).to_be_visible()
    page.get_by_role("button", name="Show all lines").click()
    expect(page.locator(".log-row")).to_have_count(3)


def test_the_end_of_a_growing_log_stays_in_sight_until_the_visitor_scrolls_up(
    api: httpx.Client, open_page: OpenPage, tmp_path: Path
) -> None:
    source = tmp_path / "lines"
    run_id = submit(api, "repeats", path=str(source))
    page = open_page(f"#/runs/{run_id}/log")
    expect(page.get_by_text("No output yet")).to_be_visible()

    with source.open("a") as file:

        def write(first: int, last: int) -> None:
            file.writelines(f"line {number}\n" for number in range(first, last + 1))
            file.flush()

        write(1, 200)
        expect(line(page, 200)).to_be_in_viewport()
        page.locator(".log-scroller").hover()
        page.mouse.wheel(0, -1000)
        expect(line(page, 200)).not_to_be_in_viewport()
        before = in_sight(page)
        write(201, 300)
        expect(page.get_by_role("button", name="100 new lines")).to_be_visible()
        assert in_sight(page)[:5] == before[:5]
        page.get_by_role("button", name="100 new lines").click()
        expect(line(page, 300)).to_be_in_viewport()
        write(301, 400)
        expect(line(page, 400)).to_be_in_viewport()
        file.write("end\n")
    expect(page.locator(".log-foot")).to_have_text(re.compile(r"401 lines · .*Download"))
    expect(page.get_by_role("button", name="Follow")).to_have_count(0)


def test_a_lost_connection_is_said_and_no_line_is_missed(
    api: httpx.Client, open_page: OpenPage, complaints: Complaints, tmp_path: Path
) -> None:
    complaints.allow("ERR_FAILED")
    source = tmp_path / "lines"
    source.write_text("one\n")
    run_id = submit(api, "repeats", path=str(source))
    is_away = True

    def perhaps(route: Route) -> None:
        route.abort() if is_away else route.continue_()

    page = open_page("#/runs")
    page.route("**/logs/stream*", perhaps)
    page.goto(page.url.partition("#")[0] + f"#/runs/{run_id}/log")

    expect(page.get_by_text("Connection lost. Connecting again…")).to_be_visible()
    with source.open("a") as file:
        file.write("two\n")
    is_away = False

    expect(page.get_by_text("Live again; no line was missed")).to_be_visible()
    expect(line(page, 2)).to_contain_text("two")
    with source.open("a") as file:
        file.write("end\n")


def test_a_line_has_a_link_and_copied_text_has_no_numbers(many: str, open_page: OpenPage) -> None:
    page = open_page(f"#/runs/{many}/log?line=777")
    expect(line(page, 777)).to_be_in_viewport()
    expect(page.locator(".log-target .log-number")).to_have_attribute("data-number", "777")

    page.locator("[data-number='779']").click()

    expect(page).to_have_url(re.compile("line=779$"))
    copied = page.evaluate(
        """() => {
            const row = (number) => document.querySelector(`.log-row:has([data-number="${number}"])`);
            getSelection().setBaseAndExtent(row(778), 0, row(779), row(779).childNodes.length);
            return getSelection().toString();
        }"""
    )
    assert copied.split("\n")[:2] == ["line 778 of many", "line 779 of many"]


def test_a_linked_line_between_lines_that_wrap_is_in_sight(api: httpx.Client, open_page: OpenPage) -> None:
    texts = ["x" * 500 if number % 3 else "short" for number in range(1, 151)]
    run_id = finished(api, "prints", texts=texts)

    page = open_page(f"#/runs/{run_id}/log?line=75")

    expect(line(page, 75)).to_be_in_viewport()
    assert 75 in in_sight(page)


def test_the_whole_log_is_downloaded_as_text(many: str, open_page: OpenPage) -> None:
    page = open_page(f"#/runs/{many}/log")

    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()

    assert download.value.suggested_filename == f"{many}.log"
    lines = Path(download.value.path()).read_text().splitlines()
    assert (len(lines), lines[NEEDLE - 1]) == (MANY, "here is the Needle")


@pytest.mark.parametrize(
    ("language", "theme", "width"), [("en", "light", 320), ("ja", "dark", 1280), ("ja", "light", 320)]
)
def test_the_log_is_accessible_in_both_languages_and_themes_and_on_small_screens(
    api: httpx.Client,
    open_page: OpenPage,
    language: str,
    theme: str,
    width: int,
) -> None:
    codes = (base + colour for base in (30, 40, 90, 100) for colour in range(8))
    colours = " ".join(f"\x1b[{code}m{code}\x1b[0m" for code in codes)
    run_id = finished(api, "prints", texts=[colours, "wanted " * 50])

    page = open_page(f"#/runs/{run_id}/log?q=wanted&line=2", language=language, theme=theme, width=width)

    expect(page.locator("mark").first).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert axe_violations(page) == []


def test_a_run_that_does_not_exist_is_said(open_page: OpenPage, complaints: Complaints) -> None:
    complaints.allow("status of 404")

    page = open_page("#/runs/0190a8c0-7d2e-7cc3-8b54-0d2f9a6c1e11/log")

    expect(page.get_by_role("alert").first).to_be_visible()
