-- name: BeginUpload :one
-- No row: there is no such connector, or it is not for who asks to change.
SELECT b.object::uuid AS object, b.files::integer AS files, b.bytes::bigint AS bytes, b.owner_bytes::bigint AS owner_bytes
FROM api.begin_upload(@connector_id::integer, @within::interval) b WHERE b.object IS NOT NULL;

-- name: KeepUpload :one
SELECT api.keep_upload(@connector_id::integer, @object::uuid, @name::text, @bytes::bigint, @sha256::bytea, @most_files::integer, @most_bytes::bigint, @most_owner_bytes::bigint)::boolean;

-- name: DeleteUpload :one
SELECT api.delete_upload(@connector_id::integer, @name::text)::boolean;

-- name: ListUploads :many
SELECT f.name::text AS name, f.bytes::bigint AS bytes, encode(f.sha256, 'hex')::text AS sha256, f.uploaded_at::timestamptz AS uploaded_at, f.uploaded_by::text AS uploaded_by,
    f.document::text AS document, f.error
FROM api.uploaded_files f
WHERE f.connector_id = @connector_id::integer AND f.name > @after::text
ORDER BY f.name
LIMIT @page::integer;

-- name: GetUpload :one
SELECT f.name::text AS name, f.bytes::bigint AS bytes, encode(f.sha256, 'hex')::text AS sha256, f.uploaded_at::timestamptz AS uploaded_at, f.uploaded_by::text AS uploaded_by,
    f.document::text AS document, f.error
FROM api.uploaded_files f
WHERE f.connector_id = @connector_id::integer AND f.name = @name::text;

-- name: SweepUploads :one
SELECT api.sweep_uploads(@most::integer)::boolean;

-- name: DueObjects :many
SELECT d.object::uuid AS object FROM api.due_objects(@most::integer) d(object);

-- name: ForgetObjects :exec
SELECT api.forget_objects(@objects::uuid[]);

-- name: AbandonObjects :many
SELECT d.object::uuid AS object FROM api.abandon_objects(@objects::uuid[]) d(object);
