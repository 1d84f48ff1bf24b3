-- name: LockImport :exec
-- Until the transaction ends nobody else imports the same.
SELECT pg_advisory_xact_lock(hashtextextended(concat_ws(E'\n', 'import', @source::text, @origin::text), 0));

-- name: ImportedConnectors :many
-- What was imported from an origin, a page at a time.
SELECT i.connector_id, i.key, i.variant, c.name, c.status FROM imported_connectors i JOIN connectors c ON c.id = i.connector_id
WHERE i.source = @source AND i.origin = @origin AND (i.key, i.variant) > (@after_key::text, @after_variant::text)
ORDER BY i.key, i.variant LIMIT @page::integer;

-- name: ImportedAs :one
-- Which connector a row of an origin is.
SELECT connector_id FROM imported_connectors WHERE source = @source AND origin = @origin AND key = @key AND variant = @variant;

-- name: NoteImported :exec
INSERT INTO imported_connectors (connector_id, source, origin, key, variant) VALUES (@connector_id, @source, @origin, @key, @variant)
ON CONFLICT (connector_id) DO UPDATE SET key = EXCLUDED.key, variant = EXCLUDED.variant;

-- name: WaitForSlot :one
SELECT moves.wait_for_slot(@id::integer, sqlc.narg('since')::timestamptz)::boolean;

-- name: SwitchOff :one
SELECT moves.disable(@id::integer, @message::text)::boolean;

-- name: SwitchOn :one
SELECT moves.enable(@id::integer)::boolean;

-- name: SameConfig :one
-- How long a configuration is as Postgres stores it, and whether a connector has it already. Fails where Postgres cannot store it.
SELECT octet_length(given.config::text)::integer AS bytes,
    EXISTS (SELECT FROM connectors c WHERE c.id = @id AND c.config = given.config)::boolean AS same
FROM (SELECT sqlc.arg(config)::jsonb AS config) given;

-- name: ImportedElsewhere :one
-- An origin of the same kind from which one of these was imported.
SELECT coalesce(min(i.origin), '')::text FROM imported_connectors i WHERE i.source = @source AND i.origin <> @origin AND i.key = ANY (@keys::text[]);
