-- The index of runs. A cache: whatever is wrong with the file, it is deleted and filled again from the bucket.
-- Change anything here and raise SCHEMA_VERSION in migrate.py: there are no migrations, only new files.

-- Runs that share status, tenant and archived lie on one shelf. A list merges the few shelves its query allows, each
-- already in order, so one index per filter serves it with any status and tenant; and counting runs is adding up shelves.
CREATE TABLE shelves (
    shelf INTEGER PRIMARY KEY,
    status TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    archived INTEGER NOT NULL,
    runs INTEGER NOT NULL DEFAULT 0,
    UNIQUE (status, tenant_id, archived)
);

-- Runs that share flow, tag, labels and YAML are one family, which a run seldom leaves. There are few of them next to
-- the runs, so combinations are looked for among families: two labels that never meet are found out without a run.
CREATE TABLE families (
    family INTEGER PRIMARY KEY,
    signature BLOB NOT NULL UNIQUE,
    flow TEXT NOT NULL,
    tag TEXT NOT NULL,
    terms TEXT NOT NULL
);

CREATE INDEX families_of_flow_and_tag ON families (flow, tag);

CREATE TABLE terms (
    term TEXT NOT NULL,
    family INTEGER NOT NULL,
    PRIMARY KEY (term, family)
) WITHOUT ROWID;

-- Where the runs of a family lie, and how many; none with no runs.
CREATE TABLE cells (
    family INTEGER NOT NULL,
    shelf INTEGER NOT NULL,
    runs INTEGER NOT NULL,
    PRIMARY KEY (family, shelf)
) WITHOUT ROWID;

-- `changed` is the sequence at which the row last became another one for a list: a heartbeat leaves it as it is.
-- `steps` says how many steps it has, so that of the many runs without any nobody looks for them.
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    shelf INTEGER NOT NULL,
    family INTEGER NOT NULL,
    flow TEXT NOT NULL,
    tag TEXT NOT NULL,
    updated_at REAL NOT NULL,
    ended_at REAL,
    steps INTEGER NOT NULL,
    summary BLOB NOT NULL
);

CREATE UNIQUE INDEX by_id ON runs (run_id);
CREATE INDEX by_shelf ON runs (shelf, updated_at, run_id);
CREATE INDEX by_flow ON runs (shelf, flow, updated_at, run_id);
CREATE INDEX by_tag ON runs (shelf, tag, updated_at, run_id);
CREATE INDEX by_family ON runs (family, shelf, updated_at, run_id);
CREATE INDEX by_change ON runs (changed, run_id);
CREATE INDEX by_end ON runs (ended_at, run_id) WHERE ended_at IS NOT NULL;

-- The runs of a tenant that have a label are in one drawer, whatever their status; a drawer that is empty has no row. So
-- a run that goes from one status to the next, as each does, leaves the drawers of its labels alone.
CREATE TABLE drawers (
    drawer INTEGER PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    label TEXT NOT NULL,
    runs INTEGER NOT NULL DEFAULT 0,
    UNIQUE (tenant_id, label)
);

CREATE INDEX drawers_of_label ON drawers (label, tenant_id);

-- The inverted index: what is in a drawer, in the order of the ids (`run` stands for one in sixteen bytes). The runs of a
-- shelf are in a drawer too, numbered below zero. Runs that are archived are in none.
CREATE TABLE postings (
    drawer INTEGER NOT NULL,
    run BLOB NOT NULL,
    PRIMARY KEY (drawer, run)
) WITHOUT ROWID;

-- Steps that share kind, flow and tenant lie at one tray, in an order of their own; none with no steps. Those of an
-- execution without a graph are at another one: nobody can claim them.
CREATE TABLE trays (
    tray INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    claimable INTEGER NOT NULL,
    flow TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    UNIQUE (kind, claimable, flow, tenant_id)
);

-- `at` is what a tray is in the order of, before the id: of a leased step the end of its lease, of a waiting one when it
-- began to wait, of a ready one nothing (0): they are in the order of the ids.
CREATE TABLE steps (
    run INTEGER NOT NULL,
    place INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    tray INTEGER NOT NULL,
    at REAL NOT NULL,
    due_at REAL,
    node_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    wait_key TEXT,
    worker_id TEXT,
    prompt BLOB,
    PRIMARY KEY (run, place)
) WITHOUT ROWID;

CREATE INDEX by_tray ON steps (tray, at, run_id, place);
CREATE INDEX by_due ON steps (due_at, run_id, place) WHERE due_at IS NOT NULL;

CREATE TABLE step_counts (
    kind TEXT PRIMARY KEY,
    steps INTEGER NOT NULL
) WITHOUT ROWID;

-- How many runs of a tag wait on a shelf. A queue that is empty has no row.
CREATE TABLE queues (
    shelf INTEGER NOT NULL,
    tag TEXT NOT NULL,
    runs INTEGER NOT NULL,
    PRIMARY KEY (tag, shelf)
) WITHOUT ROWID;

-- What has happened to runs since this file was begun, whether they are still here or not: per tenant some hundred rows.
CREATE TABLE tallies (
    tenant_id TEXT NOT NULL,
    tally TEXT NOT NULL,
    label TEXT NOT NULL,
    bucket INTEGER NOT NULL,
    runs INTEGER NOT NULL,
    seconds REAL NOT NULL,
    PRIMARY KEY (tenant_id, tally, label, bucket)
) WITHOUT ROWID;

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
