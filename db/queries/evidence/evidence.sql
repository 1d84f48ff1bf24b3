-- name: Evidence :one
SELECT * FROM connector_evidence WHERE id = @id;

-- name: SeenEvidence :one
-- The same of a connector that the viewer sees.
SELECT * FROM api.evidence WHERE id = @id;

-- name: SeenGlances :many
-- The same of some connectors at once, without what is counted for each.
SELECT e.seen_at, e.id, e.name, e.type, e.user_id, e.status, e.status_message, e.failure_count, e.max_retries, e.refresh_freq_minutes, e.schedule_cron,
    e.time_zone, e.dst_gap, e.dst_overlap, e.spread_percent, e.deadline_minutes, e.overlap, e.once_per, e.catch_up, e.catch_up_most, e.catch_up_minutes,
    e.fresh_within_minutes, e.synced_version, e.config_version, e.calendar, e.calendar_use,
    e.follows, e.asks_upstreams, e.upstream_id, e.upstream_name, e.upstream_status, e.upstream_ended_at, e.condition, e.asks_condition, e.waits_for_key, e.key_most, 0::bigint AS key_held, e.key_held_since, e.key_holder, e.condition_met_at, e.unmet_at, e.unmet_count,
    e.claimed_at, e.synced_for, e.needs_plan, e.planned_through, e.next_sync_at, e.due_reason, e.slot_at, e.trigger_requested_at, e.parameters_due_at, e.last_sync_at, e.docs_analyzed, e.put_off_since,
    e.run_id, e.trigger, e.due_at, e.started_at, e.dispatched_at, e.dispatches, e.picked_up_at, e.try_id, e.worker_id,
    e.lease_expires_at, e.fetched_at, e.drain_seq, e.total, e.stored, e.whole, e.cut,
    e.waits_until, e.wait_message, e.progress_done, e.progress_total, e.progress_text,
    e.lock_key, e.lock_asked_at, e.lock_run_id, e.lock_connector_id, e.lock_expires_at,
    e.kind, e.type_cap,
    0::bigint AS due_before, 0::bigint AS in_flight, 0::bigint AS owner_in_flight, e.owner_cap, e.has_other_owners, 0::bigint AS pending_before, 0::bigint AS fetching,
    false::boolean AS dispatched_since, e.publish_error, e.type_publish_error
FROM api.evidence e WHERE e.id = ANY (@ids::integer[]);

-- name: Past :many
-- The latest runs of a connector.
SELECT status, reason, error_message, missed_count, completed_at, waits_until, total, stored, trigger FROM scheduler_runs WHERE connector_id = @connector_id
ORDER BY started_at DESC, id
LIMIT @page::integer;

-- name: SeenPast :many
SELECT status, reason, error_message, missed_count, completed_at, waits_until, total, stored, trigger FROM api.runs WHERE connector_id = @connector_id
    AND started_at >= (SELECT api.runs_reach(@connector_id, '-infinity', '9999-01-01', '00000000-0000-0000-0000-000000000000', NULL, NULL, NULL, @page::integer))
ORDER BY started_at DESC, id
LIMIT @page::integer;

-- name: Calendar :one
SELECT time_zone, entries FROM calendars WHERE name = @name;

-- name: Services :many
-- Who is connected to this database, by the name that each service gives itself. last_active is null where this user may not see it.
SELECT application_name::text AS name, max(state_change) AS last_active
FROM pg_stat_activity
WHERE datname = current_database() AND coalesce(backend_type, 'client backend') = 'client backend' AND application_name LIKE 'echomind-%'
GROUP BY application_name
ORDER BY application_name;
