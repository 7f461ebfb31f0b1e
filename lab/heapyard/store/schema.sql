-- One experiment per file. Times are seconds since `experiment.created`; values are in the unit of `metric`.
-- Columns named *_json hold JSON text. The version of this schema is in PRAGMA user_version.

CREATE TABLE experiment (
    one            INTEGER PRIMARY KEY CHECK (one = 1),
    id             TEXT NOT NULL,
    title          TEXT NOT NULL,
    status         TEXT NOT NULL CHECK (status IN ('running', 'finished', 'interrupted', 'failed')),
    created        TEXT NOT NULL,             -- ISO 8601, UTC
    version        TEXT NOT NULL,             -- of heapyard
    seed           INTEGER NOT NULL,
    argv_json      TEXT NOT NULL,             -- the command line that asked for it
    cwd            TEXT NOT NULL,
    settings_json  TEXT NOT NULL,
    study          TEXT NOT NULL,             -- text of the study file, '' if there was none
    suite          TEXT NOT NULL DEFAULT '',  -- the run of a folder of studies that it belongs to
    verdict        TEXT NOT NULL DEFAULT ''   -- the answer's first sentence, as it was when the experiment ended
) STRICT;

CREATE TABLE program (
    place            INTEGER PRIMARY KEY,
    name             TEXT NOT NULL UNIQUE,
    definition_json  TEXT NOT NULL
) STRICT;

CREATE TABLE treatment (
    place            INTEGER PRIMARY KEY,
    label            TEXT NOT NULL UNIQUE,
    role             TEXT NOT NULL CHECK (role IN ('treatment', 'control')),
    definition_json  TEXT NOT NULL             -- the allocator, its hash and build-id, levels of the other factors
) STRICT;

CREATE TABLE environment (
    id             INTEGER PRIMARY KEY,
    at             REAL NOT NULL,
    moment         TEXT NOT NULL,              -- 'start', 'resumed', 'end'
    snapshot_json  TEXT NOT NULL
) STRICT;

-- What the study wants drawn, and what the literature says of it.
CREATE TABLE figure (
    place            INTEGER PRIMARY KEY,
    definition_json  TEXT NOT NULL
) STRICT;

CREATE TABLE claim (
    place            INTEGER PRIMARY KEY,
    definition_json  TEXT NOT NULL
) STRICT;

-- The machines of a fleet that ran blocks, each as it was when it ran its first.
CREATE TABLE node (
    name           TEXT PRIMARY KEY,
    snapshot_json  TEXT NOT NULL
) STRICT;

-- The plan: blocks and their trials are written before the first of them runs.
CREATE TABLE block (
    id        INTEGER PRIMARY KEY,
    stage     TEXT NOT NULL,                   -- 'warmup', 'pilot', 'main'
    round     INTEGER NOT NULL,
    workload  TEXT NOT NULL REFERENCES program (name),
    attempt   INTEGER NOT NULL,
    status    TEXT NOT NULL CHECK (status IN ('planned', 'started', 'done', 'repeated', 'abandoned')),
    node      TEXT NOT NULL DEFAULT ''         -- the machine of a fleet that ran it; '' = the lab's own
) STRICT;

CREATE TABLE trial (
    id            INTEGER PRIMARY KEY,
    block         INTEGER NOT NULL REFERENCES block (id),
    position      INTEGER NOT NULL,
    treatment     TEXT NOT NULL REFERENCES treatment (label),
    pad           INTEGER NOT NULL,            -- bytes of environment padding
    status        TEXT NOT NULL CHECK (status IN ('planned', 'started', 'ok', 'failed', 'interrupted')),
    started       REAL,
    ended         REAL,
    command_line  TEXT NOT NULL DEFAULT '',
    provider      TEXT NOT NULL DEFAULT '',    -- the object that served malloc
    answer        TEXT NOT NULL DEFAULT '',    -- sha256
    exit_code     INTEGER,
    signal        INTEGER,
    failure       TEXT NOT NULL DEFAULT '',
    reason        TEXT NOT NULL DEFAULT '',
    stderr_tail   TEXT NOT NULL DEFAULT '',
    guards_json   TEXT NOT NULL DEFAULT '{}',
    tripped_json  TEXT NOT NULL DEFAULT '[]',
    detail_json   TEXT NOT NULL DEFAULT '{}',
    series        TEXT NOT NULL DEFAULT '',    -- series/<sha256>.zst beside this file
    result        TEXT NOT NULL DEFAULT '',    -- results/<sha256>.zst: what a mutator wrote
    UNIQUE (block, position)
) STRICT;

-- The lab's own metrics, and those that mutators define in their results.
CREATE TABLE metric (
    name       TEXT PRIMARY KEY,
    title      TEXT NOT NULL,
    unit       TEXT NOT NULL,
    direction  TEXT NOT NULL
) STRICT;

CREATE TABLE response (
    trial   INTEGER NOT NULL REFERENCES trial (id),
    metric  TEXT NOT NULL,
    value   REAL NOT NULL,
    PRIMARY KEY (trial, metric)
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
    id    INTEGER PRIMARY KEY,
    at    REAL NOT NULL,
    kind  TEXT NOT NULL,
    text  TEXT NOT NULL
) STRICT;
