"""The rows of the index of tags; none is compared with the peer, which has no such thing, but with a list or an index
that has less to do.
"""

from bench.row import Row, at_most

# What is read in order costs a page; what has to be looked for has only the bound on a page's work.
READ_IN_ORDER = {
    "common": "a common tag",
    "rare": "a rare tag",
    "often": "two common tags",
    "status": "a common tag and a rare status",
    "rare_status": "a rarer tag and a rare status",
    "deep": "a common tag, half-way down",
}
LOOKED_FOR = {
    "seldom": "two tags that seldom meet",
    "eight": "eight tags",
    "never": "two common tags that never meet",
}


def tag_rows() -> list[Row]:
    jobs = "jobs?limit=50 in the index, 100,000 with 20 tags each (quick: 5,000)"
    return [
        Row(key="tags.all", title=f"{jobs}, no filter, p50", unit="ms", better="lower"),
        *(
            Row(
                key=f"tags.{name}",
                title=f"{jobs}, {words}, p50 beside no filter",
                unit="×",
                better="lower",
                budget=at_most(f"tags.{name}", 3, "× no filter") if name in READ_IN_ORDER else None,
            )
            for name, words in (READ_IN_ORDER | LOOKED_FOR).items()
        ),
        Row(
            key="tags.slowest",
            title="the slowest page to the end of two common tags that never meet",
            unit="ms",
            better="lower",
        ),
        Row(
            key="tags.labels",
            title="100 tags with a prefix and their counts, p50 beside a page of jobs",
            unit="×",
            better="lower",
            budget=at_most("tags.labels", 3, "× a page of jobs"),
        ),
        *_taking_in(),
    ]


def _taking_in() -> list[Row]:
    new, changed = "new jobs with 20 tags into the index, processor time", "changes of their status, processor time"
    return [
        Row(key="tags.put", title=new, unit="jobs/s", better="higher"),
        Row(key="tags.put.share", title=f"{new} / with one tag", unit="×", better="higher"),
        Row(key="tags.move", title=changed, unit="jobs/s", better="higher"),
        Row(key="tags.move.share", title=f"{changed} / with one tag", unit="×", better="higher"),
        Row(key="tags.file", title="the index file, per job with 20 tags", unit="KiB", better="lower"),
        Row(key="tags.file.one", title="the index file, per job with one tag", unit="KiB", better="lower"),
    ]
