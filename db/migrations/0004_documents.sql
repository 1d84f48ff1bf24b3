-- +goose Up
CREATE TABLE documents (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- No foreign key: semantic sweeps what a deleted connector leaves.
    connector_id   integer NOT NULL,
    source_id      text NOT NULL
        CONSTRAINT documents_source_id_length CHECK (octet_length(source_id) BETWEEN 1 AND 2048),
    title          text NOT NULL DEFAULT '',
    url            text NOT NULL DEFAULT '',
    media_type     text NOT NULL DEFAULT '',
    content_hash   text NOT NULL DEFAULT '',
    -- Empty: must be fetched again. Of one that failed: what there was no room for.
    version_token  text NOT NULL DEFAULT '',
    links          text[] NOT NULL DEFAULT '{}',
    -- What the source gets back by moves.known; null = nothing. Not jsonb, which writes numbers out: its size is what was sent.
    memo           json
        CONSTRAINT documents_memo_size CHECK (octet_length(memo::text) <= 8192)
        -- An escaped NUL, which no text of Postgres can hold.
        CONSTRAINT documents_memo_has_no_nul CHECK (strpos(memo::text, '\u0000') = 0 OR memo::text !~ '(^|[^\\])(\\\\)*\\u0000'),
    chunk_count    integer NOT NULL DEFAULT 0,
    -- Of the chunks that search may read: how long their texts and heading paths are, as UTF-8.
    text_bytes     bigint NOT NULL DEFAULT 0
        CONSTRAINT documents_text_bytes_range CHECK (text_bytes >= 0),
    status         text NOT NULL DEFAULT 'partial'
        CONSTRAINT documents_status_known CHECK (status IN ('partial', 'stored', 'failed', 'deleted')),
    error          text,
    -- The try that last had something to store of it, whole or not: no sweep removes what an open run is writing.
    touched_by     uuid,
    -- The message that wrote this row last; within a try a smaller number does not replace a larger.
    written_by     uuid,
    written_no     bigint,
    -- With id the key of the chunks that search may read; null = none.
    try_id         uuid,
    first_no       bigint,
    config_version bigint NOT NULL,
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_at     timestamptz,

    CONSTRAINT documents_source UNIQUE (connector_id, source_id),
    CONSTRAINT documents_chunks_named CHECK ((try_id IS NULL) = (first_no IS NULL)),
    CONSTRAINT documents_text_is_named CHECK (text_bytes = 0 OR try_id IS NOT NULL),
    CONSTRAINT documents_deleted_has_no_token CHECK (deleted_at IS NULL OR version_token = ''),
    CONSTRAINT documents_deleted_has_no_memo CHECK (deleted_at IS NULL OR memo IS NULL),
    CONSTRAINT documents_failed_says_why CHECK ((status = 'failed') = (error IS NOT NULL))
);

-- sweep_leftovers: documents that a run deleted or left partial, page by page. By id, which never changes: storing a document
-- again need not touch the index.
CREATE INDEX documents_leftover ON documents (connector_id, id) WHERE status IN ('deleted', 'partial');

CREATE TABLE chunks (
    try_id       uuid NOT NULL,
    first_no     bigint NOT NULL,
    document_id  bigint NOT NULL,
    no           integer NOT NULL,
    text         text NOT NULL,
    heading_path text[] NOT NULL DEFAULT '{}',
    start_offset bigint NOT NULL,
    end_offset   bigint NOT NULL,
    embedder     text NOT NULL,
    embedding    real[] NOT NULL,
    PRIMARY KEY (try_id, first_no, document_id, no)
) WITH (toast_tuple_target = 8160);
-- Vectors do not compress; kept in the row, an exact search reads one heap and no TOAST table.
ALTER TABLE chunks ALTER COLUMN embedding SET STORAGE EXTERNAL;
-- No query asks for an element of a vector, and counting them is three quarters of an ANALYZE, which keeps every table's old row
-- versions for as long as it takes: 12 to 16 s with it, 3 to 4 s without, for 38,000 chunks on a busy machine.
ALTER TABLE chunks ALTER COLUMN embedding SET STATISTICS 0;

-- Keys of chunks that no document names any more, and none will again. A sweep takes a key from its document in one
-- statement, whatever number of chunks it has; sweep_chunks removes them in batches.
CREATE TABLE unnamed_chunks (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    try_id      uuid NOT NULL,
    first_no    bigint NOT NULL,
    document_id bigint NOT NULL,
    -- Those up to this number are removed.
    through     integer NOT NULL DEFAULT -1
);

-- The messages of a try that are counted in stored.
CREATE TABLE run_messages (
    try_id    uuid NOT NULL,
    no        bigint NOT NULL CONSTRAINT run_messages_no_range CHECK (no >= 1),
    -- Of a document's part: the number of its first part; null for what is no part.
    first_no  bigint,
    -- Given up: counted, but never a part that makes its document whole, nor a checkpoint. `unnamed`: nobody can tell whose
    -- document it carried, so that no checkpoint passes it.
    given_up  text CONSTRAINT run_messages_given_up_known CHECK (given_up IN ('named', 'unnamed')),
    -- Of a part whose document is neither whole nor known to have failed: what its sender says of that document, as a digest, so
    -- that parts which contradict each other never make one. No cursor passes a part that waits.
    waits_for uuid,
    -- Of a part that was given up: what its sender says of its document, as the same digest. Parts that say the same wait no longer.
    fails     uuid,
    -- Of such a part: how many chunks it brought, so that those of a part that says otherwise never make up for a missing one.
    chunks    integer,
    -- How long the texts and heading paths of these are.
    text_bytes bigint,
    PRIMARY KEY (try_id, no)
);

-- How often a redelivered message was begun; no = 0 is sync completed.
CREATE TABLE message_tries (
    try_id uuid NOT NULL,
    no     bigint NOT NULL,
    tries  integer NOT NULL,
    -- Who began it last, and whether that was taken back: a statement that Postgres carries out after nobody waits for it any more, and
    -- which is repeated, counts once.
    mark       uuid,
    taken_back boolean NOT NULL DEFAULT false,
    PRIMARY KEY (try_id, no)
);

-- Checkpoints that are counted and wait for messages with smaller numbers. One row for each that waits, so that a later
-- one, whose predecessors may never come, takes no earlier one away.
CREATE TABLE run_checkpoints (
    try_id  uuid NOT NULL,
    run_id  uuid NOT NULL,
    no      bigint NOT NULL CONSTRAINT run_checkpoints_no_range CHECK (no >= 1),
    state   jsonb NOT NULL
        CONSTRAINT run_checkpoints_state_object CHECK (jsonb_typeof(state) = 'object')
        CONSTRAINT run_checkpoints_state_size CHECK (octet_length(state::text) <= 65536)
        -- As of a configuration: a message with it could never be read.
        CONSTRAINT run_checkpoints_state_depth CHECK (NOT jsonb_path_exists(state, '$.**{31}')),
    listing jsonb
        CONSTRAINT run_checkpoints_listing_object CHECK (jsonb_typeof(listing) = 'object')
        CONSTRAINT run_checkpoints_listing_size CHECK (octet_length(listing::text) <= 65536)
        CONSTRAINT run_checkpoints_listing_depth CHECK (NOT jsonb_path_exists(listing, '$.**{31}')),
    PRIMARY KEY (try_id, no)
);

-- Which documents a listing has shown, so that a run that goes on with a listing from a checkpoint knows what the pages
-- before it held. Of a try that begins more than one, each has its own: the one before may be what stands.
CREATE TABLE sightings (
    -- No foreign key: semantic sweeps what a deleted connector leaves.
    connector_id integer NOT NULL,
    try_id       uuid NOT NULL,
    listing      integer NOT NULL CONSTRAINT sightings_listing_range CHECK (listing >= 1),
    source_id    text NOT NULL
        CONSTRAINT sightings_source_id_length CHECK (octet_length(source_id) BETWEEN 1 AND 2048),
    -- The first message of the listing that showed it.
    no           bigint NOT NULL CONSTRAINT sightings_no_range CHECK (no >= 1),
    -- Sweep: what a connector has left, listing by listing.
    PRIMARY KEY (connector_id, try_id, listing, source_id)
);
-- Known: whether a document was shown, whatever the number of tries.
CREATE INDEX sightings_of_document ON sightings (connector_id, source_id);

-- +goose Down
DROP TABLE sightings;
DROP TABLE run_checkpoints;
DROP TABLE message_tries;
DROP TABLE run_messages;
DROP TABLE unnamed_chunks;
DROP TABLE chunks;
DROP TABLE documents;
