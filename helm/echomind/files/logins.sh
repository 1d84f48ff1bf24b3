#!/bin/sh
# Makes Postgres's roles and logins, and gives each login the password in its variable. It may be repeated: what is there
# stays, and passwords follow the variables. docker compose runs it at every start, the chart's own server once.
#
# Rights belong to the groups, and migrations grant them. A login is a member of one group. Migrations make the groups too
# where they are missing, so it does not matter which comes first.
set -eu
for who in SCHEDULER CHUNKER CONNECTOR SEMANTIC API CONSOLE GRAFANA; do
  eval "[ -n \"\${POSTGRES_${who}_PASSWORD:-}\" ]" || { echo "POSTGRES_${who}_PASSWORD is empty: set it"; exit 1; }
done
# The passwords reach psql by the environment: every user of the machine may read a command line.
psql --quiet --no-psqlrc --single-transaction -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" <<'SQL'
\getenv scheduler POSTGRES_SCHEDULER_PASSWORD
\getenv chunker POSTGRES_CHUNKER_PASSWORD
\getenv connector POSTGRES_CONNECTOR_PASSWORD
\getenv semantic POSTGRES_SEMANTIC_PASSWORD
\getenv api POSTGRES_API_PASSWORD
\getenv console POSTGRES_CONSOLE_PASSWORD
\getenv grafana POSTGRES_GRAFANA_PASSWORD
SET client_min_messages = warning;

-- A login of this name may read every table. Its rights must go before migrations grant the group what it needs.
SELECT 'DROP OWNED BY echomind_reader' FROM pg_roles WHERE rolname = 'echomind_reader' AND rolcanlogin \gexec
SELECT format('CREATE ROLE %I', name) FROM unnest(ARRAY['echomind_scheduler', 'echomind_worker', 'echomind_semantic',
    'echomind_console', 'echomind_subscriber', 'echomind_reader', 'echomind_api']) name
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) \gexec
ALTER ROLE echomind_reader NOLOGIN PASSWORD NULL;
-- For the scheduler's metrics: how long others' transactions have been open.
GRANT pg_read_all_stats TO echomind_scheduler;
-- What a condition may write to temporary files is bounded by the scheduler, which otherwise may not.
GRANT SET ON PARAMETER temp_file_limit TO echomind_scheduler;

CREATE TEMPORARY TABLE logins (login, member_of, password) ON COMMIT DROP AS VALUES
    ('scheduler', 'echomind_scheduler', :'scheduler'),
    ('chunker', 'echomind_worker', :'chunker'),
    ('connector', 'echomind_worker', :'connector'),
    ('semantic', 'echomind_semantic', :'semantic'),
    ('api', 'echomind_api', :'api'),
    ('console', 'echomind_console', :'console'),
    ('grafana', 'echomind_reader', :'grafana');
SELECT format('CREATE ROLE %I', login) FROM logins WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = login) \gexec
SELECT format('ALTER ROLE %I LOGIN PASSWORD %L', login, password) FROM logins \gexec
SELECT format('GRANT %I TO %I', member_of, login) FROM logins \gexec
-- Nobody waits long for a lock, and a program that has stopped in the middle of a transaction blocks nobody for long.
SELECT format('ALTER ROLE %I SET %s', login, setting) FROM logins,
    unnest(ARRAY['lock_timeout = ''5s''', 'idle_in_transaction_session_timeout = ''30s''']) setting \gexec
SQL
