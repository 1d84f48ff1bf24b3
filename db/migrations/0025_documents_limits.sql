-- +goose Up
-- expand
-- What services/api needs for documents across connectors, and for limits that superadmins write.

-- A page of the documents of some connectors, in the order of these and by their names: of what the viewer sees, and saw when it was stored. It begins in the first connector, behind
-- a name. kind is a status, and null all; prefix is how names begin. It looks at so many documents, of which each connector that has any counts for 50, and answers with up to page of them, and
-- so many bytes, but with one at least. Where it ends before the last, a row with is_end says as far as which document it has looked. Nothing is sorted: the indexes have the order, and
-- where nobody has counted the documents yet the planner would read and sort all of a connector (58,000 buffers of 2 million, for 37).
-- +goose StatementBegin
CREATE FUNCTION api.documents_of(connectors integer[], after text, kind text, prefix text, page integer, bytes bigint, look integer)
    RETURNS TABLE (connector_id integer, source_id text, title text, url text, media_type text, status text, error text, chunk_count integer, updated_at timestamptz, is_end boolean)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp SET plan_cache_mode = force_custom_plan SET enable_sort = off AS $$
DECLARE
    since bigint;
    place text := after;
    shown integer := 0;
    d     record;
BEGIN
    FOR connector_id IN   -- those that have any; the inner order has the planner take the index
        SELECT u.id FROM unnest(connectors) WITH ORDINALITY u(id, n) CROSS JOIN LATERAL (SELECT FROM documents o
            WHERE o.connector_id = u.id AND (kind IS DISTINCT FROM 'failed' OR o.status = 'failed') ORDER BY o.source_id LIMIT 1) has
        ORDER BY u.n
    LOOP
        since := (SELECT s.version FROM api.seen_since(connector_id) s);
        look := look - 50;
        IF connector_id <> connectors[1] THEN
            place := '';
        END IF;
        FOR d IN SELECT o.source_id, o.title, o.url, o.media_type, o.status, o.error, o.chunk_count, o.updated_at, o.config_version FROM documents o
            WHERE o.connector_id = documents_of.connector_id AND o.source_id > place AND (kind IS DISTINCT FROM 'failed' OR o.status = 'failed') AND since IS NOT NULL
            ORDER BY o.source_id LIMIT greatest(look, 0) + 1
        LOOP
            is_end := look <= 0;
            look := look - 1;
            IF NOT is_end AND d.config_version >= since AND (kind IS NULL OR d.status = kind) AND (prefix IS NULL OR starts_with(d.source_id, prefix)) THEN
                bytes := bytes - octet_length(d.source_id) - octet_length(d.title) - octet_length(d.url) - coalesce(octet_length(d.error), 0);
                is_end := shown = page OR shown > 0 AND bytes < 0;
                IF NOT is_end THEN
                    source_id := d.source_id; title := d.title; url := d.url; media_type := d.media_type; status := d.status; error := d.error;
                    chunk_count := d.chunk_count; updated_at := d.updated_at;
                    shown := shown + 1;
                    RETURN NEXT;
                END IF;
            END IF;
            IF is_end THEN
                source_id := place; title := ''; url := ''; media_type := ''; status := ''; error := NULL; chunk_count := 0; updated_at := d.updated_at;
                RETURN NEXT;
                RETURN;
            END IF;
            place := d.source_id;
        END LOOP;
    END LOOP;
END $$;
-- +goose StatementEnd

-- What owners may have, as superadmins write it.
CREATE VIEW api.changeable_limits AS
SELECT q.user_id, q.max_connectors, q.max_concurrent_syncs, q.max_documents, q.max_bytes FROM owner_quotas q WHERE api.is_superadmin() WITH CHECK OPTION;

-- How many runs of a concurrency key may be in flight, how many are, and how many connectors wait for a place: for administrators, who see runs and locks. Neither is counted beyond 1,000.
CREATE VIEW api.key_limits AS
SELECT l.key, l.most, (SELECT count(*) FROM (SELECT FROM key_places p WHERE p.key = l.key LIMIT 1000) n)::integer AS held,
    (SELECT count(*) FROM (SELECT FROM key_waiters w WHERE w.key = l.key LIMIT 1000) n)::integer AS waiting, l.updated_at, l.updated_by
FROM concurrency_limits l WHERE api.is_admin();

-- The same as superadmins write them.
CREATE VIEW api.changeable_key_limits AS SELECT l.key, l.most, l.updated_at FROM concurrency_limits l WHERE api.is_superadmin() WITH CHECK OPTION;

REVOKE ALL ON FUNCTION api.documents_of(integer[], text, text, text, integer, bigint, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.documents_of(integer[], text, text, text, integer, bigint, integer) TO echomind_api;
GRANT SELECT ON api.key_limits TO echomind_api;
GRANT SELECT, INSERT, UPDATE (max_connectors, max_concurrent_syncs, max_documents, max_bytes), DELETE ON api.changeable_limits TO echomind_api;
GRANT SELECT, INSERT (key, most), UPDATE (most), DELETE ON api.changeable_key_limits TO echomind_api;

-- +goose Down
DROP VIEW api.changeable_key_limits;
DROP VIEW api.key_limits;
DROP VIEW api.changeable_limits;
DROP FUNCTION api.documents_of(integer[], text, text, text, integer, bigint, integer);
