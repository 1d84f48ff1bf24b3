-- name: ConnectorsThrough :one
-- The connector that is so many behind another; no row where there are not so many.
SELECT t.id::integer AS id FROM (SELECT api.connectors_through(@after::integer, @look::integer) AS id) t WHERE t.id IS NOT NULL;

-- name: ListConnectors :many
-- The numbers of a page of connectors that the viewer sees, behind a place; is_end: the place up to which was looked, behind which there may be more.
SELECT n.connector_id::integer AS id, coalesce(n.fresh_until, 'infinity')::timestamptz AS fresh_until, n.is_end::boolean AS is_end
FROM api.list_connectors(@by_freshness::boolean, @after::timestamptz, @after_id::integer, @page::integer, @look::integer, sqlc.narg('type')::text, sqlc.narg('name')::text, sqlc.narg('status')::text,
    sqlc.narg('user_id')::integer, sqlc.narg('scope')::text, sqlc.narg('scope_id')::text, @late::boolean) n;

-- name: GetConnector :one
SELECT * FROM api.connectors WHERE id = @id;

-- name: CountDocuments :many
-- How many documents of each of some connectors search finds, and how many are failed; without a row: the viewer does not see it.
SELECT d.connector_id::integer AS connector_id, d.documents::bigint AS documents, coalesce(d.failed, -1)::bigint AS failed
FROM api.count_documents(@ids::integer[], @most::integer) d;

-- name: ConnectorNames :many
SELECT id, name FROM api.connectors WHERE id = ANY(@ids::integer[]);

-- name: SeesConnector :one
SELECT EXISTS (SELECT FROM api.connectors WHERE id = @id);

-- name: EventsSeenOf :many
-- Which of some connectors the viewer sees, and since when what they do; no time: since ever. Who sees everything sees those that are deleted, too.
-- And which of those that are said to be deleted the viewer saw at last.
SELECT i.id::integer AS id, false AS is_gone, CASE WHEN isfinite(s.at) THEN s.at + interval '10 minutes' END AS since
FROM unnest(@ids::integer[]) i(id) CROSS JOIN LATERAL api.seen_since(i.id) s
WHERE s.version IS NOT NULL OR api.is_superadmin()
UNION ALL
SELECT g.id::integer, true, NULL FROM unnest(@gone::integer[]) g(id) WHERE api.is_superadmin() OR api.saw_deleted(g.id);

-- name: LockConnector :one
-- No row: there is none, or it is not for who asks to change.
SELECT * FROM api.changeable WHERE id = @id FOR UPDATE;

-- name: DefaultRefresh :one
SELECT default_refresh(@type::text)::integer;

-- name: ReserveID :one
SELECT nextval('connectors_id_seq')::integer AS id;

-- name: AddConnector :one
INSERT INTO api.creatable (id, name, type, user_id, scope, scope_id, config, refresh_freq_minutes, schedule_cron, run_at_once, time_zone,
    dst_gap, dst_overlap, spread_percent, deadline_minutes, overlap, once_per, catch_up, catch_up_most, catch_up_minutes, fresh_within_minutes, calendar, calendar_use, condition,
    concurrency_keys, max_retries, deletion_guard, created_by, updated_by)
VALUES (@id, @name, @type, @user_id, @scope, @scope_id, @config, @refresh_freq_minutes, @schedule_cron, @run_at_once, @time_zone, @dst_gap, @dst_overlap,
    @spread_percent, @deadline_minutes, @overlap, @once_per, @catch_up, @catch_up_most, @catch_up_minutes, @fresh_within_minutes, @calendar, @calendar_use, @condition,
    @concurrency_keys, @max_retries, @deletion_guard, @by, @by)
RETURNING id;

-- name: UpdateConnector :one
UPDATE api.changeable
SET name = @name, config = @config,
    refresh_freq_minutes = @refresh_freq_minutes, schedule_cron = @schedule_cron, run_at_once = @run_at_once, time_zone = @time_zone,
    dst_gap = @dst_gap, dst_overlap = @dst_overlap, spread_percent = @spread_percent, deadline_minutes = @deadline_minutes,
    overlap = @overlap, once_per = @once_per, catch_up = @catch_up, catch_up_most = @catch_up_most, catch_up_minutes = @catch_up_minutes,
    fresh_within_minutes = @fresh_within_minutes, calendar = @calendar, calendar_use = @calendar_use, condition = @condition, concurrency_keys = @concurrency_keys,
    max_retries = @max_retries, deletion_guard = @deletion_guard, updated_by = @by
WHERE id = @id
RETURNING id;

-- name: GiveConnector :one
-- UpdateConnector, and whose it is, for whom, and of what type.
UPDATE api.givable
SET name = @name, type = @type, config = @config, scope = @scope, scope_id = @scope_id, user_id = @user_id,
    refresh_freq_minutes = @refresh_freq_minutes, schedule_cron = @schedule_cron, run_at_once = @run_at_once, time_zone = @time_zone,
    dst_gap = @dst_gap, dst_overlap = @dst_overlap, spread_percent = @spread_percent, deadline_minutes = @deadline_minutes,
    overlap = @overlap, once_per = @once_per, catch_up = @catch_up, catch_up_most = @catch_up_most, catch_up_minutes = @catch_up_minutes,
    fresh_within_minutes = @fresh_within_minutes, calendar = @calendar, calendar_use = @calendar_use, condition = @condition, concurrency_keys = @concurrency_keys,
    max_retries = @max_retries, deletion_guard = @deletion_guard, updated_by = @by
WHERE id = @id
RETURNING id;

-- name: DeleteConnector :execrows
DELETE FROM api.changeable WHERE id = @id;

-- name: Sync :one
SELECT t.at::timestamptz AS at FROM moves.trigger_sync(@id::integer, @allow_deletions::boolean, sqlc.narg('parameters')::jsonb) t(at) WHERE t.at IS NOT NULL;

-- name: Enable :one
SELECT moves.enable(@id::integer)::boolean;

-- name: Disable :one
SELECT moves.disable(@id::integer, @message::text)::boolean;

-- name: Calendar :one
SELECT time_zone, entries FROM calendars WHERE name = @name;

-- name: IntervalSlot :one
-- The next slot of an interval that counts from a moment.
SELECT moves.interval_slot(@id::integer, @base::timestamptz, @minutes::integer, @spread::integer)::timestamptz AS slot;

-- name: Now :one
SELECT clock_timestamp()::timestamptz AS now;

-- name: ConnectorStatus :one
SELECT id, status, status_message, failure_count, fresh_within_minutes, synced_version, config_version, seen_at, last_sync_at, next_sync_at, due_reason, put_off_since, trigger_requested_at, run_id FROM api.connectors WHERE id = @id;

-- name: MakeBadge :one
SELECT api.make_badge(@id::integer, @sha256::bytea)::boolean AS made;

-- name: RevokeBadge :one
SELECT api.revoke_badge(@id::integer)::boolean AS revoked;

-- name: Badge :one
-- What everybody who has a badge's link may know.
SELECT b.now, b.fresh_within_minutes, b.last_sync_at, b.synced_version, b.config_version FROM api.badge(@sha256::bytea) b;

-- name: ConnectorsOf :many
SELECT * FROM api.connectors WHERE id = ANY (@ids::integer[]);
