-- +goose NO TRANSACTION
-- +goose Up
-- expand
-- Each request of services/api asks what its token is now, and each page of sources for their latest runs. A token's links are looked at one after another: a window over
-- them took ten times as long as finding them. Whom somebody sees is asked once for all of a page. Most of what is asked for is the viewer's own: that is looked at first, as
-- each look reads the setting of the request.
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
        SELECT a.user_id, least(api.rank(a.role), api.rank((SELECT u.role FROM users u WHERE u.user_id = a.user_id))) INTO owner, rank FROM access_tokens a
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
            WHERE c.id = i.id OFFSET 0) s   -- each by its key: a plan from when there were few would read all of them for each page
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

CREATE OR REPLACE VIEW api.connectors AS
SELECT c.id, c.name, c.type, c.user_id, c.scope, c.scope_id, c.config, c.refresh_freq_minutes, c.schedule_cron, c.run_at_once, c.time_zone, c.dst_gap, c.dst_overlap,
    c.spread_percent, c.deadline_minutes, c.overlap, c.once_per, c.catch_up, c.catch_up_most, c.catch_up_minutes, c.fresh_within_minutes, c.max_retries, c.deletion_guard,
    c.trigger_requested_at, c.created_at, c.created_by, c.updated_at, c.updated_by, c.status, c.status_message, c.config_version, c.last_sync_at,
    c.next_sync_at, c.due_reason, c.planned_through, c.needs_plan, c.claimed_at, c.claimed_for, c.synced_for, c.deletions_allowed_at, c.next_parameters,
    c.run_id, c.failure_count, c.put_off_since, c.slot_at, c.over_at, c.condition, c.calendar, c.calendar_use, c.concurrency_keys, c.waits_for_key, c.kept_plan, c.parameters_due_at, c.synced_version,
    c.follows, now()::timestamptz AS seen_at,
    (c.type <> ALL ((SELECT api.job_types())::text[])
        AND ((c.scope = 'user' AND c.user_id = api.viewer_id()) OR (c.scope = 'group' AND c.scope_id = ANY ((SELECT api.groups('change_groups'))::text[])))) OR api.is_superadmin() AS may_change
FROM connectors c
WHERE ((c.scope = 'user' AND c.user_id = api.viewer_id())
        OR c.scope = ANY (api.open_scopes())
        OR (c.scope = 'group' AND c.scope_id = ANY (api.groups('groups')))
        OR (c.scope = ANY (api.job_scopes()) AND c.type = ANY ((SELECT api.job_types())::text[])))
    AND (c.type <> ALL ((SELECT api.job_types())::text[]) OR c.scope = ANY (api.job_scopes()));
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.sees(type text, owner integer, scope text, scope_id text) RETURNS boolean LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN CASE WHEN type = ANY (api.job_types()) THEN scope = ANY (api.job_scopes())
        ELSE (scope = 'user' AND owner = api.viewer_id()) OR scope = ANY (api.open_scopes()) OR (scope = 'group' AND scope_id = ANY (api.groups('groups'))) END;
END $$;
-- +goose StatementEnd

-- A page of connectors that the viewer sees, behind a place: by number or, by_freshness, the one that is late for longest first. With a filter, or in very many groups, it looks at so many of them at most: where there
-- may be more, its last row says from where on (is_end). Who reads them asks api.connectors for these numbers. Planned for each call: it is short, and what is not asked for is not in it.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.list_connectors(by_freshness boolean, after timestamptz, after_id integer, page integer, look integer,
    of_type text, named text, of_status text, owner integer, of_scope text, of_scope_id text, is_late boolean) RETURNS TABLE (connector_id integer, fresh_until timestamptz, is_end boolean)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    moment     timestamptz := clock_timestamp();
    sees_all   boolean := api.is_superadmin();
    -- Who sees what the filter asks for: all, where it does not say.
    narrow     text[] := CASE WHEN of_scope = 'system' THEN '{job}' WHEN of_scope = 'org' THEN '{org,job}' WHEN of_scope = 'group' THEN ARRAY['group:' || of_scope_id, 'job']
        WHEN of_scope = 'user' THEN ARRAY['user:' || owner, 'job'] END;
    ways       text[];
    is_noted   boolean := of_status IN ('ERROR', 'DISABLED');   -- null: no status is asked for
    places     text := CASE WHEN is_noted THEN 'connector_faults' ELSE 'connector_freshness' END;
    -- Where the place has the type, those of others are not looked for among the connectors.
    conditions text := concat(CASE WHEN of_type IS NOT NULL AND is_noted IS NOT TRUE THEN ' AND f.type = ANY (ARRAY[$8])' END, CASE WHEN of_type IS NOT NULL THEN ' AND c.type = $8' END, CASE WHEN named IS NOT NULL THEN ' AND strpos(lower(c.name), lower($9)) > 0' END,
        CASE WHEN NOT is_noted THEN ' AND c.status = $10' END, CASE WHEN owner IS NOT NULL THEN ' AND c.user_id = $11' END,
        CASE WHEN of_scope IS NOT NULL THEN ' AND c.scope = $12' END, CASE WHEN of_scope_id IS NOT NULL THEN ' AND c.scope_id = $13' END);
    -- Each by its key, behind a fence: where statistics are older than a group, the planner would read all of the group for each of its connectors.
    found      text := CASE WHEN conditions <> '' THEN 'CROSS JOIN LATERAL (SELECT c.type, c.name, c.status, c.user_id, c.scope, c.scope_id FROM connectors c WHERE c.id = f.connector_id OFFSET 0) c' END;
    is_bound   boolean := conditions <> '' OR (is_late AND NOT by_freshness);
    few        integer := least(look, 100000) / CASE WHEN by_freshness THEN 10 ELSE 1 END;
    each       integer;
    through    timestamptz;
    through_id integer;
    -- By number it is of no account, and not in the index.
    until      text := CASE WHEN by_freshness THEN 'f.fresh_until' ELSE '$2 AS fresh_until' END;
    place      text := CASE WHEN by_freshness THEN 'f.fresh_until, f.connector_id' ELSE 'f.connector_id' END;
    behind     text := CASE WHEN by_freshness THEN '(f.fresh_until, f.connector_id) > ($2, $3)' ELSE 'f.connector_id > $3' END;
    wanted     text := concat(conditions, CASE WHEN is_late THEN ' AND f.fresh_until < $7' END);
    -- Who sees them, and which status they have, is in the order, too, and no plain equality, which the planner takes out of it: another index has them in the order of the rest, with all others between them.
    ordered    text := place;
    found_rows integer;
BEGIN
    IF array_position(narrow, NULL) IS NOT NULL THEN   -- of which group, or whose, is not said
        narrow := NULL;
    END IF;
    IF sees_all THEN
        ways := narrow;
    ELSE
        ways := ARRAY(SELECT w FROM unnest(api.sees_as()) w WHERE narrow IS NULL OR w = ANY (narrow));
    END IF;
    CASE
        WHEN is_noted AND ways IS NOT NULL THEN
            behind := format('f.status || %L || f.seen_by = ANY (ARRAY[%L || w.seen_by]) AND %s', ' ', of_status || ' ', behind);
            ordered := format('f.status || %L || f.seen_by, %s', ' ', place);
        WHEN is_noted THEN
            behind := format('f.status = ANY (ARRAY[%L]) AND %s', of_status, behind);
            ordered := 'f.status, ' || place;
        WHEN ways IS NOT NULL THEN
            behind := 'f.seen_by = ANY (ARRAY[w.seen_by]) AND ' || behind;
            ordered := 'f.seen_by, ' || place;
        ELSE   -- all of them
    END CASE;
    each := greatest(least(look, 100000) / greatest(cardinality(ways), 1), 1);   -- all together no more than that
    is_bound := is_bound OR cardinality(ways)::bigint * page > 2 * least(look, 100000);   -- a page of somebody in very many groups
    IF is_bound THEN
        EXECUTE format('SELECT n.fresh_until, n.connector_id FROM unnest($1) w(seen_by) CROSS JOIN LATERAL (
            SELECT %s, f.connector_id FROM %I f WHERE %s ORDER BY %s OFFSET $4 LIMIT 1) n ORDER BY %s LIMIT 1', until, places, behind, ordered, replace(place, 'f.', 'n.'))
        INTO through, through_id USING coalesce(ways, '{all}'), after, after_id, each;
    END IF;
    -- Few are in flight: it looks at these, by number at no more than it takes to find a page. By freshness each is read by its keys, and of many a page is sooner found among all.
    IF through_id IS NOT NULL AND of_status IN ('PENDING', 'SYNCING') AND (SELECT count(*) FROM (SELECT FROM open_runs LIMIT few + 1) r) <= few THEN
        RETURN QUERY EXECUTE format('SELECT f.connector_id, %s, false FROM (SELECT o.connector_id FROM open_runs o %s OFFSET 0) r
                CROSS JOIN LATERAL (SELECT * FROM connector_freshness n WHERE n.connector_id = r.connector_id OFFSET 0) f %s WHERE %s%s ORDER BY %s LIMIT $6',
                until, CASE WHEN NOT by_freshness THEN 'WHERE o.connector_id > $3 ORDER BY o.connector_id' END, found, replace(behind, 'ARRAY[w.seen_by]', '$1'), wanted,
                CASE WHEN by_freshness THEN place ELSE 'r.connector_id' END)
            USING ways, after, after_id, through, through_id, page, moment, of_type, named, of_status, owner, of_scope, of_scope_id;
        RETURN;
    END IF;
    IF through_id IS NOT NULL THEN
        behind := behind || CASE WHEN by_freshness THEN ' AND (f.fresh_until, f.connector_id) <= ($4, $5)' ELSE ' AND f.connector_id <= $5' END;
    END IF;
    RETURN QUERY EXECUTE format('SELECT n.connector_id, n.fresh_until, false FROM unnest($1) w(seen_by) CROSS JOIN LATERAL (
            SELECT f.connector_id, %s FROM %I f %s WHERE %s%s ORDER BY %s LIMIT $6) n ORDER BY %s LIMIT $6',
            until, places, found, behind, wanted, ordered, replace(place, 'f.', 'n.'))
        USING coalesce(ways, '{all}'), after, after_id, through, through_id, page, moment, of_type, named, of_status, owner, of_scope, of_scope_id;
    GET DIAGNOSTICS found_rows = ROW_COUNT;
    IF found_rows < page AND through_id IS NOT NULL AND NOT (is_late AND by_freshness AND through >= moment) THEN   -- none is late behind that
        RETURN QUERY SELECT through_id, through, true;
    END IF;
END $$;
-- +goose StatementEnd

-- What an answer why, or a page of sources, says of each: its run, and what that waits for, are found by their keys. With a plain equality the planner may walk all of them in the order of their keys
-- instead, and a plan that is kept from when nothing was in flight did so for each connector.
CREATE OR REPLACE VIEW connector_evidence AS
SELECT clock_timestamp() AS seen_at,
    c.id, c.name, c.type, c.user_id, c.status, c.status_message, c.failure_count, c.max_retries, c.refresh_freq_minutes, c.schedule_cron,
    c.time_zone, c.dst_gap, c.dst_overlap, c.spread_percent, c.deadline_minutes, c.overlap, c.once_per, c.catch_up, c.catch_up_most, c.catch_up_minutes,
    c.fresh_within_minutes, c.synced_version, c.config_version, c.calendar, c.calendar_use,
    c.follows, c.asks_upstreams, v.upstream_id, v.upstream_name, v.upstream_status, v.upstream_ended_at,
    c.condition, c.asks_condition, c.waits_for_key, kl.most AS key_most, kp.held AS key_held, ks.since AS key_held_since, ks.connector_id AS key_holder, c.condition_met_at, u.last_at AS unmet_at, u.count AS unmet_count,
    c.claimed_at, c.synced_for, c.needs_plan, c.planned_through, c.next_sync_at, c.due_reason, c.slot_at, c.trigger_requested_at, c.parameters_due_at, c.last_sync_at, c.docs_analyzed, c.put_off_since,
    r.id AS run_id, r.trigger, r.due_at, r.started_at, r.dispatched_at, r.dispatches, r.picked_up_at, r.try_id, r.worker_id,
    w.expires_at AS lease_expires_at, r.fetched_at, r.drain_seq, r.total, r.stored, r.whole, r.cut,
    r.waits_until, r.wait_message, r.progress_done, r.progress_total, r.progress_text,
    q.key AS lock_key, q.since AS lock_asked_at, l.run_id AS lock_run_id, l.connector_id AS lock_connector_id, l.expires_at AS lock_expires_at,
    t.kind, t.max_concurrent_syncs AS type_cap,
    (SELECT count(*) FROM (SELECT FROM connectors d WHERE d.type = c.type AND d.due_at < c.due_at LIMIT 10000) n) AS due_before,
    (SELECT count(*) FROM (SELECT FROM open_runs o WHERE o.type = c.type LIMIT greatest(100000, t.max_concurrent_syncs)) n) AS in_flight,
    (SELECT count(*) FROM open_runs o WHERE o.type = c.type AND o.user_id = coalesce(c.user_id, 0)) AS owner_in_flight,
    (SELECT q.max_concurrent_syncs FROM owner_quotas q WHERE q.user_id = c.user_id) AS owner_cap,
    -- By the ends of an index: whether there is one among very many of the same is what the planner looks for from the first on.
    coalesce((SELECT min(o.user_id) FROM connectors o WHERE o.type = c.type AND o.due_at IS NOT NULL) < c.user_id, false)
        OR coalesce((SELECT max(o.user_id) FROM connectors o WHERE o.type = c.type AND o.due_at IS NOT NULL) > c.user_id, false)
        OR coalesce((SELECT min(o.user_id) FROM open_runs o WHERE o.type = c.type) < c.user_id, false)
        OR coalesce((SELECT max(o.user_id) FROM open_runs o WHERE o.type = c.type) > c.user_id, false) AS has_other_owners,
    (SELECT count(*) FROM (SELECT FROM open_runs o WHERE o.type = c.type AND o.picked_up_at IS NULL
        AND o.dispatched_at < r.dispatched_at LIMIT 10000) n) AS pending_before,
    (SELECT count(*) FROM open_runs o JOIN workers l ON l.id = o.worker_id WHERE o.type = c.type
        AND l.expires_at > (SELECT clock_timestamp())) AS fetching,
    -- Whether anything was claimed since it is due: the sign of life of a scheduler that works.
    coalesce(c.due_at, c.next_sync_at) IS NOT NULL AND (EXISTS (SELECT FROM open_runs o WHERE o.dispatched_at >= coalesce(c.due_at, c.next_sync_at))
        OR EXISTS (SELECT FROM runs e WHERE e.missed_count IS NULL AND e.completed_at >= coalesce(c.due_at, c.next_sync_at)
            AND e.started_at >= coalesce(c.due_at, c.next_sync_at))) AS dispatched_since,
    r.publish_error,
    -- Why the broker has not taken what was published last of the type. What it does not take is published again each minute or so;
    -- an older error is of a message that is in the stream, whose acknowledgement was lost.
    (SELECT o.publish_error FROM open_runs o WHERE o.type = c.type AND o.picked_up_at IS NULL
        AND o.dispatched_at > (SELECT clock_timestamp()) - interval '5 minutes'
        ORDER BY o.dispatched_at DESC LIMIT 1) AS type_publish_error
FROM connectors c
JOIN connector_types t ON t.name = c.type
LEFT JOIN open_runs r ON r.id = ANY (ARRAY[c.run_id])
LEFT JOIN workers w ON w.id = ANY (ARRAY[r.worker_id])
LEFT JOIN unmet_slots u ON u.connector_id = ANY (ARRAY[c.id])
-- The first of those that it waits for.
LEFT JOIN LATERAL (SELECT n.upstream_id, p.name AS upstream_name, p.status AS upstream_status, n.ended_at AS upstream_ended_at
    FROM run_after_ends n JOIN connectors p ON p.id = n.upstream_id
    WHERE c.follows AND c.run_id IS NULL AND (c.asks_upstreams OR c.next_sync_at IS NULL) AND n.connector_id = c.id AND NOT (n.counted_no > n.used
        AND (n.max_age_minutes IS NULL OR coalesce(n.ended_for >= (SELECT clock_timestamp()) - make_interval(mins => n.max_age_minutes), false)))
    ORDER BY n.upstream_id LIMIT 1) v ON true
-- The lock that the run has waited for longest.
LEFT JOIN LATERAL (SELECT a.key, a.since FROM lock_waiters a WHERE a.run_id = r.id AND r.has_locks
    AND a.expires_at > (SELECT clock_timestamp()) ORDER BY a.no LIMIT 1) q ON true
LEFT JOIN resource_locks l ON l.key = ANY (ARRAY[q.key]) AND l.expires_at > (SELECT clock_timestamp())
LEFT JOIN concurrency_limits kl ON kl.key = ANY (ARRAY[c.waits_for_key])
-- Who has the places of the key that it waits for: how many.
LEFT JOIN LATERAL (SELECT count(*) AS held FROM key_places p WHERE p.key = c.waits_for_key) kp ON true
-- And who has had one longest, of up to 1,000.
LEFT JOIN LATERAL (SELECT p.since, p.connector_id FROM (SELECT o.since, o.connector_id FROM key_places o WHERE o.key = c.waits_for_key LIMIT 1000) p
    ORDER BY p.since LIMIT 1) ks ON true;

-- Whose change it was, whatever the statement says.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION connectors_by() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    writer text := (SELECT a.person FROM moves.actor() a);
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.created_by := writer;
        NEW.updated_by := writer;
    ELSE
        NEW.created_by := OLD.created_by;
        NEW.updated_by := OLD.updated_by;
        IF NOT (current_setting('echomind.resealing', true) IS NOT DISTINCT FROM 'on' AND connector_resealed(OLD, NEW)) THEN
            NEW.updated_by := writer;
        END IF;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER connectors_by_added BEFORE INSERT ON connectors FOR EACH ROW EXECUTE FUNCTION connectors_by();
CREATE OR REPLACE TRIGGER connectors_by_changed BEFORE UPDATE OF name, type, user_id, scope, scope_id, config, refresh_freq_minutes, schedule_cron, run_at_once, time_zone,
    dst_gap, dst_overlap, spread_percent, deadline_minutes, overlap, once_per, catch_up, catch_up_most, catch_up_minutes, fresh_within_minutes, calendar, calendar_use, condition, concurrency_keys, max_retries, deletion_guard,
    created_by, updated_by ON connectors FOR EACH ROW EXECUTE FUNCTION connectors_by();

-- +goose Down
CREATE OR REPLACE TRIGGER connectors_by_added BEFORE INSERT ON connectors FOR EACH ROW
    WHEN (NEW.created_by IS NULL OR NEW.updated_by IS NULL) EXECUTE FUNCTION connectors_by();
CREATE OR REPLACE TRIGGER connectors_by_changed BEFORE UPDATE OF name, type, user_id, scope, scope_id, config, refresh_freq_minutes, schedule_cron, run_at_once, time_zone,
    dst_gap, dst_overlap, spread_percent, deadline_minutes, overlap, once_per, catch_up, catch_up_most, catch_up_minutes, fresh_within_minutes, calendar, calendar_use, condition, concurrency_keys, max_retries, deletion_guard ON connectors
    FOR EACH ROW WHEN (NEW.updated_by IS NOT DISTINCT FROM OLD.updated_by) EXECUTE FUNCTION connectors_by();
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION connectors_by() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    writer text := (SELECT a.person FROM moves.actor() a);
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.created_by := coalesce(NEW.created_by, writer);
        NEW.updated_by := coalesce(NEW.updated_by, NEW.created_by);
    ELSIF current_setting('echomind.resealing', true) IS DISTINCT FROM 'on' THEN
        NEW.updated_by := writer;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE OR REPLACE VIEW connector_evidence AS
SELECT clock_timestamp() AS seen_at,
    c.id, c.name, c.type, c.user_id, c.status, c.status_message, c.failure_count, c.max_retries, c.refresh_freq_minutes, c.schedule_cron,
    c.time_zone, c.dst_gap, c.dst_overlap, c.spread_percent, c.deadline_minutes, c.overlap, c.once_per, c.catch_up, c.catch_up_most, c.catch_up_minutes,
    c.fresh_within_minutes, c.synced_version, c.config_version, c.calendar, c.calendar_use,
    c.follows, c.asks_upstreams, v.upstream_id, v.upstream_name, v.upstream_status, v.upstream_ended_at,
    c.condition, c.asks_condition, c.waits_for_key, kl.most AS key_most, kp.held AS key_held, ks.since AS key_held_since, ks.connector_id AS key_holder, c.condition_met_at, u.last_at AS unmet_at, u.count AS unmet_count,
    c.claimed_at, c.synced_for, c.needs_plan, c.planned_through, c.next_sync_at, c.due_reason, c.slot_at, c.trigger_requested_at, c.parameters_due_at, c.last_sync_at, c.docs_analyzed, c.put_off_since,
    r.id AS run_id, r.trigger, r.due_at, r.started_at, r.dispatched_at, r.dispatches, r.picked_up_at, r.try_id, r.worker_id,
    w.expires_at AS lease_expires_at, r.fetched_at, r.drain_seq, r.total, r.stored, r.whole, r.cut,
    r.waits_until, r.wait_message, r.progress_done, r.progress_total, r.progress_text,
    q.key AS lock_key, q.since AS lock_asked_at, l.run_id AS lock_run_id, l.connector_id AS lock_connector_id, l.expires_at AS lock_expires_at,
    t.kind, t.max_concurrent_syncs AS type_cap,
    (SELECT count(*) FROM (SELECT FROM connectors d WHERE d.type = c.type AND d.due_at < c.due_at LIMIT 10000) n) AS due_before,
    (SELECT count(*) FROM (SELECT FROM open_runs o WHERE o.type = c.type LIMIT greatest(100000, t.max_concurrent_syncs)) n) AS in_flight,
    (SELECT count(*) FROM open_runs o WHERE o.type = c.type AND o.user_id = coalesce(c.user_id, 0)) AS owner_in_flight,
    (SELECT q.max_concurrent_syncs FROM owner_quotas q WHERE q.user_id = c.user_id) AS owner_cap,
    -- By the ends of an index: whether there is one among very many of the same is what the planner looks for from the first on.
    coalesce((SELECT min(o.user_id) FROM connectors o WHERE o.type = c.type AND o.due_at IS NOT NULL) < c.user_id, false)
        OR coalesce((SELECT max(o.user_id) FROM connectors o WHERE o.type = c.type AND o.due_at IS NOT NULL) > c.user_id, false)
        OR coalesce((SELECT min(o.user_id) FROM open_runs o WHERE o.type = c.type) < c.user_id, false)
        OR coalesce((SELECT max(o.user_id) FROM open_runs o WHERE o.type = c.type) > c.user_id, false) AS has_other_owners,
    (SELECT count(*) FROM (SELECT FROM open_runs o WHERE o.type = c.type AND o.picked_up_at IS NULL
        AND o.dispatched_at < r.dispatched_at LIMIT 10000) n) AS pending_before,
    (SELECT count(*) FROM open_runs o JOIN workers l ON l.id = o.worker_id WHERE o.type = c.type
        AND l.expires_at > (SELECT clock_timestamp())) AS fetching,
    -- Whether anything was claimed since it is due: the sign of life of a scheduler that works.
    coalesce(c.due_at, c.next_sync_at) IS NOT NULL AND (EXISTS (SELECT FROM open_runs o WHERE o.dispatched_at >= coalesce(c.due_at, c.next_sync_at))
        OR EXISTS (SELECT FROM runs e WHERE e.missed_count IS NULL AND e.completed_at >= coalesce(c.due_at, c.next_sync_at)
            AND e.started_at >= coalesce(c.due_at, c.next_sync_at))) AS dispatched_since,
    r.publish_error,
    -- Why the broker has not taken what was published last of the type. What it does not take is published again each minute or so;
    -- an older error is of a message that is in the stream, whose acknowledgement was lost.
    (SELECT o.publish_error FROM open_runs o WHERE o.type = c.type AND o.picked_up_at IS NULL
        AND o.dispatched_at > (SELECT clock_timestamp()) - interval '5 minutes'
        ORDER BY o.dispatched_at DESC LIMIT 1) AS type_publish_error
FROM connectors c
JOIN connector_types t ON t.name = c.type
LEFT JOIN open_runs r ON r.id = c.run_id
LEFT JOIN workers w ON w.id = r.worker_id
LEFT JOIN unmet_slots u ON u.connector_id = c.id
-- The first of those that it waits for.
LEFT JOIN LATERAL (SELECT n.upstream_id, p.name AS upstream_name, p.status AS upstream_status, n.ended_at AS upstream_ended_at
    FROM run_after_ends n JOIN connectors p ON p.id = n.upstream_id
    WHERE c.follows AND c.run_id IS NULL AND (c.asks_upstreams OR c.next_sync_at IS NULL) AND n.connector_id = c.id AND NOT (n.counted_no > n.used
        AND (n.max_age_minutes IS NULL OR coalesce(n.ended_for >= (SELECT clock_timestamp()) - make_interval(mins => n.max_age_minutes), false)))
    ORDER BY n.upstream_id LIMIT 1) v ON true
-- The lock that the run has waited for longest.
LEFT JOIN LATERAL (SELECT a.key, a.since FROM lock_waiters a WHERE a.run_id = r.id AND r.has_locks
    AND a.expires_at > (SELECT clock_timestamp()) ORDER BY a.no LIMIT 1) q ON true
LEFT JOIN resource_locks l ON l.key = q.key AND l.expires_at > (SELECT clock_timestamp())
LEFT JOIN concurrency_limits kl ON kl.key = c.waits_for_key
-- Who has the places of the key that it waits for: how many.
LEFT JOIN LATERAL (SELECT count(*) AS held FROM key_places p WHERE p.key = c.waits_for_key) kp ON true
-- And who has had one longest, of up to 1,000.
LEFT JOIN LATERAL (SELECT p.since, p.connector_id FROM (SELECT o.since, o.connector_id FROM key_places o WHERE o.key = c.waits_for_key LIMIT 1000) p
    ORDER BY p.since LIMIT 1) ks ON true;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.list_connectors(by_freshness boolean, after timestamptz, after_id integer, page integer, look integer,
    of_type text, named text, of_status text, owner integer, of_scope text, of_scope_id text, is_late boolean) RETURNS TABLE (connector_id integer, fresh_until timestamptz, is_end boolean)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    moment     timestamptz := clock_timestamp();
    sees_all   boolean := api.is_superadmin();
    -- Who sees what the filter asks for: all, where it does not say.
    narrow     text[] := CASE WHEN of_scope = 'system' THEN '{job}' WHEN of_scope = 'org' THEN '{org,job}' WHEN of_scope = 'group' THEN ARRAY['group:' || of_scope_id, 'job']
        WHEN of_scope = 'user' THEN ARRAY['user:' || owner, 'job'] END;
    ways       text[];
    is_noted   boolean := of_status IN ('ERROR', 'DISABLED');   -- null: no status is asked for
    places     text := CASE WHEN is_noted THEN 'connector_faults' ELSE 'connector_freshness' END;
    conditions text := concat(CASE WHEN of_type IS NOT NULL THEN ' AND c.type = $8' END, CASE WHEN named IS NOT NULL THEN ' AND strpos(lower(c.name), lower($9)) > 0' END,
        CASE WHEN NOT is_noted THEN ' AND c.status = $10' END, CASE WHEN owner IS NOT NULL THEN ' AND c.user_id = $11' END,
        CASE WHEN of_scope IS NOT NULL THEN ' AND c.scope = $12' END, CASE WHEN of_scope_id IS NOT NULL THEN ' AND c.scope_id = $13' END);
    -- Each by its key, behind a fence: where statistics are older than a group, the planner would read all of the group for each of its connectors.
    found      text := CASE WHEN conditions <> '' THEN 'CROSS JOIN LATERAL (SELECT c.type, c.name, c.status, c.user_id, c.scope, c.scope_id FROM connectors c WHERE c.id = f.connector_id OFFSET 0) c' END;
    is_bound   boolean := conditions <> '' OR (is_late AND NOT by_freshness);
    few        integer := least(look, 100000) / CASE WHEN by_freshness THEN 10 ELSE 1 END;
    each       integer;
    through    timestamptz;
    through_id integer;
    -- By number it is of no account, and not in the index.
    until      text := CASE WHEN by_freshness THEN 'f.fresh_until' ELSE '$2 AS fresh_until' END;
    place      text := CASE WHEN by_freshness THEN 'f.fresh_until, f.connector_id' ELSE 'f.connector_id' END;
    behind     text := CASE WHEN by_freshness THEN '(f.fresh_until, f.connector_id) > ($2, $3)' ELSE 'f.connector_id > $3' END;
    wanted     text := concat(conditions, CASE WHEN is_late THEN ' AND f.fresh_until < $7' END);
    -- Who sees them, and which status they have, is in the order, too, and no plain equality, which the planner takes out of it: another index has them in the order of the rest, with all others between them.
    ordered    text := place;
    found_rows integer;
BEGIN
    IF array_position(narrow, NULL) IS NOT NULL THEN   -- of which group, or whose, is not said
        narrow := NULL;
    END IF;
    IF sees_all THEN
        ways := narrow;
    ELSE
        ways := ARRAY(SELECT w FROM unnest(api.sees_as()) w WHERE narrow IS NULL OR w = ANY (narrow));
    END IF;
    CASE
        WHEN is_noted AND ways IS NOT NULL THEN
            behind := format('f.status || %L || f.seen_by = ANY (ARRAY[%L || w.seen_by]) AND %s', ' ', of_status || ' ', behind);
            ordered := format('f.status || %L || f.seen_by, %s', ' ', place);
        WHEN is_noted THEN
            behind := format('f.status = ANY (ARRAY[%L]) AND %s', of_status, behind);
            ordered := 'f.status, ' || place;
        WHEN ways IS NOT NULL THEN
            behind := 'f.seen_by = ANY (ARRAY[w.seen_by]) AND ' || behind;
            ordered := 'f.seen_by, ' || place;
        ELSE   -- all of them
    END CASE;
    each := greatest(least(look, 100000) / greatest(cardinality(ways), 1), 1);   -- all together no more than that
    is_bound := is_bound OR cardinality(ways)::bigint * page > 2 * least(look, 100000);   -- a page of somebody in very many groups
    IF is_bound THEN
        EXECUTE format('SELECT n.fresh_until, n.connector_id FROM unnest($1) w(seen_by) CROSS JOIN LATERAL (
            SELECT %s, f.connector_id FROM %I f WHERE %s ORDER BY %s OFFSET $4 LIMIT 1) n ORDER BY %s LIMIT 1', until, places, behind, ordered, replace(place, 'f.', 'n.'))
        INTO through, through_id USING coalesce(ways, '{all}'), after, after_id, each;
    END IF;
    -- Few are in flight: it looks at these, by number at no more than it takes to find a page. By freshness each is read by its keys, and of many a page is sooner found among all.
    IF through_id IS NOT NULL AND of_status IN ('PENDING', 'SYNCING') AND (SELECT count(*) FROM (SELECT FROM open_runs LIMIT few + 1) r) <= few THEN
        RETURN QUERY EXECUTE format('SELECT f.connector_id, %s, false FROM (SELECT o.connector_id FROM open_runs o %s OFFSET 0) r
                CROSS JOIN LATERAL (SELECT * FROM connector_freshness n WHERE n.connector_id = r.connector_id OFFSET 0) f %s WHERE %s%s ORDER BY %s LIMIT $6',
                until, CASE WHEN NOT by_freshness THEN 'WHERE o.connector_id > $3 ORDER BY o.connector_id' END, found, replace(behind, 'ARRAY[w.seen_by]', '$1'), wanted,
                CASE WHEN by_freshness THEN place ELSE 'r.connector_id' END)
            USING ways, after, after_id, through, through_id, page, moment, of_type, named, of_status, owner, of_scope, of_scope_id;
        RETURN;
    END IF;
    IF through_id IS NOT NULL THEN
        behind := behind || CASE WHEN by_freshness THEN ' AND (f.fresh_until, f.connector_id) <= ($4, $5)' ELSE ' AND f.connector_id <= $5' END;
    END IF;
    RETURN QUERY EXECUTE format('SELECT n.connector_id, n.fresh_until, false FROM unnest($1) w(seen_by) CROSS JOIN LATERAL (
            SELECT f.connector_id, %s FROM %I f %s WHERE %s%s ORDER BY %s LIMIT $6) n ORDER BY %s LIMIT $6',
            until, places, found, behind, wanted, ordered, replace(place, 'f.', 'n.'))
        USING coalesce(ways, '{all}'), after, after_id, through, through_id, page, moment, of_type, named, of_status, owner, of_scope, of_scope_id;
    GET DIAGNOSTICS found_rows = ROW_COUNT;
    IF found_rows < page AND through_id IS NOT NULL AND NOT (is_late AND by_freshness AND through >= moment) THEN   -- none is late behind that
        RETURN QUERY SELECT through_id, through, true;
    END IF;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.sees(type text, owner integer, scope text, scope_id text) RETURNS boolean LANGUAGE plpgsql STABLE
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
BEGIN
    RETURN CASE WHEN type = ANY (api.job_types()) THEN scope = ANY (api.job_scopes())
        ELSE scope = ANY (api.open_scopes()) OR (scope = 'user' AND owner = api.viewer_id()) OR (scope = 'group' AND scope_id = ANY (api.groups('groups'))) END;
END $$;
-- +goose StatementEnd
CREATE OR REPLACE VIEW api.connectors AS
SELECT c.id, c.name, c.type, c.user_id, c.scope, c.scope_id, c.config, c.refresh_freq_minutes, c.schedule_cron, c.run_at_once, c.time_zone, c.dst_gap, c.dst_overlap,
    c.spread_percent, c.deadline_minutes, c.overlap, c.once_per, c.catch_up, c.catch_up_most, c.catch_up_minutes, c.fresh_within_minutes, c.max_retries, c.deletion_guard,
    c.trigger_requested_at, c.created_at, c.created_by, c.updated_at, c.updated_by, c.status, c.status_message, c.config_version, c.last_sync_at,
    c.next_sync_at, c.due_reason, c.planned_through, c.needs_plan, c.claimed_at, c.claimed_for, c.synced_for, c.deletions_allowed_at, c.next_parameters,
    c.run_id, c.failure_count, c.put_off_since, c.slot_at, c.over_at, c.condition, c.calendar, c.calendar_use, c.concurrency_keys, c.waits_for_key, c.kept_plan, c.parameters_due_at, c.synced_version,
    c.follows, now()::timestamptz AS seen_at,
    api.is_superadmin() OR (c.type <> ALL ((SELECT api.job_types())::text[])
        AND ((c.scope = 'user' AND c.user_id = api.viewer_id()) OR (c.scope = 'group' AND c.scope_id = ANY ((SELECT api.groups('change_groups'))::text[])))) AS may_change
FROM connectors c
WHERE (c.scope = ANY (api.open_scopes())
        OR (c.scope = 'user' AND c.user_id = api.viewer_id())
        OR (c.scope = 'group' AND c.scope_id = ANY (api.groups('groups')))
        OR (c.scope = ANY (api.job_scopes()) AND c.type = ANY ((SELECT api.job_types())::text[])))
    AND (c.type <> ALL ((SELECT api.job_types())::text[]) OR c.scope = ANY (api.job_scopes()));
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
