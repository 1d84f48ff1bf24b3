-- +goose Up
-- expand
-- The first lock that a run waits for was found by walking all that is waited for, in the order of who asked; how many are due, or were sent, before it by walking all of the type in flight: so a plan did
-- that was kept from when there were none. They are found by their keys.
-- How many are being fetched is counted up to 1,000: a page of a queue counts it for each of its connectors.
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
    (SELECT count(*) FROM (SELECT FROM connectors d WHERE d.type = c.type AND d.due_at < c.due_at ORDER BY d.due_at LIMIT 10000) n) AS due_before,
    (SELECT count(*) FROM (SELECT FROM open_runs o WHERE o.type = c.type LIMIT greatest(100000, t.max_concurrent_syncs)) n) AS in_flight,
    (SELECT count(*) FROM open_runs o WHERE o.type = c.type AND o.user_id = coalesce(c.user_id, 0)) AS owner_in_flight,
    (SELECT q.max_concurrent_syncs FROM owner_quotas q WHERE q.user_id = c.user_id) AS owner_cap,
    -- By the ends of an index: whether there is one among very many of the same is what the planner looks for from the first on.
    coalesce((SELECT min(o.user_id) FROM connectors o WHERE o.type = c.type AND o.due_at IS NOT NULL) < c.user_id, false)
        OR coalesce((SELECT max(o.user_id) FROM connectors o WHERE o.type = c.type AND o.due_at IS NOT NULL) > c.user_id, false)
        OR coalesce((SELECT min(o.user_id) FROM open_runs o WHERE o.type = c.type) < c.user_id, false)
        OR coalesce((SELECT max(o.user_id) FROM open_runs o WHERE o.type = c.type) > c.user_id, false) AS has_other_owners,
    (SELECT count(*) FROM (SELECT FROM open_runs o WHERE o.type = c.type AND o.picked_up_at IS NULL
        AND o.dispatched_at < r.dispatched_at ORDER BY o.dispatched_at LIMIT 10000) n) AS pending_before,
    -- Up to 1,000: by the workers that live, of whom there are few, not by what is in flight.
    (SELECT count(*) FROM (SELECT FROM (SELECT w.id FROM workers w WHERE w.expires_at > (SELECT clock_timestamp()) OFFSET 0) l
        CROSS JOIN LATERAL (SELECT FROM open_runs o WHERE o.worker_id = l.id AND o.type = c.type LIMIT 1000) o LIMIT 1000) n) AS fetching,
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
LEFT JOIN LATERAL (SELECT a.key, a.since FROM (SELECT o.no, o.key, o.since FROM lock_waiters o WHERE o.run_id = r.id AND r.has_locks
    AND o.expires_at > (SELECT clock_timestamp()) OFFSET 0) a ORDER BY a.no LIMIT 1) q ON true
LEFT JOIN resource_locks l ON l.key = ANY (ARRAY[q.key]) AND l.expires_at > (SELECT clock_timestamp())
LEFT JOIN concurrency_limits kl ON kl.key = ANY (ARRAY[c.waits_for_key])
-- Who has the places of the key that it waits for: how many.
LEFT JOIN LATERAL (SELECT count(*) AS held FROM key_places p WHERE p.key = c.waits_for_key) kp ON true
-- And who has had one longest, of up to 1,000.
LEFT JOIN LATERAL (SELECT p.since, p.connector_id FROM (SELECT o.since, o.connector_id FROM key_places o WHERE o.key = c.waits_for_key LIMIT 1000) p
    ORDER BY p.since LIMIT 1) ks ON true;

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
