-- Counted requests and their results: a cache of the event log. No tenant is the empty text.
CREATE TABLE stream (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    created TEXT NOT NULL
);

CREATE TABLE requests (
    request INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    tenant_id TEXT NOT NULL,
    version INTEGER NOT NULL,
    last_update REAL NOT NULL,
    canceling INTEGER NOT NULL,
    ended_at REAL
);

CREATE INDEX by_end ON requests (ended_at, run_id) WHERE ended_at IS NOT NULL;

-- `content` is a CountedBatch.
CREATE TABLE batches (
    request INTEGER NOT NULL,
    node_id TEXT NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (request, node_id)
) WITHOUT ROWID;

CREATE TABLE results (
    tenant_id TEXT NOT NULL,
    strategy TEXT NOT NULL,
    checked_at REAL NOT NULL,
    run_id TEXT NOT NULL,
    node_id TEXT NOT NULL,
    request INTEGER NOT NULL,
    health TEXT NOT NULL,
    winrate REAL,
    sharpe REAL,
    max_dd REAL,
    PRIMARY KEY (tenant_id, strategy, checked_at, run_id, node_id)
) WITHOUT ROWID;

CREATE INDEX by_batch ON results (request, node_id);

-- The newest result of each strategy, read as a whole at a start.
CREATE TABLE latest (
    tenant_id TEXT NOT NULL,
    strategy TEXT NOT NULL,
    checked_at REAL NOT NULL,
    health TEXT NOT NULL,
    PRIMARY KEY (tenant_id, strategy)
) WITHOUT ROWID;
