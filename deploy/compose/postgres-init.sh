#!/bin/sh
# Runs once, when the cluster is made. The services' role reads and writes, Grafana's reads, neither owns anything;
# migrations run as the owner.
set -eu
psql -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" -v service="$POSTGRES_SERVICE_PASSWORD" -v reader="$POSTGRES_READER_PASSWORD" <<'SQL'
CREATE ROLE echomind_service LOGIN PASSWORD :'service';
GRANT pg_monitor TO echomind_service; -- the scheduler's metrics: how long others' transactions have been open
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO echomind_service;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE ON SEQUENCES TO echomind_service;
CREATE ROLE echomind_reader LOGIN PASSWORD :'reader';
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO echomind_reader;
SQL
