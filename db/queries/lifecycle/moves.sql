-- name: PickUp :one
SELECT moves.pick_up(@connector_id::integer, @run_id::uuid, @try_id::uuid, @worker_id::uuid, @lease::interval)::boolean;

-- name: PickUpAll :many
SELECT p.place::integer AS place, p.taken::boolean AS done FROM moves.pick_up_all(@asked::jsonb, @worker_id::uuid, @lease::interval) p;

-- name: Heartbeat :many
SELECT moves.heartbeat(@worker_id::uuid, @lease::interval, @run_ids::uuid[], @try_ids::uuid[])::uuid;

-- name: Drain :one
SELECT moves.drain(@run_id::uuid, @try_id::uuid, @seq::bigint)::boolean;

-- name: DrainAll :many
SELECT d.place::integer AS place, d.drained::boolean AS done FROM moves.drain_all(@asked::jsonb) d;

-- name: Cut :one
SELECT moves.cut(@run_id::uuid, @try_id::uuid, @sent::bigint, @seq::bigint, @message::text, NULL, @kind::text)::boolean;

-- name: CutToWait :one
SELECT moves.cut(@run_id::uuid, @try_id::uuid, @sent::bigint, @seq::bigint, @message::text, @wait::interval)::boolean;

-- name: Release :one
SELECT moves.release(@run_id::uuid, @try_id::uuid, @keep_locks::boolean)::boolean;

-- name: Postpone :one
SELECT moves.postpone(@run_id::uuid, @try_id::uuid, @wait::interval, @message::text)::boolean;

-- name: Waits :one
SELECT moves.waits(@run_id::uuid, @try_id::uuid, @wait::interval, @message::text)::boolean;

-- name: Fail :one
SELECT moves.fail(@run_id::uuid, @try_id::uuid, @kind::text, @message::text)::boolean;

-- name: FailRefused :one
SELECT moves.fail_refused(@run_id::uuid, @try_id::uuid, @message::text, @reach::text)::boolean;

-- name: Skip :one
SELECT moves.skip(@run_id::uuid, @try_id::uuid, sqlc.narg('new_state')::jsonb, @reason::text, @unchanged::bigint)::boolean;

-- name: SkipAll :many
SELECT s.place::integer AS place, s.skipped::boolean AS done FROM moves.skip_all(@asked::jsonb) s;

-- name: Report :one
SELECT moves.report(@run_id::uuid, @try_id::uuid, sqlc.narg('done')::bigint, sqlc.narg('total')::bigint, @line::text, sqlc.narg('warnings')::text[])::boolean;

-- name: EndJob :one
SELECT moves.end_job(@run_id::uuid, @try_id::uuid, sqlc.narg('result')::jsonb, sqlc.narg('reason')::text)::boolean;

-- name: Disable :one
SELECT moves.disable(@connector_id::integer)::boolean;

-- name: Enable :one
SELECT moves.enable(@connector_id::integer)::boolean;

-- name: Cancel :one
SELECT moves.cancel(@run_id::uuid, @message::text)::boolean;
