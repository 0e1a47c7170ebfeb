"""Jobs whose gateways, worker and broker are killed with -9 in turn, while others follow, tag and delete them.

What is killed next follows from a seed; each kill waits until every follower has heard more, so that it meets all of
them at work. What must be so is looked at when every job has ended.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from support.effort import chosen_seed
from support.followers import Follower, SdkFollower, SocketFollower
from support.insistent import Caller, Tagger
from support.killable import VICTIMS, System

# How many numbers each follower has heard before a kill, and how many more before the next one.
ENOUGH_LINES = 10
ENOUGH_SEC = 9.0
# At 50,000 lines and more in a second this is over soon; whoever follows it is slower.
FLOOD = 60_000
PATIENCE_SEC = 60.0
ENDS = ("completed", "failed", "canceled")


class Story:
    """The jobs of the test, and everybody who has to do with them."""

    def __init__(self, system: System, folder: Path, chance: random.Random) -> None:
        self.system, self.chance, self.caller = system, chance, Caller(system)
        self.end, never = folder / "end", folder / "never"
        self.followed = [self.caller.submit(self.end, tags=["followed"]) for _ in range(2)]
        # To be deleted: while they run, while they wait for a worker that is never there, and as they end.
        self.doomed = [self.caller.submit(never, tags=["doomed"]) for _ in range(2)]
        self.doomed.append(self.caller.submit(never, tags=["doomed"], tag="nobody"))
        self.contested = [self.caller.submit(self.end, more, tags=["contested"]) for more in (0, 2, 4, 8)]
        self.jobs = [*self.followed, *self.doomed, *self.contested]
        kinds: list[type[Follower]] = [SdkFollower, SocketFollower]
        self.followers = [
            kind(job_id, system.addresses[turn:] + system.addresses[:turn])
            for job_id in self.followed
            for turn, kind in enumerate(kinds)
        ]
        self.taggers = [Tagger(system, self.jobs, name, random.Random(chance.random())) for name in ("ann", "bo")]

    def move_on(self) -> None:
        """Return when every follower has heard more."""
        for follower in self.followers:
            follower.wait_for(len(follower.heard) + ENOUGH_LINES)

    def kills(self, crowd: ThreadPoolExecutor) -> list[Future[httpx.Response]]:
        """Everything is killed in turn, once at least; meanwhile jobs are deleted."""
        began, deleted, to_delete = time.monotonic(), list[Future[httpx.Response]](), list(self.doomed)
        left = self.chance.sample(VICTIMS, len(VICTIMS))
        # On a slow machine there are fewer kills, rather than no end.
        while left or time.monotonic() - began < ENOUGH_SEC:
            self.move_on()
            if to_delete:
                deleted.append(self._delete(crowd, to_delete.pop()))
            self.system.kill(left.pop() if left else self.chance.choice(VICTIMS))
        self.move_on()
        # Whether these are finished already when they are deleted is anybody's guess, while a gateway dies over it.
        self.end.touch()
        deleted += [self._delete(crowd, job_id, first) for first, job_id in enumerate(self.contested)]
        self.system.kill("gateway-0")
        return deleted

    def _delete(self, crowd: ThreadPoolExecutor, job_id: str, first: int = 0) -> Future[httpx.Response]:
        return crowd.submit(Caller(self.system, first).done, "DELETE", f"/jobs/{job_id}")


@contextmanager
def told(system: System, folder: Path, chance: random.Random) -> Iterator[Story]:
    story = Story(system, folder, chance)
    try:
        yield story
    finally:
        for tagger in story.taggers:
            tagger.stop()
        for follower in story.followers:
            follower.give_up()


def ended(client: httpx.Client, job_id: str) -> dict[str, Any]:
    """The job once it is over: none goes on for ever."""

    def ask() -> dict[str, Any]:
        shown: dict[str, Any] = client.get(f"/jobs/{job_id}").raise_for_status().json()
        return shown

    until(lambda: ask()["status"] in ENDS, True)
    return ask()


def until(ask: Callable[[], Any], wanted: Any) -> None:
    """Return as soon as the answer is what is wanted: lists come a moment later."""
    end = time.monotonic() + PATIENCE_SEC
    while (answer := ask()) != wanted:
        assert time.monotonic() < end, (answer, wanted)
        time.sleep(0.02)


def whole_log(client: httpx.Client, job_id: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    query: dict[str, str] = {"limit": "10000"}
    while True:
        page = client.get(f"/jobs/{job_id}/logs", params=query).raise_for_status().json()
        entries += page["entries"]
        if page["complete"]:
            return entries
        query["sinceToken"] = page["nextToken"]


def text(client: httpx.Client, job_id: str, **headers: str) -> httpx.Response:
    return client.get(f"/jobs/{job_id}/logs", headers={"Accept": "text/plain", **headers}).raise_for_status()


def check_log(entries: list[dict[str, Any]]) -> None:
    """Each attempt counts from one without a gap; all but the last may be cut, and that one says how far it came."""
    assert [entry["n"] for entry in entries] == list(range(1, len(entries) + 1))
    attempts = [entry["attempt"] for entry in entries]
    assert attempts == sorted(attempts)
    for attempt in set(attempts):
        said = [entry["message"] for entry in entries if entry["attempt"] == attempt]
        if attempt == attempts[-1]:
            assert said.pop() == f"wrote {len(said)}"
        assert said == [str(number) for number in range(1, len(said) + 1)]


def check_lists(client: httpx.Client, jobs: dict[str, dict[str, Any]], put_away: set[str]) -> None:
    """Lists by tag, and the counts of tags, are those of the jobs that are still listed."""
    listed = {job_id: job for job_id, job in jobs.items() if job_id not in put_away}
    counts = Counter(tag for job in listed.values() for tag in job["tags"])
    until(partial(tag_counts, client), counts)
    for tag in counts:
        wanted = sorted((job_id for job_id, job in listed.items() if tag in job["tags"]), reverse=True)
        until(partial(ids_with, client, tag), wanted)


def tag_counts(client: httpx.Client) -> dict[str, int]:
    told = client.get("/tags", params={"limit": 1000}).raise_for_status().json()
    return {one["tag"]: one["count"] for one in told["tags"]}


def ids_with(client: httpx.Client, tag: str) -> list[str]:
    told = client.get("/jobs", params={"tag": tag}).raise_for_status().json()
    return [job["id"] for job in told["jobs"]]


def check_deleted(jobs: dict[str, dict[str, Any]], story: Story) -> set[str]:
    """Of those that were deleted: none ends completed, unless it was before, and then it is put away. Which are?"""
    assert {jobs[job_id]["status"] for job_id in story.doomed} == {"canceled"}
    assert all("cancelRequestedAt" in jobs[job_id] for job_id in story.doomed)
    completed = {job_id for job_id in story.contested if jobs[job_id]["status"] == "completed"}
    assert all(jobs[job_id]["status"] == "canceled" for job_id in story.contested if job_id not in completed)
    return completed


def check(story: Story, before: dict[str, Any]) -> None:
    for client in story.system.clients:
        jobs = {job_id: ended(client, job_id) for job_id in story.jobs}
        assert all(jobs[job_id]["status"] == "completed" for job_id in story.followed)
        logs = {job_id: whole_log(client, job_id) for job_id in story.followed}
        for entries in logs.values():
            check_log(entries)
        for follower in story.followers:
            assert follower.heard == logs[follower.job_id]
        for job_id, job in jobs.items():
            for tagger in story.taggers:
                assert [tag for tag in job["tags"] if tag in tagger.labels] == tagger.tags[job_id]
        check_lists(client, jobs, check_deleted(jobs, story))
        check_still_good(client, story.followed[0], logs[story.followed[0]], before)


def taken(client: httpx.Client, job_id: str) -> dict[str, Any]:
    """A token and a range, as somebody keeps them."""
    page = client.get(f"/jobs/{job_id}/logs", params={"limit": 5}).raise_for_status().json()
    part = text(client, job_id, Range="bytes=3-17")
    assert part.status_code == 206
    return {"token": page["nextToken"], "part": part.text}


def check_still_good(client: httpx.Client, job_id: str, entries: list[dict[str, Any]], before: dict[str, Any]) -> None:
    query = {"sinceToken": before["token"], "limit": "10"}
    assert client.get(f"/jobs/{job_id}/logs", params=query).json()["entries"] == entries[5:15]
    whole = text(client, job_id)
    assert whole.text == "".join(f"{entry['message']}\n" for entry in entries)
    assert text(client, job_id, Range="bytes=3-17").text == before["part"] == whole.text[3:18]


def test_jobs_are_followed_tagged_and_deleted_whatever_is_killed(tmp_path: Path) -> None:
    number = chosen_seed()
    try:
        with (
            System(tmp_path) as system,
            ThreadPoolExecutor(12) as crowd,
            told(system, tmp_path, random.Random(number)) as story,
        ):
            tagging = [crowd.submit(tagger.work) for tagger in story.taggers]
            story.move_on()
            before = taken(system.clients[1], story.followed[0])
            deleted = story.kills(crowd)
            assert all(one.result().status_code == 204 for one in deleted)
            assert [follower.ended() for follower in story.followers] == ["completed"] * len(story.followers)
            for tagger in story.taggers:
                tagger.stop()
            assert all(one.result() > 0 for one in tagging)
            assert all(follower.cuts for follower in story.followers if isinstance(follower, SocketFollower))
            check(story, before)
    except BaseException as error:
        error.add_note(f"again with PYOCO_TEST_SEED={number}")
        raise


def test_a_log_that_is_written_as_fast_as_it_goes_is_heard_whole_whatever_is_killed(tmp_path: Path) -> None:
    with System(tmp_path) as system, ExitStack() as following:
        job = {"flow": "floods", "parameters": {"count": FLOOD}}
        job_id = Caller(system).done("POST", "/jobs", job).json()["id"]
        followers = [SdkFollower(job_id, system.addresses), SocketFollower(job_id, system.addresses)]
        for follower in followers:
            following.callback(follower.give_up)
        # The SDK hears line by line and is the last to be through.
        for victim in ("worker", "gateway-0", "broker"):
            followers[0].wait_for(len(followers[0].heard) + 500)
            system.kill(victim)

        assert [follower.ended() for follower in followers] == ["completed"] * 2
        entries = whole_log(system.clients[1], job_id)
        check_log(entries)
        assert all(follower.heard == entries for follower in followers)
