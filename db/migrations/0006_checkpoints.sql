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

-- Which documents a listing has shown, so that a run that goes on with a listing from a checkpoint knows what the pages
-- before it held. Of a session that begins more than one, each has its own: the one before may be what stands.
CREATE TABLE sightings (
    -- No foreign key: semantic sweeps what a deleted connector leaves.
    connector_id integer NOT NULL,
    session      uuid NOT NULL,
    listing      integer NOT NULL CONSTRAINT sightings_listing_range CHECK (listing >= 1),
    source_id    text NOT NULL
        CONSTRAINT sightings_source_id_length CHECK (octet_length(source_id) BETWEEN 1 AND 2048),
    -- The first message of the listing that showed it.
    no           bigint NOT NULL CONSTRAINT sightings_no_range CHECK (no >= 1),
    -- Known: what the sessions of a listing have shown. Sweep: what a connector has left.
    PRIMARY KEY (connector_id, session, listing, source_id)
);

-- +goose Down
DROP TABLE sightings;
DROP TABLE run_checkpoints;
ALTER TABLE scheduler_runs DROP COLUMN notes, DROP COLUMN checkpoint_no;
