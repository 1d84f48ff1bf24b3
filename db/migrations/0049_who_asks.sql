-- +goose Up
-- expand
-- Each request of services/api asks what its token is now, and each page of sources for their latest runs. A token's links are looked at one after another: a window over
-- them took ten times as long as finding them. Whom somebody sees is asked once for all of a page.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.role_now(token integer) RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    links    CONSTANT integer[] := (SELECT t.made_through || t.id FROM access_tokens t WHERE t.id = token);
    moment   CONSTANT timestamptz := clock_timestamp();
    link     integer;
    owner    integer;
    made_for integer;
    rank     integer;
    lowest   integer := 3;
BEGIN
    IF links IS NULL THEN
        RETURN NULL;
    END IF;
    FOREACH link IN ARRAY links LOOP   -- the one through which all others were made first
        SELECT a.user_id, least(api.rank(a.role), api.rank(u.role)) INTO owner, rank FROM access_tokens a LEFT JOIN users u ON u.user_id = a.user_id
        WHERE a.id = link AND a.revoked_at IS NULL AND coalesce(a.expires_at > moment, true);
        IF NOT FOUND OR (owner <> made_for AND lowest < 3) THEN   -- only a superadmin makes one for somebody else
            RETURN NULL;
        END IF;
        made_for := owner;
        lowest := least(lowest, rank);
    END LOOP;
    RETURN (ARRAY['user', 'admin', 'superadmin'])[lowest];
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.latest_runs(connectors integer[], most integer)
    RETURNS TABLE (connector_id integer, id uuid, trigger text, status text, reason text, slot timestamptz, slot_last timestamptz, missed_count integer,
        due_at timestamptz, started_at timestamptz, completed_at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
    SET enable_sort = off SET enable_bitmapscan = off AS $$
#variable_conflict use_column
DECLARE
    viewer CONSTANT integer := api.viewer_id();
BEGIN
    RETURN QUERY SELECT l.* FROM unnest(connectors) i(id) CROSS JOIN LATERAL (   -- as api.seen_since says of one
            SELECT coalesce(CASE WHEN h.user_id = viewer THEN h.owned_version ELSE h.shared_version END, 0) AS version,
                coalesce(CASE WHEN h.user_id = viewer THEN h.owned_at ELSE h.shared_at END - interval '10 minutes', '-infinity') AS at
            FROM api.connectors c LEFT JOIN connector_handovers h ON h.connector_id = c.id AND NOT api.is_superadmin()
            WHERE c.id = i.id) s
        CROSS JOIN LATERAL (
            (SELECT o.connector_id, o.id, o.trigger, 'running', o.reason, o.slot, NULL::timestamptz, NULL::integer, o.due_at, o.started_at, NULL::timestamptz FROM open_runs o
            WHERE o.connector_id = i.id AND o.started_at >= s.at AND o.config_version >= s.version)
            UNION ALL
            (SELECT r.connector_id, r.id, r.trigger, r.status, r.reason, r.slot, r.slot_last, r.missed_count, r.due_at, r.started_at, r.completed_at FROM runs r
            WHERE r.connector_id = i.id AND r.started_at >= s.at AND r.config_version >= s.version
            ORDER BY r.started_at DESC, r.id DESC LIMIT least(most, 100))
            ORDER BY started_at DESC, id DESC LIMIT least(most, 100)) l
        ORDER BY l.connector_id, l.started_at DESC, l.id DESC;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.role_now(token integer) RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
    RETURN (SELECT CASE WHEN count(*) = max(c.links) AND bool_and(c.owner = c.made_for OR c.least = 3) THEN (ARRAY['user', 'admin', 'superadmin'])[min(c.least)] END
    FROM (SELECT cardinality(t.made_through) + 1 AS links, a.user_id AS owner, lead(a.user_id, 1, a.user_id) OVER (ORDER BY p.place) AS made_for,
            min(least(api.rank(a.role), api.rank(u.role))) OVER (ORDER BY p.place) AS least
        FROM access_tokens t CROSS JOIN unnest(t.made_through || t.id) WITH ORDINALITY p(id, place) JOIN access_tokens a ON a.id = p.id LEFT JOIN users u ON u.user_id = a.user_id
        WHERE t.id = token AND a.revoked_at IS NULL AND coalesce(a.expires_at > (SELECT clock_timestamp()), true)) c);
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.latest_runs(connectors integer[], most integer)
    RETURNS TABLE (connector_id integer, id uuid, trigger text, status text, reason text, slot timestamptz, slot_last timestamptz, missed_count integer,
        due_at timestamptz, started_at timestamptz, completed_at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
    SET enable_sort = off SET enable_bitmapscan = off AS $$
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
