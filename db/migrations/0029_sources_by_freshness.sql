-- +goose NO TRANSACTION
-- +goose Up
-- expand
-- Connectors in the order in which they are, or will be, late: what services/api lists the latest of first. connector_freshness had those that say how old they may be. It has all
-- from now on: one that does not say so is a hundred years away from being late, counted from when it was added, so that these come behind all others, and none is ever late.
-- An index of connectors would cost each statement of each move a page; this table is written when a sync of those completes that say how old they may be, and of no other.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION connectors_note_freshness() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM connector_freshness f WHERE f.connector_id = OLD.id;
    ELSE
        INSERT INTO connector_freshness AS f (connector_id, type, fresh_until)
        VALUES (NEW.id, NEW.type, CASE WHEN NEW.fresh_within_minutes IS NULL THEN NEW.created_at + make_interval(mins => 52560000)
            ELSE coalesce(NEW.last_sync_at, NEW.created_at) + make_interval(mins => NEW.fresh_within_minutes) END)
        ON CONFLICT (connector_id) DO UPDATE SET type = EXCLUDED.type, fresh_until = EXCLUDED.fresh_until;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER connectors_freshness_added AFTER INSERT ON connectors FOR EACH ROW EXECUTE FUNCTION connectors_note_freshness();
CREATE OR REPLACE TRIGGER connectors_freshness_changed AFTER UPDATE OF type, fresh_within_minutes, last_sync_at ON connectors FOR EACH ROW
    WHEN ((NEW.type, NEW.fresh_within_minutes) IS DISTINCT FROM (OLD.type, OLD.fresh_within_minutes)
        OR NEW.fresh_within_minutes IS NOT NULL AND NEW.last_sync_at IS DISTINCT FROM OLD.last_sync_at)
    EXECUTE FUNCTION connectors_note_freshness();
CREATE OR REPLACE TRIGGER connectors_freshness_gone AFTER DELETE ON connectors FOR EACH ROW EXECUTE FUNCTION connectors_note_freshness();
-- Those that are there, a thousand to a transaction, so that no move waits for long. The lock keeps one from being deleted between the two.
-- +goose StatementBegin
DO $$
DECLARE
    after integer := 0;
BEGIN
    WHILE after IS NOT NULL LOOP
        WITH part AS MATERIALIZED (SELECT c.id, c.type, c.created_at + make_interval(mins => 52560000) AS fresh_until, c.fresh_within_minutes
                FROM connectors c WHERE c.id > after ORDER BY c.id LIMIT 1000 FOR KEY SHARE),
            added AS (INSERT INTO connector_freshness SELECT s.id, s.type, s.fresh_until FROM part s WHERE s.fresh_within_minutes IS NULL ON CONFLICT DO NOTHING)
        SELECT max(s.id) INTO after FROM part s;
        COMMIT;
    END LOOP;
END $$;
-- +goose StatementEnd
-- A try that ended half-way leaves an index that is not valid.
DROP INDEX CONCURRENTLY IF EXISTS connector_freshness_order;
-- FreshestLast: a page of connectors, the latest first.
CREATE INDEX CONCURRENTLY connector_freshness_order ON connector_freshness (fresh_until, connector_id);

-- What somebody sees, in that order, with what lists are filtered by.
CREATE OR REPLACE VIEW api.by_freshness AS
SELECT f.fresh_until, f.connector_id AS id, c.name, c.type, c.status, c.user_id, c.scope, c.scope_id FROM connector_freshness f JOIN api.connectors c ON c.id = f.connector_id;

-- The place in that order that is so many behind another, as api.connectors_through is by number. No row: there are not so many.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.freshness_through(after timestamptz, after_id integer, look integer) RETURNS TABLE (fresh_until timestamptz, connector_id integer)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT f.fresh_until, f.connector_id FROM connector_freshness f WHERE (f.fresh_until, f.connector_id) > (after, after_id)
    ORDER BY f.fresh_until, f.connector_id OFFSET least(look, 100000) LIMIT 1
$$;
-- +goose StatementEnd
-- api.waiting: those that wait for a place of a concurrency key, the longest due first.
DROP INDEX CONCURRENTLY IF EXISTS key_waiters_due;
CREATE INDEX CONCURRENTLY key_waiters_due ON key_waiters (due_at, connector_id);

-- What waits of what the viewer sees, the longest first: what is due, for a place of a key or for its turn, since it is due; what waits for a worker, since its message was sent; and a
-- run that waits for a lock, since it asked. It looks at so many of all that wait, and answers with up to page of them. Where it ends before the last, a row with is_end says as far as where.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.waiting(after timestamptz, after_id integer, page integer, look integer)
    RETURNS TABLE (connector_id integer, since timestamptz, is_end boolean)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    most   integer := least(look, 10000) + 1;
    looked integer := 0;
    shown  integer := 0;
    w      record;
BEGIN
    is_end := false;
    FOR w IN SELECT u.id, u.at FROM (
            (SELECT d.id, d.due_at AS at FROM connector_types t CROSS JOIN LATERAL (SELECT c.id, c.due_at FROM connectors c
                WHERE c.type = t.name AND c.due_at <= moment AND c.due_at >= after AND (c.due_at, c.id) > (after, after_id) ORDER BY c.due_at, c.id LIMIT most) d)
            UNION ALL (SELECT k.connector_id, k.due_at FROM key_waiters k
                WHERE k.due_at <= moment AND (k.due_at, k.connector_id) > (after, after_id) ORDER BY k.due_at, k.connector_id LIMIT most)
            UNION ALL (SELECT r.connector_id, r.dispatched_at FROM connector_types t CROSS JOIN LATERAL (SELECT o.connector_id, o.dispatched_at FROM open_runs o
                WHERE o.type = t.name AND o.picked_up_at IS NULL AND o.dispatched_at >= after AND (o.dispatched_at, o.connector_id) > (after, after_id)
                ORDER BY o.dispatched_at, o.connector_id LIMIT most) r)
            UNION ALL (SELECT o.connector_id, min(a.since) FROM lock_waiters a JOIN open_runs o ON o.id = a.run_id AND o.picked_up_at IS NOT NULL
                WHERE a.expires_at > moment GROUP BY o.connector_id HAVING (min(a.since), o.connector_id) > (after, after_id))) u
        ORDER BY u.at, u.id LIMIT most
    LOOP
        IF looked = most - 1 OR shown = page THEN
            is_end := true;
            connector_id := after_id;
            since := after;
            RETURN NEXT;
            RETURN;
        END IF;
        looked := looked + 1;
        after := w.at;
        after_id := w.id;
        IF api.sees_connector(w.id) THEN
            shown := shown + 1;
            connector_id := w.id;
            since := w.at;
            RETURN NEXT;
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION api.freshness_through(timestamptz, integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.freshness_through(timestamptz, integer, integer) TO echomind_api;
GRANT SELECT ON api.by_freshness TO echomind_api;
-- As before, but nothing before it is counted beyond 10,000, and nothing in flight beyond 100,000: a page of the queue asks it of 25. What is not due has nothing to be dispatched since.
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
REVOKE ALL ON FUNCTION api.waiting(timestamptz, integer, integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.waiting(timestamptz, integer, integer, integer) TO echomind_api;

-- +goose Down
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
    (SELECT count(*) FROM connectors d WHERE d.type = c.type AND d.due_at < c.due_at) AS due_before,
    (SELECT count(*) FROM open_runs o WHERE o.type = c.type) AS in_flight,
    (SELECT count(*) FROM open_runs o WHERE o.type = c.type AND o.user_id = coalesce(c.user_id, 0)) AS owner_in_flight,
    (SELECT q.max_concurrent_syncs FROM owner_quotas q WHERE q.user_id = c.user_id) AS owner_cap,
    EXISTS (SELECT FROM connectors o WHERE o.type = c.type AND o.due_at IS NOT NULL AND o.user_id < c.user_id)
        OR EXISTS (SELECT FROM connectors o WHERE o.type = c.type AND o.due_at IS NOT NULL AND o.user_id > c.user_id)
        OR EXISTS (SELECT FROM open_runs o WHERE o.type = c.type AND o.user_id < c.user_id)
        OR EXISTS (SELECT FROM open_runs o WHERE o.type = c.type AND o.user_id > c.user_id) AS has_other_owners,
    (SELECT count(*) FROM open_runs o WHERE o.type = c.type AND o.picked_up_at IS NULL
        AND o.dispatched_at < r.dispatched_at) AS pending_before,
    (SELECT count(*) FROM open_runs o JOIN workers l ON l.id = o.worker_id WHERE o.type = c.type
        AND l.expires_at > (SELECT clock_timestamp())) AS fetching,
    -- Whether anything was claimed since it is due: the sign of life of a scheduler that works.
    EXISTS (SELECT FROM open_runs o WHERE o.dispatched_at >= coalesce(c.due_at, c.next_sync_at))
        OR EXISTS (SELECT FROM runs e WHERE e.missed_count IS NULL AND e.completed_at >= coalesce(c.due_at, c.next_sync_at)
            AND e.started_at >= coalesce(c.due_at, c.next_sync_at)) AS dispatched_since,
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
DROP FUNCTION IF EXISTS api.waiting(timestamptz, integer, integer, integer);
DROP INDEX CONCURRENTLY IF EXISTS key_waiters_due;
DROP FUNCTION IF EXISTS api.freshness_through(timestamptz, integer, integer);
DROP VIEW IF EXISTS api.by_freshness;
DROP INDEX CONCURRENTLY IF EXISTS connector_freshness_order;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION connectors_note_freshness() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM connector_freshness f WHERE f.connector_id = OLD.id;
    ELSIF NEW.fresh_within_minutes IS NULL THEN
        DELETE FROM connector_freshness f WHERE f.connector_id = NEW.id;
    ELSE
        INSERT INTO connector_freshness AS f (connector_id, type, fresh_until)
        VALUES (NEW.id, NEW.type, coalesce(NEW.last_sync_at, NEW.created_at) + make_interval(mins => NEW.fresh_within_minutes))
        ON CONFLICT (connector_id) DO UPDATE SET type = EXCLUDED.type, fresh_until = EXCLUDED.fresh_until;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER connectors_freshness_added AFTER INSERT ON connectors
    FOR EACH ROW WHEN (NEW.fresh_within_minutes IS NOT NULL) EXECUTE FUNCTION connectors_note_freshness();
CREATE OR REPLACE TRIGGER connectors_freshness_changed AFTER UPDATE OF type, fresh_within_minutes, last_sync_at ON connectors FOR EACH ROW
    WHEN (coalesce(NEW.fresh_within_minutes, OLD.fresh_within_minutes) IS NOT NULL
        AND (NEW.type, NEW.fresh_within_minutes, NEW.last_sync_at) IS DISTINCT FROM (OLD.type, OLD.fresh_within_minutes, OLD.last_sync_at))
    EXECUTE FUNCTION connectors_note_freshness();
CREATE OR REPLACE TRIGGER connectors_freshness_gone AFTER DELETE ON connectors
    FOR EACH ROW WHEN (OLD.fresh_within_minutes IS NOT NULL) EXECUTE FUNCTION connectors_note_freshness();
DELETE FROM connector_freshness f USING connectors c WHERE c.id = f.connector_id AND c.fresh_within_minutes IS NULL;
