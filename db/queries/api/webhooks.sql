-- name: ListWebhooks :many
-- Those that the viewer sees; user_id: whose.
SELECT w.* FROM api.webhooks w
WHERE w.id > @after AND (sqlc.narg('user_id')::integer IS NULL OR w.user_id = sqlc.narg('user_id'))
ORDER BY w.id LIMIT @page::integer;

-- name: GetWebhook :one
SELECT w.* FROM api.webhooks w WHERE w.id = @id;

-- name: NextWebhook :one
SELECT nextval('webhooks_id_seq')::integer AS id;

-- name: AddWebhook :exec
INSERT INTO api.changeable_webhooks (id, user_id, name, url, connector_id, events, enabled, secret)
VALUES (@id::integer, @user_id::integer, @name::text, @url::text, sqlc.narg('connector_id')::integer, @events::text[], @enabled::boolean, @secret::text);

-- name: LockWebhook :one
-- For a change. No row: there is none, or it is not for who asks to see.
SELECT w.version::bigint AS version, w.name::text AS name, w.url::text AS url, w.connector_id, w.events::text[] AS events, w.enabled::boolean AS enabled, w.secret::text AS secret
FROM api.changeable_webhooks w WHERE w.id = @id::integer FOR NO KEY UPDATE;

-- name: ChangeWebhook :exec
UPDATE api.changeable_webhooks SET name = @name::text, url = @url::text, connector_id = sqlc.narg('connector_id')::integer, events = @events::text[], enabled = @enabled::boolean
WHERE id = @id::integer;

-- name: RotateWebhook :exec
-- What was its secret signs as well until then.
UPDATE api.changeable_webhooks SET old_secret = secret, old_secret_until = clock_timestamp() + interval '24 hours', secret = @secret::text WHERE id = @id::integer;

-- name: DeleteWebhook :exec
DELETE FROM api.changeable_webhooks WHERE id = @id::integer;

-- name: TestWebhook :one
-- No row: there is none that the viewer may change.
SELECT t.id::bigint AS id FROM (SELECT api.test_webhook(@id::integer, @message_id::text, @body::text) AS id) t WHERE t.id IS NOT NULL;

-- name: ListDeliveries :many
-- Those of a webhook that the viewer sees, the latest first.
SELECT d.* FROM api.webhook_deliveries d
WHERE d.webhook_id = @webhook_id AND d.id < @before AND (sqlc.narg('state')::text IS NULL OR d.state = sqlc.narg('state'))
ORDER BY d.id DESC LIMIT @page::integer;

-- name: GetDelivery :one
SELECT d.* FROM api.webhook_deliveries d WHERE d.webhook_id = @webhook_id AND d.id = @id;

-- name: ReplayDelivery :one
SELECT api.replay_delivery(@webhook_id::integer, @id::bigint)::boolean AS found;

-- name: NoteFaults :one
SELECT api.note_faults(@every::interval, @page::integer)::boolean AS more;

-- name: NextLook :one
-- 0: it is nobody's turn.
SELECT coalesce(api.next_look(), 0)::integer AS id;

-- name: PostponeLook :exec
SELECT api.postpone_look(@id::integer, @every::interval);

-- name: LookWebhook :many
-- since: 1970 where there is no time.
SELECT l.connector_id::integer AS connector_id, coalesce(l.state, '')::text AS state, coalesce(l.stands, '')::text AS stands,
    coalesce(l.tells, '')::text AS tells, coalesce(l.name, '')::text AS name, coalesce(l.type, '')::text AS type, coalesce(l.message, '')::text AS message, coalesce(l.reason, '')::text AS reason,
    coalesce(l.since, 'epoch')::timestamptz AS since, coalesce(l.last_sync_at, 'epoch')::timestamptz AS last_sync_at, clock_timestamp()::timestamptz AS now
FROM api.look_webhook(@id::integer, @every::interval, @page::integer) l;

-- name: TellWebhook :exec
SELECT api.tell_webhook(@id::integer, @connectors::integer[], @states::text[], @message_ids::text[], @types::text[], @bodies::text[]);

-- name: NextSend :one
-- 0: it is nobody's turn.
SELECT coalesce(api.next_send(), 0)::integer AS id;

-- name: PostponeSend :exec
SELECT api.postpone_send(@id::integer, @every::interval);

-- name: ClaimWebhook :many
-- The first row is the webhook, the others are its deliveries.
SELECT c.webhook_id::integer AS webhook_id, coalesce(c.url, '')::text AS url, coalesce(c.secret, '')::text AS secret, coalesce(c.old_secret, '')::text AS old_secret,
    coalesce(c.failed_turns, 0)::integer AS failed_turns, coalesce(c.delivery_id, 0)::bigint AS delivery_id, coalesce(c.message_id, '')::text AS message_id,
    coalesce(c.body, '')::text AS body, coalesce(c.tries, 0)::integer AS tries
FROM api.claim_webhook(@id::integer, @sender::uuid, @lease::interval, @most::integer) c;

-- name: NoteDeliveries :one
-- Why the webhook is switched off now; empty: it is not.
SELECT coalesce(api.note_deliveries(@id::integer, @sender::uuid, @deliveries::bigint[], @tries::integer[], @delivered::boolean[], @retries::double precision[], @statuses::integer[], @errors::text[],
    @rest::interval, @gone::boolean, @ours::boolean, @most_failing::interval), '')::text AS disabled;

-- name: KeepWebhooks :one
SELECT api.keep_webhooks(@keep::interval, @batch::integer)::integer AS removed;

-- name: WebhooksToReseal :many
SELECT r.id::integer AS id, r.secret::text AS secret, coalesce(r.old_secret, '')::text AS old_secret FROM api.webhooks_to_reseal(@key_id::text, @after::integer, @most::integer) r;

-- name: ResealWebhook :exec
SELECT api.reseal_webhook(@id::integer, @was::text, @sealed::text, sqlc.narg('old_was')::text, sqlc.narg('old_sealed')::text);

-- name: WebhooksWaiting :one
SELECT extract(epoch FROM clock_timestamp() - coalesce(api.webhooks_waiting(), clock_timestamp()))::double precision AS seconds;
