-- +goose Up
-- expand
-- What services/api asks for each request, and for each row of a page, keeps its plans. A function in SQL is planned at each call, and one in PL/pgSQL was, as our sessions
-- have plan_cache_mode = force_custom_plan: planning was more than a third of what Postgres did for a mix of reads. Each finds what it reads by a key, or walks an index in
-- its order; so a plan that was made in a quiet hour is right for good where it may do nothing else (0014_housekeeping.sql says the same of moves).
-- What looks for the latest runs of a connector asks for the open one apart: behind one order for both, all of its runs were read and sorted.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.job_types() RETURNS text[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT coalesce(array_agg(t.name), '{}') FROM public.connector_types t WHERE t.kind = 'job');
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.role_now(token integer) RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    RETURN (SELECT CASE WHEN count(*) = max(c.links) AND bool_and(c.owner = c.made_for OR c.least = 3) THEN (ARRAY['user', 'admin', 'superadmin'])[min(c.least)] END
    FROM (SELECT cardinality(t.made_through) + 1 AS links, a.user_id AS owner, lead(a.user_id, 1, a.user_id) OVER (ORDER BY p.place) AS made_for,
            min(least(api.rank(a.role), api.rank(u.role))) OVER (ORDER BY p.place) AS least
        FROM access_tokens t CROSS JOIN unnest(t.made_through || t.id) WITH ORDINALITY p(id, place) JOIN access_tokens a ON a.id = p.id LEFT JOIN users u ON u.user_id = a.user_id
        WHERE t.id = token AND a.revoked_at IS NULL AND coalesce(a.expires_at > (SELECT clock_timestamp()), true)) c);
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.runs_reach(connector integer, since timestamptz, before timestamptz, before_id uuid, verdict text, ended_since timestamptz, ended_before timestamptz, page integer)
    RETURNS timestamptz
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    RETURN (SELECT coalesce(min(l.started_at), 'infinity') FROM api.seen_since(connector) s CROSS JOIN LATERAL (
        (SELECT o.started_at, o.id FROM open_runs o
        WHERE o.connector_id = connector AND o.started_at >= greatest(s.at, since) AND o.started_at <= before AND (o.started_at, o.id) < (before, before_id)
            AND o.config_version >= s.version AND coalesce(verdict, 'running') = 'running' AND ended_before IS NULL)
        UNION ALL
        (SELECT r.started_at, r.id FROM runs r
        WHERE r.connector_id = connector AND r.started_at >= greatest(s.at, since) AND r.started_at <= before AND (r.started_at, r.id) < (before, before_id)
            AND r.config_version >= s.version AND verdict IS DISTINCT FROM 'running' AND (verdict IS NULL OR r.status = verdict)
            AND (ended_since IS NULL OR r.completed_at >= ended_since) AND (ended_before IS NULL OR r.completed_at < ended_before)
        ORDER BY r.started_at DESC, r.id DESC LIMIT page)
        ORDER BY started_at DESC, id DESC LIMIT page) l
    WHERE s.version IS NOT NULL);
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.latest_runs(connectors integer[], most integer)
    RETURNS TABLE (connector_id integer, id uuid, trigger text, status text, reason text, slot timestamptz, slot_last timestamptz, missed_count integer,
        due_at timestamptz, started_at timestamptz, completed_at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT l.* FROM unnest(connectors) i(id) CROSS JOIN LATERAL api.seen_since(i.id) s CROSS JOIN LATERAL (
            (SELECT o.connector_id, o.id, o.trigger, 'running', o.reason, o.slot, NULL::timestamptz, NULL::integer, o.due_at, o.started_at, NULL::timestamptz FROM open_runs o
            WHERE o.connector_id = i.id AND o.started_at >= s.at AND o.config_version >= s.version)
            UNION ALL
            (SELECT r.connector_id, r.id, r.trigger, r.status, r.reason, r.slot, r.slot_last, r.missed_count, r.due_at, r.started_at, r.completed_at FROM runs r
            WHERE r.connector_id = i.id AND r.started_at >= s.at AND r.config_version >= s.version
            ORDER BY r.started_at DESC, r.id DESC LIMIT least(most, 100))
            ORDER BY started_at DESC, id DESC LIMIT least(most, 100)) l
        WHERE s.version IS NOT NULL
        ORDER BY l.connector_id, l.started_at DESC, l.id DESC;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.documents_through(connector integer, after text, look integer) RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    RETURN (SELECT d.source_id FROM documents d WHERE api.sees_connector(connector) AND d.connector_id = connector AND d.source_id > after
    ORDER BY d.source_id OFFSET least(look, 100000) LIMIT 1);
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.runs_back(before timestamptz, back integer) RETURNS timestamptz
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    RETURN (SELECT r.completed_at FROM runs r WHERE r.completed_at < before ORDER BY r.completed_at DESC OFFSET least(back, 100000) LIMIT 1);
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.runs_back_of(connector integer, before timestamptz, back integer) RETURNS timestamptz
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    RETURN (SELECT r.started_at FROM runs r WHERE r.connector_id = connector AND r.started_at < before AND api.sees_connector(connector)
    ORDER BY r.started_at DESC OFFSET least(back, 100000) LIMIT 1);
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.connectors_through(after integer, look integer) RETURNS integer
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    RETURN (SELECT c.id FROM connectors c WHERE c.id > after ORDER BY c.id OFFSET least(look, 100000) LIMIT 1);
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.open_runs_through(after uuid, look integer) RETURNS uuid
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    RETURN (SELECT r.id FROM open_runs r WHERE r.id > after ORDER BY r.id OFFSET least(look, 100000) LIMIT 1);
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.is_of(connector integer, owner integer) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    RETURN (SELECT EXISTS (SELECT FROM connectors c WHERE c.id = connector AND c.user_id = owner AND c.scope IN ('user', 'group', 'org')) AND api.sees_connector(connector));
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.freshness_through(after timestamptz, after_id integer, look integer) RETURNS TABLE (fresh_until timestamptz, connector_id integer)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT f.fresh_until, f.connector_id FROM connector_freshness f WHERE (f.fresh_until, f.connector_id) > (after, after_id)
        ORDER BY f.fresh_until, f.connector_id OFFSET least(look, 100000) LIMIT 1;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
DECLARE
    asked regprocedure;
BEGIN
    FOR asked IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'api'::regnamespace AND p.proname IN (
            'job_types', 'role_now', 'runs_reach', 'latest_runs', 'documents_through', 'runs_back', 'runs_back_of', 'connectors_through', 'open_runs_through',
            'is_of', 'freshness_through', 'sees', 'sees_connector', 'seen_since', 'authenticate', 'count_documents', 'failed_documents') LOOP
        EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = force_generic_plan', asked);
        EXECUTE format('ALTER FUNCTION %s SET enable_seqscan = off', asked);
        EXECUTE format('ALTER FUNCTION %s SET enable_hashjoin = off', asked);
        EXECUTE format('ALTER FUNCTION %s SET enable_mergejoin = off', asked);
        EXECUTE format('ALTER FUNCTION %s SET jit = off', asked);
    END LOOP;
    FOR asked IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'api'::regnamespace AND p.proname IN (   -- those that walk an index
            'runs_reach', 'latest_runs', 'documents_through', 'runs_back', 'runs_back_of', 'connectors_through', 'open_runs_through', 'freshness_through',
            'count_documents', 'failed_documents') LOOP   -- the last two sort what they have found: all ways of that are forbidden alike
        EXECUTE format('ALTER FUNCTION %s SET enable_sort = off', asked);
        EXECUTE format('ALTER FUNCTION %s SET enable_bitmapscan = off', asked);
    END LOOP;
END $$;
-- +goose StatementEnd
-- Most of what evidence names of others is null: that is not asked for.
ALTER FUNCTION api.sees_connector(integer) STRICT;
ALTER FUNCTION api.seen_since(integer) STRICT;

-- +goose Down
ALTER FUNCTION api.seen_since(integer) CALLED ON NULL INPUT;
ALTER FUNCTION api.sees_connector(integer) CALLED ON NULL INPUT;
-- +goose StatementBegin
DO $$
DECLARE
    asked regprocedure;
BEGIN
    FOR asked IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'api'::regnamespace AND p.proname IN ('sees', 'sees_connector', 'seen_since', 'authenticate', 'count_documents', 'failed_documents') LOOP
        EXECUTE format('ALTER FUNCTION %s RESET plan_cache_mode', asked);
        EXECUTE format('ALTER FUNCTION %s RESET enable_seqscan', asked);
        EXECUTE format('ALTER FUNCTION %s RESET enable_hashjoin', asked);
        EXECUTE format('ALTER FUNCTION %s RESET enable_mergejoin', asked);
        EXECUTE format('ALTER FUNCTION %s RESET jit', asked);
        EXECUTE format('ALTER FUNCTION %s RESET enable_sort', asked);
        EXECUTE format('ALTER FUNCTION %s RESET enable_bitmapscan', asked);
    END LOOP;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.job_types() RETURNS text[] LANGUAGE sql STABLE AS $$ SELECT coalesce(array_agg(t.name), '{}') FROM public.connector_types t WHERE t.kind = 'job' $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.role_now(token integer) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT CASE WHEN count(*) = max(c.links) AND bool_and(c.owner = c.made_for OR c.least = 3) THEN (ARRAY['user', 'admin', 'superadmin'])[min(c.least)] END
    FROM (SELECT cardinality(t.made_through) + 1 AS links, a.user_id AS owner, lead(a.user_id, 1, a.user_id) OVER (ORDER BY p.place) AS made_for,
            min(least(api.rank(a.role), api.rank(u.role))) OVER (ORDER BY p.place) AS least
        FROM access_tokens t CROSS JOIN unnest(t.made_through || t.id) WITH ORDINALITY p(id, place) JOIN access_tokens a ON a.id = p.id LEFT JOIN users u ON u.user_id = a.user_id
        WHERE t.id = token AND a.revoked_at IS NULL AND coalesce(a.expires_at > (SELECT clock_timestamp()), true)) c
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.runs_reach(connector integer, since timestamptz, before timestamptz, before_id uuid, verdict text, ended_since timestamptz, ended_before timestamptz, page integer)
    RETURNS timestamptz
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT coalesce(min(l.started_at), 'infinity') FROM api.seen_since(connector) s CROSS JOIN LATERAL (
        SELECT r.started_at FROM scheduler_runs r
        WHERE r.connector_id = connector AND r.started_at >= greatest(s.at, since,
                CASE verdict WHEN 'running' THEN (SELECT coalesce(min(o.started_at), 'infinity') FROM open_runs o WHERE o.connector_id = connector) END)
            AND r.started_at <= before AND (r.started_at, r.id) < (before, before_id) AND r.config_version >= s.version AND (verdict IS NULL OR r.status = verdict)
            AND (r.completed_at IS NULL OR ended_since IS NULL OR r.completed_at >= ended_since) AND (ended_before IS NULL OR r.completed_at < ended_before)
        ORDER BY r.started_at DESC, r.id DESC LIMIT page) l
    WHERE s.version IS NOT NULL
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.latest_runs(connectors integer[], most integer)
    RETURNS TABLE (connector_id integer, id uuid, trigger text, status text, reason text, slot timestamptz, slot_last timestamptz, missed_count integer,
        due_at timestamptz, started_at timestamptz, completed_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT l.* FROM unnest(connectors) i(id) CROSS JOIN LATERAL api.seen_since(i.id) s CROSS JOIN LATERAL (
        SELECT r.connector_id, r.id, r.trigger, r.status, r.reason, r.slot, r.slot_last, r.missed_count, r.due_at, r.started_at, r.completed_at FROM scheduler_runs r
        WHERE r.connector_id = i.id AND r.started_at >= s.at AND r.config_version >= s.version
        ORDER BY r.started_at DESC, r.id DESC LIMIT least(most, 100)) l
    WHERE s.version IS NOT NULL
    ORDER BY l.connector_id, l.started_at DESC, l.id DESC
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.documents_through(connector integer, after text, look integer) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT d.source_id FROM documents d WHERE api.sees_connector(connector) AND d.connector_id = connector AND d.source_id > after
    ORDER BY d.source_id OFFSET least(look, 100000) LIMIT 1
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.runs_back(before timestamptz, back integer) RETURNS timestamptz
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT r.completed_at FROM runs r WHERE r.completed_at < before ORDER BY r.completed_at DESC OFFSET least(back, 100000) LIMIT 1
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.runs_back_of(connector integer, before timestamptz, back integer) RETURNS timestamptz
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT r.started_at FROM runs r WHERE r.connector_id = connector AND r.started_at < before AND api.sees_connector(connector)
    ORDER BY r.started_at DESC OFFSET least(back, 100000) LIMIT 1
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.connectors_through(after integer, look integer) RETURNS integer
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT c.id FROM connectors c WHERE c.id > after ORDER BY c.id OFFSET least(look, 100000) LIMIT 1
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.open_runs_through(after uuid, look integer) RETURNS uuid
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT r.id FROM open_runs r WHERE r.id > after ORDER BY r.id OFFSET least(look, 100000) LIMIT 1
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.is_of(connector integer, owner integer) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT EXISTS (SELECT FROM connectors c WHERE c.id = connector AND c.user_id = owner AND c.scope IN ('user', 'group', 'org')) AND api.sees_connector(connector)
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.freshness_through(after timestamptz, after_id integer, look integer) RETURNS TABLE (fresh_until timestamptz, connector_id integer)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT f.fresh_until, f.connector_id FROM connector_freshness f WHERE (f.fresh_until, f.connector_id) > (after, after_id)
    ORDER BY f.fresh_until, f.connector_id OFFSET least(look, 100000) LIMIT 1
$$;
-- +goose StatementEnd
