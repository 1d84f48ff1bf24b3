-- name: AcquireLock :many
-- No row: the run is not the try's. epoch null: it is not given.
SELECT a.epoch, a.expires_at, a.holder_run, a.holder_connector, extract(epoch FROM a.remaining)::float8 AS remaining_seconds, a.ahead,
    extract(epoch FROM a.ask_again)::float8 AS ask_again_seconds, extract(epoch FROM a.put_off)::float8 AS put_off_seconds
FROM moves.acquire_lock(@run_id::uuid, @try_id::uuid, @lock_key::text, @ttl::interval, @waits::boolean,
    @ask::bigint) a;

-- name: RenewLock :one
SELECT r.expires_at, coalesce(r.why, '')::text AS why
FROM moves.renew_lock(@run_id::uuid, @try_id::uuid, @lock_key::text, @lock_epoch::bigint) r;

-- name: FreeLocks :one
SELECT moves.free_locks(@run_id::uuid, @try_id::uuid, sqlc.narg('lock_key')::text, sqlc.narg('lock_epoch')::bigint,
    sqlc.narg('lock_ask')::bigint)::boolean;

-- name: NoteProvider :one
SELECT moves.note_provider(@run_id::uuid, @try_id::uuid, sqlc.narg('provider')::text, sqlc.narg('lock_key')::text, sqlc.narg('lock_epoch')::bigint,
    @passed_over::jsonb)::boolean;
