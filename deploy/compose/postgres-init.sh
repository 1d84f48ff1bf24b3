#!/bin/sh
# Runs once, when the cluster is made: the services' role reads and writes, and owns nothing; migrations run as the owner.
set -eu
psql -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" -v password="$POSTGRES_SERVICE_PASSWORD" <<'SQL'
CREATE ROLE echomind_service LOGIN PASSWORD :'password';
GRANT pg_monitor TO echomind_service; -- the scheduler's metrics: how long others' transactions have been open
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO echomind_service;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE ON SEQUENCES TO echomind_service;
SQL
