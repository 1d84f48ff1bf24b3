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
    -- Empty: must be fetched again.
    version_token  text NOT NULL DEFAULT '',
    links          text[] NOT NULL DEFAULT '{}',
    chunk_count    integer NOT NULL DEFAULT 0,
    status         text NOT NULL DEFAULT 'partial'
        CONSTRAINT documents_status_known CHECK (status IN ('partial', 'stored', 'failed', 'deleted')),
    error          text,
    -- The message that wrote this row last; within a session a smaller number does not replace a larger.
    written_by     uuid,
    written_no     bigint,
    -- With id the key of the chunks that search may read; null = none.
    session        uuid,
    first_no       bigint,
    config_version bigint NOT NULL DEFAULT 0,
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    deleted_at     timestamptz,

    CONSTRAINT documents_source UNIQUE (connector_id, source_id),
    CONSTRAINT documents_chunks_named CHECK ((session IS NULL) = (first_no IS NULL)),
    CONSTRAINT documents_deleted_has_no_token CHECK (deleted_at IS NULL OR version_token = ''),
    CONSTRAINT documents_failed_says_why CHECK ((status = 'failed') = (error IS NOT NULL))
);

-- Sweep: documents that a run deleted or left partial.
CREATE INDEX documents_leftover ON documents (connector_id) WHERE status IN ('deleted', 'partial');

CREATE TABLE chunks (
    session      uuid NOT NULL,
    first_no     bigint NOT NULL,
    document_id  bigint NOT NULL,
    no           integer NOT NULL,
    text         text NOT NULL,
    heading_path text[] NOT NULL DEFAULT '{}',
    start_offset bigint NOT NULL,
    end_offset   bigint NOT NULL,
    embedder     text NOT NULL,
    embedding    real[] NOT NULL,
    PRIMARY KEY (session, first_no, document_id, no)
) WITH (toast_tuple_target = 8160);
-- Vectors do not compress; kept in the row, an exact search reads one heap and no TOAST table.
ALTER TABLE chunks ALTER COLUMN embedding SET STORAGE EXTERNAL;

-- Connectors whose documents are to be swept.
CREATE TABLE deleted_connectors (
    id         integer PRIMARY KEY,
    deleted_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- +goose Down
DROP TABLE deleted_connectors;
DROP TABLE chunks;
DROP TABLE documents;
