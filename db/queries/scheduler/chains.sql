-- name: UpstreamsToTell :many
-- Who has ended, or is lost, and has not told all that run after it; those behind a place in the order of these. wide: those that many run after.
SELECT e.connector_id, e.no, e.lost, e.tell_at::timestamptz AS tell_at FROM upstream_ends e
WHERE e.wide = @wide::boolean AND e.tell_at <= (SELECT clock_timestamp()) AND (e.tell_at, e.connector_id) > (@after_at::timestamptz, @after_id::integer)
ORDER BY e.tell_at, e.connector_id LIMIT @batch::integer;

-- name: HandOn :one
SELECT coalesce(h.last, 0)::integer AS last, h.told::integer AS told, h.held::integer[] AS held FROM moves.hand_on(@upstream::integer, @after_id::integer, @batch::integer) h;

-- name: HandOnAll :one
SELECT moves.hand_on_all(@upstreams::integer[], @nos::bigint[], @few::integer)::integer[];

-- name: HandOnChanged :one
SELECT coalesce(moves.hand_on_changed(@after_id::integer, @batch::integer), 0)::integer;

-- name: HaveTold :exec
SELECT moves.have_told(@upstream::integer, @no::bigint, sqlc.narg('lost')::text, @since::timestamptz, @held::integer[]);

-- name: FollowersToLookAt :many
-- Whose time has come, the longest first; those behind a place in their order. wide: those that run after many.
SELECT f.connector_id, f.told, f.look_at::timestamptz AS look_at FROM followers f
WHERE f.wide = @wide::boolean AND f.look_at <= (SELECT clock_timestamp()) AND (f.look_at, f.connector_id) > (@after_at::timestamptz, @after_id::integer)
ORDER BY f.look_at, f.connector_id LIMIT @batch::integer;

-- name: LockFollowers :many
-- Within the transaction that writes down what becomes of them. The columns are those of LockDue: both are decided about alike. Of one without a schedule the
-- due time is now.
SELECT c.id::integer AS id, coalesce(c.user_id, 0)::integer AS user_id, c.scope::text AS scope, c.scope_id, '{}'::jsonb AS config,
    '{}'::jsonb AS state, NULL::jsonb AS listing, c.config_version::bigint AS config_version,
    coalesce(c.next_sync_at, clock_timestamp())::timestamptz AS next_sync_at,
    coalesce(c.due_reason, 'upstream')::text AS due_reason, c.slot_at, c.schedule_cron, c.time_zone::text AS time_zone, c.dst_gap, c.dst_overlap,
    c.deadline_minutes, c.overlap::text AS overlap, c.once_per, c.catch_up::text AS catch_up, c.catch_up_most::integer AS catch_up_most,
    c.catch_up_minutes, c.refresh_freq_minutes, c.claimed_at, c.over_at, c.claimed_for, c.synced_for, c.planned_through,
    c.type::text AS type, c.condition, c.condition_met_at, c.follows::boolean AS follows, c.spread_percent::integer AS spread_percent, c.calendar, c.calendar_use::text AS calendar_use,
    false AS asked,
    (CASE WHEN c.last_sync_at IS NOT NULL AND c.synced_version IS DISTINCT FROM c.config_version THEN 'changed' ELSE '' END)::text AS wanted,
    (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))::timestamptz AS now,
    false AS has_keys
FROM moves.lock_followers(@ids::integer[], sqlc.narg('now')::timestamptz) c;

-- name: UpstreamsOf :many
-- Of connectors that the transaction has locked, in a statement of its own: it sees all that ended before.
SELECT u.id::integer AS id, u.chained::boolean AS chained, u.met::boolean AS met, coalesce(u.upstream, 0)::integer AS upstream,
    coalesce(u.timeout_minutes, 0)::integer AS timeout_minutes, coalesce(u.since, '2000-01-01')::timestamptz AS since,
    coalesce(u.waits_for, 0)::integer AS waits_for, coalesce(u.ages_at, '2000-01-01')::timestamptz AS ages_at
FROM moves.upstreams_of(@ids::integer[], @now::timestamptz) u;

-- name: LetFollow :one
SELECT moves.let_follow(@ids::integer[])::integer;

-- name: GiveUpFollowing :exec
SELECT moves.give_up_following(@ids::integer[], @upstreams::integer[], @now::timestamptz);

-- name: LookAgain :exec
-- A moment before 2001: when it is told. An upstream of 0: it is told of everybody's ends.
SELECT moves.look_again(@ids::integer[], @told::bigint[], ARRAY(SELECT nullif(m.at, '2000-01-01 00:00+00') FROM unnest(@moments::timestamptz[]) WITH ORDINALITY m(at, no) ORDER BY m.no),
    CASE WHEN sqlc.narg('sinces')::timestamptz[] IS NOT NULL THEN ARRAY(SELECT nullif(m.at, '2000-01-01 00:00+00') FROM unnest(sqlc.narg('sinces')::timestamptz[]) WITH ORDINALITY m(at, no) ORDER BY m.no) END,
    CASE WHEN sqlc.narg('upstreams')::integer[] IS NOT NULL THEN ARRAY(SELECT nullif(w.id, 0) FROM unnest(sqlc.narg('upstreams')::integer[]) WITH ORDINALITY w(id, no) ORDER BY w.no) END);

-- name: StopFollowing :exec
SELECT moves.stop_following(@ids::integer[]);
