"""`python -m bench.dashboard`: figures of the dashboard in Chromium, beside those of a static page of the same gateway.

Frame rates are those of a headless Chromium that draws in software: they compare, and do not say what a screen shows.
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
from playwright.sync_api import Browser, CDPSession, Page

from bench.browser import chromium
from bench.journal import progress
from bench.machine_load import CpuClock
from bench.report import write_into
from bench.systems import Ours

RUNS = 100_000
LINES = 1_000_000
LAYERS, LAYER = 40, 50
RATE_PER_SEC = 100
SCROLL_SEC = 4.0
CHANGES_SEC = 20.0
PATIENCE_MS = 120_000
ROUNDS = 3

# Scrolls an element evenly and says how long each frame took, and how many elements it had at most.
SCROLL = """async ([selector, seconds]) => {
  const element = selector ? document.querySelector(selector) : document.scrollingElement;
  const frames = []; let most = 0;
  const end = performance.now() + seconds * 1000;
  let last = await new Promise(requestAnimationFrame);
  while (performance.now() < end) {
    element.scrollTop += 400;
    if (element.scrollTop + element.clientHeight >= element.scrollHeight - 1) element.scrollTop = 0;
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - last); last = now;
    most = Math.max(most, document.querySelectorAll("*").length);
  }
  return {frames, most};
}"""
FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
LONG_TASKS = """() => {
  window.longTasks = [];
  new PerformanceObserver((list) => {
    for (const task of list.getEntries()) window.longTasks.push(task.duration);
  }).observe({type: "longtask", buffered: true});
}"""


@dataclass(slots=True)
class Figures:
    """The samples of each figure, by its title."""

    samples: dict[str, list[float]] = field(default_factory=dict)

    def add(self, title: str, value: float) -> None:
        self.samples.setdefault(title, []).append(value)

    def median(self, title: str) -> float:
        return statistics.median(self.samples[title])

    def ratio(self, title: str, over: str) -> float:
        return self.median(title) / self.median(over) if self.median(over) else float("nan")


class Measured(Ours):
    """The product, with room for a log of a million lines."""

    def _settings(self) -> dict[str, str]:
        return {"PYOCO_MAX_RUN_LOG_BYTES": str(2**30), "PYOCO_ACCESS_LOG_LEVEL": "OFF"}


class Scene:
    """The gateway under measurement, and calls of its API."""

    def __init__(self, stack: Measured) -> None:
        self.stack = stack
        self.base = f"http://127.0.0.1:{stack.port}/"
        self._client = httpx.Client(base_url=self.base, timeout=60)

    def send(self, method: str, path: str, body: Any = None, key: str = "") -> Any:
        answer = self._client.request(method, path, json=body, headers={"Idempotency-Key": key} if key else {})
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def wait_for_end(self, run_id: str) -> None:
        while self.send("GET", f"/runs/{run_id}")["status"] not in ("COMPLETED", "FAILED", "CANCELLED"):
            time.sleep(0.2)

    def cpu_seconds(self) -> float:
        times = psutil.Process(self.stack.gateway_pid).cpu_times()
        return float(times.user + times.system)


@contextmanager
def opened(browser: Browser, address: str) -> Iterator[tuple[Page, CDPSession]]:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    try:
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        session.send("Network.enable")
        page.goto(address)
        yield page, session
    finally:
        page.close()


def busy_seconds(session: CDPSession) -> float:
    """What the page has used of a processor, in its main thread."""
    metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])


def measure_first_view(browser: Browser, scene: Scene, figures: Figures) -> None:
    for name, place in (("page", ""), ("static page", "static/notices.txt")):
        sizes: dict[str, float] = {}
        with browser.new_context(viewport={"width": 1440, "height": 900}) as context:
            page = context.new_page()
            session = context.new_cdp_session(page)
            session.send("Network.enable")
            types: dict[str, str] = {}
            session.on("Network.responseReceived", partial(_note, types, "type"))
            session.on("Network.loadingFinished", partial(_note, sizes, "encodedDataLength"))
            page.goto(scene.base + place)
            if not place:
                page.locator("main h1, main h2").first.wait_for(timeout=PATIENCE_MS)
            page.wait_for_timeout(1500)
            figures.add(f"{name}: first contentful paint, ms", page.evaluate(FIRST_PAINT))
            figures.add(f"{name}: transferred, KB", sum(sizes.values()) / 1000)
            scripts = sum(size for request, size in sizes.items() if types.get(request) == "Script")
            figures.add(f"{name}: JavaScript transferred, KB", scripts / 1000)


def _note(noted: dict[str, Any], name: str, event: dict[str, Any]) -> None:
    noted[event["requestId"]] = event[name]


def measure_scroll(page: Page, selector: str, name: str, figures: Figures) -> None:
    seen = page.evaluate(SCROLL, [selector, SCROLL_SEC])
    frames = sorted(seen["frames"])
    figures.add(f"{name}: frames per second while scrolling", 1000 * len(frames) / sum(frames))
    figures.add(f"{name}: 95 % of frames within, ms", frames[int(len(frames) * 0.95)])
    figures.add(f"{name}: most elements in the document", seen["most"])


def measure_lists(browser: Browser, scene: Scene, figures: Figures) -> None:
    with opened(browser, scene.base + "static/notices.txt") as (page, _):
        measure_scroll(page, "", "static page", figures)
    with opened(browser, scene.base + "#/runs") as (page, _):
        page.locator("main a[href*='#/runs/']").first.wait_for(timeout=PATIENCE_MS)
        measure_scroll(page, scroller(page), f"{RUNS:,} runs", figures)


def scroller(page: Page) -> str:
    """Marks the element that scrolls most, and returns its selector."""
    page.evaluate(
        """() => {
          const all = [...document.querySelectorAll("main *")];
          const height = (one) => one.scrollHeight - one.clientHeight;
          const scrolls = (one) => /auto|scroll/.test(getComputedStyle(one).overflowY) && height(one) > 0;
          all.filter(scrolls).sort((a, b) => height(b) - height(a))[0]?.setAttribute("data-measured", "");
        }"""
    )
    return "[data-measured]"


def measure_log(browser: Browser, scene: Scene, run_id: str, figures: Figures) -> None:
    began = time.perf_counter()
    with opened(browser, f"{scene.base}#/runs/{run_id}/log?line={LINES // 2}") as (page, _):
        page.get_by_text(f"line {LINES // 2 - 1:09d}").first.wait_for(timeout=PATIENCE_MS)
        figures.add(f"log of {LINES:,} lines: opened in the middle, s", time.perf_counter() - began)
        measure_scroll(page, scroller(page), f"log of {LINES:,} lines", figures)
    read, token, lines = time.perf_counter(), "", 0
    while lines < LINES:
        answer = scene.send("GET", f"/runs/{run_id}/logs?limit=10000" + (f"&since_token={token}" if token else ""))
        token, lines = answer["next_token"], lines + len(answer["items"])
    figures.add("log: whole log read by pages, s", time.perf_counter() - read)
    searched, token = time.perf_counter(), ""
    while True:
        answer = scene.send("GET", f"/runs/{run_id}/logs/matches?q=999999" + (f"&since_token={token}" if token else ""))
        if answer["complete"]:
            break
        token = answer["next_token"]
    figures.add("log: whole log searched, s", time.perf_counter() - searched)


def measure_graph(browser: Browser, scene: Scene, run_id: str, figures: Figures) -> None:
    with opened(browser, scene.base) as (page, _):
        page.evaluate(LONG_TASKS)
        began = time.perf_counter()
        page.evaluate(f"location.hash = '#/runs/{run_id}'")
        page.locator("main canvas").wait_for(timeout=PATIENCE_MS)
        figures.add(f"graph of {LAYERS * LAYER:,} nodes: shown after, s", time.perf_counter() - began)
        page.wait_for_timeout(1500)
        longest = max(page.evaluate("longTasks"), default=0.0)
        figures.add(f"graph of {LAYERS * LAYER:,} nodes: longest task of the page, ms", longest)


def measure_changes(browser: Browser, scene: Scene, figures: Figures) -> None:
    """Processor time of page and gateway while runs are submitted and finish, with the page and without it."""
    with load(scene):
        time.sleep(2)
        without = share(scene.cpu_seconds)
        figures.add(f"{RATE_PER_SEC} runs/s, no page: gateway, % of a processor", 100 * without)
        for name, place in (("overview", "#/"), ("list of runs", "#/runs")):
            with opened(browser, scene.base + place) as (page, session):
                page.wait_for_timeout(3000)
                received: list[float] = []
                session.on("Network.dataReceived", partial(_collect, received))
                before, began = busy_seconds(session), time.perf_counter()
                gateway = share(scene.cpu_seconds, partial(_rest, page))
                took = time.perf_counter() - began
                title = f"{RATE_PER_SEC} runs/s, {name}"
                figures.add(f"{title}: gateway, % of a processor", 100 * gateway)
                figures.add(f"{title}: page, % of a processor", 100 * (busy_seconds(session) - before) / took)
                figures.add(f"{title}: received, KB/s", sum(received) / 1000 / took)
    with opened(browser, scene.base + "#/runs") as (page, session):
        page.wait_for_timeout(5000)
        before, began = busy_seconds(session), time.perf_counter()
        page.wait_for_timeout(10_000)
        idle = (busy_seconds(session) - before) / (time.perf_counter() - began)
        figures.add("nothing changes, list of runs: page, % of a processor", 100 * idle)


def _rest(page: Page, seconds: float) -> None:
    page.wait_for_timeout(seconds * 1000)


def _collect(received: list[float], event: dict[str, Any]) -> None:
    received.append(event["encodedDataLength"])


def share(read: Callable[[], float], wait: Callable[[float], object] = time.sleep) -> float:
    before, began = read(), time.perf_counter()
    wait(CHANGES_SEC)
    return float((read() - before) / (time.perf_counter() - began))


@contextmanager
def load(scene: Scene) -> Iterator[None]:
    """Submits runs evenly, in a thread."""
    stop = threading.Event()

    def submit() -> None:
        client, began, sent = httpx.Client(base_url=scene.base, timeout=30), time.monotonic(), 0
        while not stop.wait(max(0.0, began + sent / RATE_PER_SEC - time.monotonic())):
            client.post("/runs", json={"flow_name": "one", "params": {"x": sent}})
            sent += 1

    thread = threading.Thread(target=submit)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def big_graph(scene: Scene) -> str:
    """An execution of layers of nodes, each with two predecessors."""
    nodes = [f"n{layer}_{place}" for layer in range(LAYERS) for place in range(LAYER)]
    edges = [
        [f"n{layer - 1}_{(place + step) % LAYER}", f"n{layer}_{place}"]
        for layer in range(1, LAYERS)
        for place in range(LAYER)
        for step in (0, 7)
    ]
    scene.send("PUT", "/graphs/big", {"nodes": nodes, "edges": edges})
    execution: str = scene.send("POST", "/executions", {"graphId": "big"}, key="big-graph")["executionId"]
    scene.send("POST", f"/executions/{execution}/start", key="big-graph-start")
    return execution


def table(figures: Figures) -> str:
    lines = ["| figure | median | of |", "|---|---|---|"]
    for title, samples in figures.samples.items():
        low, high = min(samples), max(samples)
        lines.append(f"| {title} | {figures.median(title):,.3g} | {len(samples)} ({low:,.3g}–{high:,.3g}) |")
    for title, over, name in RATIOS:
        lines.append(f"| {title} ÷ {over}: {name} | {figures.ratio(f'{title}: {name}', f'{over}: {name}'):.2f} | |")
    return "\n".join(lines)


CHANGING = f"{RATE_PER_SEC} runs/s"
RATIOS = (
    ("page", "static page", "first contentful paint, ms"),
    (f"{RUNS:,} runs", "static page", "frames per second while scrolling"),
    (f"log of {LINES:,} lines", "static page", "frames per second while scrolling"),
    (f"{CHANGING}, overview", f"{CHANGING}, no page", "gateway, % of a processor"),
    (f"{CHANGING}, list of runs", f"{CHANGING}, no page", "gateway, % of a processor"),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench-dashboard", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table into a Markdown page")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    figures, stack, clock = Figures(), Measured(), CpuClock.read()
    try:
        stack.start("interval", worker_tags=["default"])
        scene = Scene(stack)
        progress(f"storing {RUNS:,} runs")
        stack.fill(0, RUNS)
        progress(f"printing {LINES:,} lines")
        log = scene.send("POST", "/runs", {"flow_name": "prints", "params": {"lines": LINES}})["run_id"]
        scene.wait_for_end(log)
        graph = big_graph(scene)
        with chromium() as browser:
            for number in range(asked.rounds):
                progress(f"round {number + 1} of {asked.rounds}")
                measure_first_view(browser, scene, figures)
                measure_lists(browser, scene, figures)
                measure_log(browser, scene, log, figures)
                measure_graph(browser, scene, graph, figures)
                measure_changes(browser, scene, figures)
    finally:
        stack.stop()
    others = clock.others_share(CpuClock.read())
    # Not all processes of a browser are waited for, so part of this is its own.
    results = f"{table(figures)}\n\nOther programs, and parts of the browser, used {others:.0%} of the machine."
    print(results)
    if asked.markdown:
        write_into(asked.markdown, results)
    if asked.json:
        asked.json.write_text(json.dumps(figures.samples, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
