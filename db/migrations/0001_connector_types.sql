-- +goose Up
CREATE TABLE connector_types (
    name text PRIMARY KEY
        CONSTRAINT connector_types_name_form CHECK (name ~ '^[a-z][a-z0-9_]*$' AND length(name) <= 63),
    -- Minutes between two syncs of a new connector for which nobody chose; null = the service's default.
    default_refresh_minutes integer
        CONSTRAINT connector_types_refresh_range CHECK (default_refresh_minutes BETWEEN 0 AND 5256000),
    -- How many connectors of the type may be PENDING or SYNCING at once; 0 = no cap, null = the service's default.
    max_concurrent_syncs integer
        CONSTRAINT connector_types_cap_range CHECK (max_concurrent_syncs >= 0),
    -- Whether the last claim left something due because of the cap: the next verdict wakes the scheduler.
    waits boolean NOT NULL DEFAULT false
);

INSERT INTO connector_types (name) VALUES ('web'), ('file'), ('onedrive'), ('google_drive'), ('teams');

-- +goose Down
DROP TABLE connector_types;
