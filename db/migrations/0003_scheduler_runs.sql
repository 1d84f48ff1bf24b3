-- +goose Up
CREATE TABLE scheduler_runs (
    -- The chunking_session of the trip; a missed row has an id of its own.
    id                   uuid PRIMARY KEY,
    -- No foreign key: a run outlives its connector.
    connector_id         integer NOT NULL,
    job_name             text NOT NULL,
    trigger              text NOT NULL
        CONSTRAINT scheduler_runs_trigger_known CHECK (trigger IN
            ('new', 'schedule', 'manual', 'retry', 'release', 'changed', 'rescue', 'lost')),
    -- The due time this run answers; for missed, the first of missed_count up to slot_last.
    slot                 timestamptz
        CONSTRAINT scheduler_runs_slot_scheduled CHECK (slot IS NULL OR trigger = 'schedule'),
    slot_last            timestamptz,
    missed_count         integer,
    due_at               timestamptz NOT NULL,
    started_at           timestamptz NOT NULL,
    trigger_requested_at timestamptz,
    picked_up_at         timestamptz,
    fetched_at           timestamptz,
    completed_at         timestamptz,
    status               text NOT NULL DEFAULT 'running'
        CONSTRAINT scheduler_runs_status_known CHECK (status IN
            ('running', 'completed', 'skipped', 'failed', 'superseded', 'missed')),
    reason               text,
    error_message        text,
    -- N of the session, once sync completed has said it, and how many of them are stored.
    total                bigint,
    stored               bigint NOT NULL DEFAULT 0,
    documents_processed  bigint NOT NULL DEFAULT 0,
    documents_failed     bigint NOT NULL DEFAULT 0,
    documents_deleted    bigint NOT NULL DEFAULT 0,
    documents_unchanged  bigint NOT NULL DEFAULT 0,
    chunks_stored        bigint NOT NULL DEFAULT 0,
    listing_whole        boolean,
    new_state            jsonb
        CONSTRAINT scheduler_runs_new_state_size CHECK (octet_length(new_state::text) <= 65536),
    config_version       bigint NOT NULL,
    -- Sequence of sync completed in the document stream; set when the worker is done.
    drain_seq            bigint,
    swept_at             timestamptz,

    CONSTRAINT scheduler_runs_stored_range CHECK (stored >= 0 AND (total IS NULL OR stored <= total)),
    CONSTRAINT scheduler_runs_ended CHECK ((status = 'running') = (completed_at IS NULL)),
    CONSTRAINT scheduler_runs_state_freed CHECK (status = 'running' OR new_state IS NULL),
    CONSTRAINT scheduler_runs_missed_counted CHECK ((status = 'missed') = (missed_count IS NOT NULL))
);

-- At most one open run per connector; closing it by connector.
CREATE UNIQUE INDEX scheduler_runs_open ON scheduler_runs (connector_id) WHERE status = 'running';
-- One verdict per slot.
CREATE UNIQUE INDEX scheduler_runs_slot ON scheduler_runs (connector_id, slot) WHERE slot IS NOT NULL;
-- runs ID, why ID: the latest runs of a connector.
CREATE INDEX scheduler_runs_history ON scheduler_runs (connector_id, started_at DESC);
-- CompleteStored: open runs whose documents are all stored.
CREATE INDEX scheduler_runs_stored ON scheduler_runs (id) WHERE status = 'running' AND stored = total;
-- Sweep: ended runs that may have left something behind.
CREATE INDEX scheduler_runs_unswept ON scheduler_runs (completed_at) WHERE swept_at IS NULL AND status <> 'running';
-- Sweep of the ledger's own history.
CREATE INDEX scheduler_runs_ended_at ON scheduler_runs (completed_at) WHERE status <> 'running';

-- The messages of a session that are counted in stored.
CREATE TABLE run_messages (
    session  uuid NOT NULL,
    no       bigint NOT NULL CONSTRAINT run_messages_no_range CHECK (no >= 1),
    first_no bigint NOT NULL,
    PRIMARY KEY (session, no)
);

-- How often a redelivered message was begun; no = 0 is sync completed.
CREATE TABLE message_tries (
    session uuid NOT NULL,
    no      bigint NOT NULL,
    tries   integer NOT NULL,
    PRIMARY KEY (session, no)
);

-- +goose Down
DROP TABLE message_tries;
DROP TABLE run_messages;
DROP TABLE scheduler_runs;
