-- name: TakeQuota :one
-- granted = 0 means: ask again after wait_seconds.
SELECT granted::integer, wait_seconds::double precision
FROM provider_quota_take(@account, @rate::double precision, @burst::double precision, @want::integer);

-- name: BlockQuota :exec
-- The provider said to wait: nobody asks it before then, and then the bucket is empty.
INSERT INTO provider_quotas AS q (account, tokens, refilled_at, blocked_until)
SELECT @account, 0, u.until, u.until
FROM (SELECT clock_timestamp() + make_interval(secs => @wait_seconds::double precision) AS until) u
ON CONFLICT (account) DO UPDATE SET
    blocked_until = greatest(q.blocked_until, EXCLUDED.blocked_until),
    tokens = least(q.tokens, 0),
    refilled_at = greatest(q.refilled_at, EXCLUDED.blocked_until);

-- name: SweepQuotas :execrows
DELETE FROM provider_quotas
WHERE refilled_at < clock_timestamp() - interval '1 day'
    AND (blocked_until IS NULL OR blocked_until < clock_timestamp());
