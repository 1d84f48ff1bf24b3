-- +goose Up
-- expand
-- One statement reads the runs that many people watch at a process of services/api, with the rights that each of them has at that moment: docs/api.md, Watch.

-- What one watcher sees now of some open runs, or of how they have ended. watcher has user_id, and either token_id, or issuer, subject, said_role, said_groups and said_leads,
-- as they were when the watcher signed in. No row for a run that the watcher does not see, and none at all where the watcher may not sign in any more.
-- Each run comes with when it began, so that of the ledger no week from before that is read.
-- +goose StatementBegin
CREATE FUNCTION api.watched_runs(watcher jsonb, ids uuid[], began timestamptz[])
    RETURNS TABLE (connector_name text, run api.runs)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off
    -- They end with the call, as the function sets them.
    SET echomind.request = '' SET echomind.groups = '' SET echomind.change_groups = '' AS $$
DECLARE
    owner     integer := (watcher ->> 'user_id')::integer;
    stands    text;
    groups_   text[];
    leads_    text[];
    open_runs_seen bigint;
BEGIN
    IF watcher ->> 'token_id' IS NOT NULL THEN
        stands := api.role_now((watcher ->> 'token_id')::integer);
        SELECT array_agg(g.group_id), array_agg(g.group_id) FILTER (WHERE g.leads) INTO groups_, leads_
            FROM (SELECT * FROM group_members m WHERE m.user_id = owner ORDER BY m.group_id LIMIT 1000) g;
    ELSE
        SELECT CASE WHEN s.refused IS NULL AND s.user_id = owner THEN s.role END,
                s.groups || ARRAY(SELECT jsonb_array_elements_text(watcher -> 'said_groups')), s.leads || ARRAY(SELECT jsonb_array_elements_text(watcher -> 'said_leads'))
            INTO stands, groups_, leads_
            FROM api.sign_in(watcher ->> 'issuer', watcher ->> 'subject', owner, watcher ->> 'said_role', 0, NULL) s;
    END IF;
    IF stands IS NULL THEN
        RETURN;
    END IF;
    PERFORM set_config('echomind.request', (watcher || jsonb_build_object('role', stands))::text, true),
        set_config('echomind.groups', coalesce(array_to_string(groups_, ','), ''), true),
        set_config('echomind.change_groups', coalesce(array_to_string(CASE stands WHEN 'user' THEN leads_ ELSE groups_ END, ','), ''), true);
    RETURN QUERY SELECT (SELECT c.name FROM api.connectors c WHERE c.id = r.connector_id), r FROM api.runs r WHERE r.id = ANY (ids) AND r.status = 'running';
    GET DIAGNOSTICS open_runs_seen = ROW_COUNT;
    IF open_runs_seen < cardinality(ids) THEN   -- the others have ended, or are not seen
        -- An hour, since a failover may set the clock back.
        RETURN QUERY SELECT (SELECT c.name FROM api.connectors c WHERE c.id = (e.r).connector_id), e.r
            FROM unnest(ids, began) w(id, began) CROSS JOIN LATERAL (
                SELECT r FROM api.runs r WHERE r.id = w.id AND r.completed_at >= w.began - interval '1 hour' AND r.status <> 'running' OFFSET 0) e;
    END IF;
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION api.watched_runs(jsonb, uuid[], timestamptz[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.watched_runs(jsonb, uuid[], timestamptz[]) TO echomind_api;

-- +goose Down
DROP FUNCTION api.watched_runs(jsonb, uuid[], timestamptz[]);
