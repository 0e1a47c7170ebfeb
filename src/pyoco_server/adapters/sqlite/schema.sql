-- The index of runs. A cache: whatever is wrong with the file, it is deleted and filled again from the bucket.
-- Change anything here and raise SCHEMA_VERSION in migrate.py: there are no migrations, only new files.

-- Runs that share status, tenant and archived lie on one shelf. A list merges the few shelves its query allows, each
-- already in order, so four indexes serve all combinations of five filters; and counting runs is adding up shelves.
CREATE TABLE shelves (
    shelf INTEGER PRIMARY KEY,
    status TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    archived INTEGER NOT NULL,
    runs INTEGER NOT NULL DEFAULT 0,
    UNIQUE (status, tenant_id, archived)
);

CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    shelf INTEGER NOT NULL,
    flow TEXT NOT NULL,
    tag TEXT NOT NULL,
    updated_at REAL NOT NULL,
    ended_at REAL,
    labels TEXT NOT NULL,
    summary BLOB NOT NULL
);

CREATE INDEX by_shelf ON runs (shelf, updated_at, run_id);
CREATE INDEX by_flow ON runs (shelf, flow, updated_at, run_id);
CREATE INDEX by_tag ON runs (shelf, tag, updated_at, run_id);
CREATE INDEX by_flow_and_tag ON runs (shelf, flow, tag, updated_at, run_id);
CREATE INDEX by_end ON runs (ended_at, run_id) WHERE ended_at IS NOT NULL;

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

-- Label → runs: small next to the runs, because labels seldom change while updated_at does all the time.
CREATE TABLE labels (
    label TEXT NOT NULL,
    id INTEGER NOT NULL,
    PRIMARY KEY (label, id)
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
