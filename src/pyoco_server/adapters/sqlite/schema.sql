-- The run index. A cache: an unusable file is deleted and rebuilt from the snapshot bucket.
-- Raise SCHEMA_VERSION in files.py with every change here: there are no migrations, only new files.

-- A partition holds the runs that share status, tenant and archived. A list merges the few partitions that its query
-- allows, each already in order, so one index per filter serves it with any status and tenant. Counting runs is adding
-- up partitions.
CREATE TABLE partitions (
    partition INTEGER PRIMARY KEY,
    status TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    archived INTEGER NOT NULL,
    runs INTEGER NOT NULL DEFAULT 0,
    UNIQUE (status, tenant_id, archived)
);

-- `number` stands for the run in posting lists and steps. `run_key` is the order of jobs (`domain.queries.jobs.order_of`).
-- `changed` is the sequence of the last change that a list can show; a heartbeat leaves it as it is.
-- `error` is the text of the summary, folded, for searches.
-- `steps` is the number of stored steps: the many runs without any need no lookup.
-- `checksum` is the CRC-32 of the summary, which is sent as it is.
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    run_key BLOB NOT NULL,
    version INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    partition INTEGER NOT NULL,
    flow TEXT NOT NULL,
    tag TEXT NOT NULL,
    updated_at REAL NOT NULL,
    submitted_at REAL NOT NULL,
    ended_at REAL,
    error TEXT,
    steps INTEGER NOT NULL,
    summary BLOB NOT NULL,
    checksum INTEGER NOT NULL
);

-- `submitted_at` ends the indexes of lists, which filter by it without a look at the run.
CREATE UNIQUE INDEX by_id ON runs (run_id);
CREATE INDEX by_submission ON runs (submitted_at);
CREATE INDEX by_key ON runs (partition, run_key, submitted_at);
CREATE INDEX by_update ON runs (partition, updated_at, run_id, submitted_at);
CREATE INDEX by_flow ON runs (partition, flow, updated_at, run_id, submitted_at);
CREATE INDEX by_tag ON runs (partition, tag, updated_at, run_id, submitted_at);
CREATE INDEX by_flow_and_tag ON runs (partition, flow, tag, updated_at, run_id, submitted_at);
-- A search reads the errors in the order of the list, each from the index alone.
CREATE INDEX by_error ON runs (partition, updated_at, run_id, submitted_at, flow, tag, error) WHERE error IS NOT NULL;
CREATE INDEX by_change ON runs (changed, run_id);
CREATE INDEX by_end ON runs (ended_at, run_id) WHERE ended_at IS NOT NULL;

-- A posting list per tenant, archived and term (a label or the digest of a workflow YAML); an empty list has no row.
-- Not per status: a run changes its status three times, and its up to 64 labels hardly ever.
CREATE TABLE posting_lists (
    list INTEGER PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    archived INTEGER NOT NULL,
    term TEXT NOT NULL,
    runs INTEGER NOT NULL DEFAULT 0,
    UNIQUE (tenant_id, archived, term)
);

CREATE INDEX by_term ON posting_lists (archived, term, tenant_id);

-- The run numbers of a list in blocks of 4096; `posting_lists.py` has the encoding of `members`.
CREATE TABLE postings (
    list INTEGER NOT NULL,
    block INTEGER NOT NULL,
    members BLOB NOT NULL,
    PRIMARY KEY (list, block)
) WITHOUT ROWID;

-- Bounds of a block of run numbers: a list by labels or ranges is read between the bounds of the blocks that can hold
-- its runs. They only widen.
CREATE TABLE blocks (
    block INTEGER PRIMARY KEY,
    oldest_update REAL NOT NULL,
    newest_update REAL NOT NULL,
    oldest_key BLOB NOT NULL,
    newest_key BLOB NOT NULL,
    first_submission REAL NOT NULL,
    last_submission REAL NOT NULL
);

-- A step queue holds the steps that share kind, flow and tenant, in an order of their own; an empty one has no row.
-- Steps of an execution without a graph are in queues that are not claimable.
CREATE TABLE step_queues (
    queue INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    claimable INTEGER NOT NULL,
    flow TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    UNIQUE (kind, claimable, flow, tenant_id)
);

-- `at` orders a queue before the id: the lease end of a leased step, the beginning of the wait of a waiting one, and 0
-- for ready ones, which are ordered by id alone.
CREATE TABLE steps (
    run INTEGER NOT NULL,
    place INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    queue INTEGER NOT NULL,
    at REAL NOT NULL,
    due_at REAL,
    node_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    wait_key TEXT,
    worker_id TEXT,
    prompt BLOB,
    PRIMARY KEY (run, place)
) WITHOUT ROWID;

CREATE INDEX by_queue ON steps (queue, at, run_id, place);
CREATE INDEX by_due ON steps (due_at, run_id, place) WHERE due_at IS NOT NULL;

-- What has happened to runs since this file was created, removed runs included: some hundred rows per tenant.
CREATE TABLE histograms (
    tenant_id TEXT NOT NULL,
    name TEXT NOT NULL,
    label TEXT NOT NULL,
    bucket INTEGER NOT NULL,
    runs INTEGER NOT NULL,
    seconds REAL NOT NULL,
    PRIMARY KEY (tenant_id, name, label, bucket)
) WITHOUT ROWID;

-- Time series of the stored runs (`domain.queries.stats`). Level 0 counts all runs, 1 those of a tenant, 2 those of a
-- tenant and tag, 3 those of a tenant, tag and flow; what a level does not tell apart is empty.
CREATE TABLE series (
    series INTEGER PRIMARY KEY,
    level INTEGER NOT NULL,
    flow TEXT NOT NULL,
    tag TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    UNIQUE (level, flow, tag, tenant_id)
);

-- An hour of a series: the counters of the whole hour, and those of its minutes. `stats.py` has the encoding. An hour
-- of zeros has no row.
CREATE TABLE hours (
    series INTEGER NOT NULL,
    start INTEGER NOT NULL,
    counters BLOB NOT NULL,
    minutes BLOB NOT NULL,
    PRIMARY KEY (series, start)
) WITHOUT ROWID;

-- Changes of counters that are not in `hours` yet, by batch: many of them change an hour at once.
CREATE TABLE uncounted (
    batch INTEGER PRIMARY KEY,
    changes INTEGER NOT NULL,
    counters BLOB NOT NULL
);

CREATE TABLE position (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    stream_created TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    last_key TEXT NOT NULL
);

CREATE TABLE marks (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;
