-- +goose Up
CREATE TABLE connector_types (
    name text PRIMARY KEY
        CONSTRAINT connector_types_name_form CHECK (name ~ '^[a-z][a-z0-9_]*$' AND length(name) <= 63),
    -- Minutes between two syncs of a new connector for which nobody chose; null = the service's default.
    default_refresh_minutes integer
        CONSTRAINT connector_types_refresh_range CHECK (default_refresh_minutes BETWEEN 0 AND 5256000),
    -- How many connectors of the type may be PENDING or SYNCING at once; 0 = no cap, null = the service's default.
    max_concurrent_syncs integer
        CONSTRAINT connector_types_cap_range CHECK (max_concurrent_syncs >= 0)
);

-- Whether the last claim of a capped type left something due because of the cap: the next verdict wakes the scheduler. A table of
-- its own, so that a transaction which ends a run and stays open keeps nobody from adding connectors of the type or from its cap.
CREATE TABLE waiting_types (
    name  text PRIMARY KEY REFERENCES connector_types ON DELETE CASCADE,
    waits boolean NOT NULL
);

INSERT INTO connector_types (name) VALUES ('web'), ('file'), ('onedrive'), ('google_drive'), ('teams');

-- +goose Down
DROP TABLE waiting_types;
DROP TABLE connector_types;
