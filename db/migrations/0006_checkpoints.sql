-- +goose Up
ALTER TABLE scheduler_runs
    -- The number of the last checkpoint whose state became the connector's: every message up to it is stored.
    ADD COLUMN checkpoint_no bigint NOT NULL DEFAULT 0,
    -- How many of the stored messages carry no document of their own: checkpoints, and documents that were only seen.
    ADD COLUMN notes bigint NOT NULL DEFAULT 0,
    ADD CONSTRAINT scheduler_runs_checkpoint_stored CHECK (checkpoint_no BETWEEN 0 AND stored),
    ADD CONSTRAINT scheduler_runs_notes_range CHECK (notes BETWEEN 0 AND stored);

-- Checkpoints that are counted and wait for messages with smaller numbers. One table for all that wait, so that a later
-- one, whose predecessors may never come, takes no earlier one away.
CREATE TABLE run_checkpoints (
    session uuid NOT NULL,
    no      bigint NOT NULL CONSTRAINT run_checkpoints_no_range CHECK (no >= 1),
    state   jsonb NOT NULL
        CONSTRAINT run_checkpoints_state_object CHECK (jsonb_typeof(state) = 'object')
        CONSTRAINT run_checkpoints_state_size CHECK (octet_length(state::text) <= 65536),
    PRIMARY KEY (session, no)
);

-- Which listing showed a document: the session, and a mark that is larger for a later listing of the session and, within
-- one listing, for a smaller number (wire.SeenMark), so that the largest mark tells first what was shown first.
ALTER TABLE documents
    ADD COLUMN seen_by uuid,
    ADD COLUMN seen_mark bigint,
    ADD CONSTRAINT documents_seen_whole CHECK ((seen_by IS NULL) = (seen_mark IS NULL));

-- +goose Down
ALTER TABLE documents DROP COLUMN seen_mark, DROP COLUMN seen_by;
DROP TABLE run_checkpoints;
ALTER TABLE scheduler_runs DROP COLUMN notes, DROP COLUMN checkpoint_no;
