-- +goose Up
-- expand
-- What services/api needs so that the command line shows through it what it shows on the database: who wrote what is everybody's and how many use it, users, and where the system stands.

-- Calendars, which everybody who signs in sees; who wrote them for administrators, and for superadmins how many connectors name each, not counted beyond 10,000.
CREATE VIEW api.calendars AS
SELECT k.name, k.version, k.time_zone, k.entries, k.created_at, CASE WHEN api.is_admin() THEN k.created_by END AS created_by, k.updated_at,
    CASE WHEN api.is_admin() THEN k.updated_by END AS updated_by,
    CASE WHEN api.is_superadmin() THEN (SELECT count(*) FROM (SELECT FROM calendar_users u WHERE u.calendar = k.name LIMIT 10000) n) END AS connectors
FROM calendars k WHERE api.viewer_id() IS NOT NULL;

-- As before, with who wrote them for administrators, and for superadmins how many connectors wait for the end of each, not counted beyond 10,000.
CREATE OR REPLACE VIEW api.blackouts AS
SELECT b.name, b.calendar, b.user_id, b.type, b.provider, ARRAY(SELECT e.id FROM unnest(b.except_connectors) e(id) WHERE api.sees_connector(e.id)) AS except_connectors,
    b.mode, b.spread_minutes, b.updated_at, b.version, k.time_zone, k.entries,
    b.created_at, CASE WHEN api.is_admin() THEN b.created_by END AS created_by, CASE WHEN api.is_admin() THEN b.updated_by END AS updated_by,
    CASE WHEN api.is_superadmin() THEN (SELECT count(*) FROM (SELECT FROM blackout_holds h WHERE h.blackout = b.name AND h.until > (SELECT clock_timestamp()) LIMIT 10000) n) END AS held
FROM blackouts b JOIN calendars k ON k.name = b.calendar
WHERE api.is_superadmin() OR (api.viewer_id() IS NOT NULL AND coalesce(b.user_id, api.viewer_id()) = api.viewer_id());

-- As before, with who wrote them, and how many connectors name each, not counted beyond 10,000: administrators see every job.
CREATE OR REPLACE VIEW api.conditions AS
SELECT k.name, CASE WHEN api.is_superadmin() THEN k.query END AS query, k.user_ids, k.timeout_ms, k.updated_at, k.created_at, k.created_by, k.updated_by,
    (SELECT count(*) FROM (SELECT FROM connectors c WHERE c.condition = k.name LIMIT 10000) n) AS connectors
FROM conditions k WHERE api.is_admin();

-- As before, but counted up to 10,000, and with who added them.
CREATE OR REPLACE VIEW api.key_limits AS
SELECT l.key, l.most, (SELECT count(*) FROM (SELECT FROM key_places p WHERE p.key = l.key LIMIT 10000) n)::integer AS held,
    (SELECT count(*) FROM (SELECT FROM key_waiters w WHERE w.key = l.key LIMIT 10000) n)::integer AS waiting, l.updated_at, l.updated_by, l.created_at, l.created_by
FROM concurrency_limits l WHERE api.is_admin();

-- As before, with the number that stands for a name where that is not shown as it is.
CREATE OR REPLACE VIEW api.documents AS
SELECT d.connector_id, d.source_id, d.title, d.url, d.media_type, d.status, d.error, d.chunk_count, d.updated_at, d.config_version, d.id FROM documents d
WHERE d.config_version >= (SELECT s.version FROM api.seen_since(d.connector_id) s);

-- Whether a connector that the viewer sees is an owner's. It is asked of each run that a page looks at: a look for all that the owner has would not be bounded.
-- +goose StatementBegin
CREATE FUNCTION api.is_of(connector integer, owner integer) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT EXISTS (SELECT FROM connectors c WHERE c.id = connector AND c.user_id = owner AND c.scope IN ('user', 'group', 'org')) AND api.sees_connector(connector)
$$;
-- +goose StatementEnd

-- The users that something is written down about, behind one, by number: for superadmins.
-- +goose StatementBegin
CREATE FUNCTION api.users_behind(after integer, page integer) RETURNS TABLE (user_id integer, role text, groups text[], leads text[])
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT k.user_id, (SELECT u.role FROM users u WHERE u.user_id = k.user_id),
        ARRAY(SELECT m.group_id FROM group_members m WHERE m.user_id = k.user_id ORDER BY m.group_id LIMIT 1000),
        ARRAY(SELECT m.group_id FROM group_members m WHERE m.user_id = k.user_id AND m.leads ORDER BY m.group_id LIMIT 1000)
    FROM (SELECT a.user_id FROM ((SELECT u.user_id FROM users u WHERE u.user_id > after ORDER BY u.user_id LIMIT page)
            UNION (SELECT DISTINCT m.user_id FROM group_members m WHERE m.user_id > after ORDER BY m.user_id LIMIT page)) a
        WHERE api.is_superadmin() ORDER BY a.user_id LIMIT page) k
    ORDER BY k.user_id
$$;
-- +goose StatementEnd

-- Whom issuers sign in, and as which users: for superadmins.
CREATE VIEW api.identities AS SELECT i.issuer, i.subject, i.user_id, i.made_at FROM identities i WHERE api.is_superadmin();

-- Who is connected to this database, by the name that each service gives itself: for superadmins. A function, as who reads a view has the rights of the reader where it asks for sessions.
-- +goose StatementBegin
CREATE FUNCTION api.services() RETURNS TABLE (name text, connections bigint, since timestamptz, last_active timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT a.application_name, count(*), min(a.backend_start), max(a.state_change) FROM pg_stat_activity a
    WHERE a.datname = current_database() AND coalesce(a.backend_type, 'client backend') = 'client backend' AND a.application_name LIKE 'echomind-%' AND api.is_superadmin()
    GROUP BY 1 ORDER BY 1 LIMIT 100
$$;
-- +goose StatementEnd

-- How many connectors of each type have which status: for superadmins.
CREATE VIEW api.connector_counts AS
SELECT c.type, c.status, count(*) AS connectors FROM connectors c WHERE api.is_superadmin() GROUP BY c.type, c.status;

-- The jobs of the system, each with its last run: for superadmins.
CREATE VIEW api.system_jobs AS
SELECT c.id, c.type, c.status, c.next_sync_at, r.completed_at, r.status AS verdict, coalesce(r.error_message, r.reason) AS reason, r.result
FROM system_jobs s JOIN connectors c ON c.id = s.connector_id LEFT JOIN LATERAL (
    SELECT l.completed_at, l.status, l.reason, l.error_message, l.result FROM runs l WHERE l.connector_id = c.id ORDER BY l.started_at DESC LIMIT 1) r ON true
WHERE api.is_superadmin();

-- The concurrency keys that are waited for longest, of up to 10,000 connectors that wait: for superadmins.
CREATE VIEW api.keys_waited AS
SELECT w.key, w.waiting, w.oldest, l.most, (SELECT count(*) FROM (SELECT FROM key_places p WHERE p.key = w.key LIMIT 10000) n) AS held
FROM (SELECT k.key, count(*) AS waiting, min(k.due_at) AS oldest FROM (SELECT key, due_at FROM key_waiters LIMIT 10000) k WHERE api.is_superadmin() GROUP BY k.key ORDER BY 3 LIMIT 20) w
LEFT JOIN concurrency_limits l ON l.key = w.key;

-- Types as superadmins write them.
CREATE VIEW api.changeable_types AS
SELECT t.name, t.kind, t.system, t.default_refresh_minutes, t.max_concurrent_syncs, t.concurrency_keys, t.provider FROM connector_types t WHERE api.is_superadmin() WITH CHECK OPTION;

REVOKE ALL ON FUNCTION api.is_of(integer, integer), api.users_behind(integer, integer), api.services() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.is_of(integer, integer), api.users_behind(integer, integer), api.services(), moves.events_waiting(), moves.dropped_events() TO echomind_api;
GRANT SELECT ON api.calendars, api.identities, api.connector_counts, api.system_jobs, api.keys_waited TO echomind_api;
GRANT SELECT, INSERT, UPDATE (default_refresh_minutes, max_concurrent_syncs, concurrency_keys, provider) ON api.changeable_types TO echomind_api;

-- +goose Down
REVOKE EXECUTE ON FUNCTION moves.events_waiting(), moves.dropped_events() FROM echomind_api;
DROP VIEW api.changeable_types;
DROP VIEW api.keys_waited;
DROP VIEW api.system_jobs;
DROP VIEW api.connector_counts;
DROP FUNCTION api.services();
DROP VIEW api.identities;
DROP FUNCTION api.users_behind(integer, integer);
DROP FUNCTION api.is_of(integer, integer);
DROP VIEW api.documents;
CREATE VIEW api.documents AS
SELECT d.connector_id, d.source_id, d.title, d.url, d.media_type, d.status, d.error, d.chunk_count, d.updated_at, d.config_version FROM documents d
WHERE d.config_version >= (SELECT s.version FROM api.seen_since(d.connector_id) s);
DROP VIEW api.key_limits;
CREATE VIEW api.key_limits AS
SELECT l.key, l.most, (SELECT count(*) FROM (SELECT FROM key_places p WHERE p.key = l.key LIMIT 1000) n)::integer AS held,
    (SELECT count(*) FROM (SELECT FROM key_waiters w WHERE w.key = l.key LIMIT 1000) n)::integer AS waiting, l.updated_at, l.updated_by
FROM concurrency_limits l WHERE api.is_admin();
DROP VIEW api.conditions;
CREATE VIEW api.conditions AS
SELECT k.name, CASE WHEN api.is_superadmin() THEN k.query END AS query, k.user_ids, k.timeout_ms, k.updated_at FROM conditions k WHERE api.is_admin();
DROP VIEW api.blackouts;
CREATE VIEW api.blackouts AS
SELECT b.name, b.calendar, b.user_id, b.type, b.provider, ARRAY(SELECT e.id FROM unnest(b.except_connectors) e(id) WHERE api.sees_connector(e.id)) AS except_connectors,
    b.mode, b.spread_minutes, b.updated_at, b.version, k.time_zone, k.entries
FROM blackouts b JOIN calendars k ON k.name = b.calendar
WHERE api.is_superadmin() OR (api.viewer_id() IS NOT NULL AND coalesce(b.user_id, api.viewer_id()) = api.viewer_id());
DROP VIEW api.calendars;
GRANT SELECT ON api.documents, api.key_limits, api.conditions, api.blackouts TO echomind_api;
