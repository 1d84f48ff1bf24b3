-- +goose Up
-- expand
-- A refusal by the service's settings is no failure of the connector: it does not count, and so is never the last of max_retries. What was refused before is due again with the count that it has.
-- And of a refused connector its owner is remembered, and which settings have had it tried again: the pause after an old process has refused it once more is for these alone.

-- Another owner, as another configuration, ends what the row says.
ALTER TABLE refused_connectors ADD COLUMN user_id integer NOT NULL DEFAULT 0,
    ADD COLUMN tried_by text[] NOT NULL DEFAULT '{}' CONSTRAINT refused_connectors_tried_by_most CHECK (cardinality(tried_by) <= 16);
UPDATE refused_connectors r SET user_id = c.user_id FROM connectors c WHERE c.id = r.connector_id AND c.user_id IS NOT NULL;

-- SYNCING -> ERROR, as after a permanent failure, but that it does not count; and remembers the settings of the service that are the reason: reach is their hash.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION moves.fail_refused(run uuid, try uuid, message text, reach text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s'
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    c        connectors;
    failures integer;
BEGIN
    IF reach IS NULL OR reach !~ '^[0-9a-f]{1,64}$' THEN
        RAISE EXCEPTION 'fail_refused: reach is %, must be a hash in hexadecimal', coalesce(reach, 'null') USING ERRCODE = 'invalid_parameter_value';
    END IF;
    c := moves.lock_syncing(run, try);
    IF c.id IS NULL THEN
        RETURN false;
    ELSIF c.kept_plan IS NOT NULL OR c.scope = 'system' THEN   -- it stands where it stood before; it is tried again after any failure
        RETURN moves.fail(run, try, 'permanent', message);
    END IF;
    c.status_message := left(coalesce(message, 'no message'), 2000);
    c := moves.unspent(c);
    PERFORM moves.end_runs(ARRAY[run], 'failed', 'permanent failure', c.status_message);
    c.run_id := NULL;
    failures := c.failure_count;
    c.failure_count := -1;   -- whatever max_retries is, this failure is not the last
    c := moves.failed(c, true);
    c.failure_count := failures;
    PERFORM moves.put(ARRAY[c]);
    PERFORM moves.wake(c, true);
    -- One that is due again by itself needs no row: somebody has asked for it meanwhile.
    IF c.next_sync_at IS NULL AND NOT c.needs_plan THEN
        PERFORM moves.note_refused(c, reach);
    END IF;
    RETURN true;
END $$;
-- +goose StatementEnd

-- Remembers which settings have refused a connector, which the transaction has locked. Settings that had refused it already and took it once more, since its last sync, have those that had it tried
-- leave it alone for ever longer.
-- +goose StatementBegin
CREATE FUNCTION moves.note_refused(c connectors, by_reach text) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    r       refused_connectors;
    is_same boolean;
    is_more boolean;
BEGIN
    SELECT l.* INTO r FROM refused_connectors l WHERE l.connector_id = c.id;
    is_same := coalesce(r.config_version = c.config_version, false);
    is_more := is_same AND (c.last_sync_at > r.over_at) IS NOT TRUE AND (by_reach = ANY (r.refused_by) OR cardinality(r.refused_by) = 16);
    INSERT INTO refused_connectors AS l (connector_id, user_id, type, config_version, over_at, reach, refused_by)
    VALUES (c.id, coalesce(c.user_id, 0), c.type, c.config_version, c.over_at, by_reach, ARRAY[by_reach])
    ON CONFLICT (connector_id) DO UPDATE SET user_id = EXCLUDED.user_id, type = EXCLUDED.type, config_version = EXCLUDED.config_version, over_at = EXCLUDED.over_at, reach = EXCLUDED.reach, retried_at = NULL,
        refused_by = CASE WHEN is_same THEN (EXCLUDED.refused_by || array_remove(l.refused_by, by_reach))[:16] ELSE EXCLUDED.refused_by END,
        tried_by = CASE WHEN is_same AND (c.last_sync_at > r.over_at) IS NOT TRUE THEN l.tried_by ELSE '{}' END,
        again = CASE WHEN is_more THEN least(l.again + 1, 1000) ELSE 0 END,
        not_before = CASE WHEN is_more THEN clock_timestamp() + make_interval(mins => least(power(2, least(l.again, 10))::integer, 60)) ELSE '-infinity' END;
END $$;
-- +goose StatementEnd

-- Makes one refused connector due again, where that refusal is still what its last sync ended with; forgets it where it is not. One that somebody holds, or whose sync goes on, stays as it is.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION moves.retry_one(h refused_connectors, by_reach text) RETURNS boolean
    LANGUAGE plpgsql AS $$
DECLARE
    c connectors;
    r refused_connectors;
BEGIN
    SELECT k.* INTO c FROM connectors k WHERE k.id = h.connector_id FOR UPDATE SKIP LOCKED;
    IF c.id IS NULL AND EXISTS (SELECT FROM connectors k WHERE k.id = h.connector_id) THEN
        RETURN false;
    END IF;
    SELECT l.* INTO r FROM refused_connectors l WHERE l.connector_id = h.connector_id FOR UPDATE SKIP LOCKED;
    IF r.connector_id IS NULL OR r.retried_at IS NOT NULL OR r.over_at <> h.over_at OR c.run_id IS NOT NULL OR (c.status = 'ERROR' AND (c.next_sync_at IS NOT NULL OR c.needs_plan)) THEN
        RETURN false;
    END IF;
    IF c.id IS NULL OR c.status <> 'ERROR' OR c.over_at IS DISTINCT FROM r.over_at OR (c.type, c.config_version) <> (r.type, r.config_version) THEN
        DELETE FROM refused_connectors l WHERE l.connector_id = r.connector_id;
        RETURN false;
    END IF;
    UPDATE refused_connectors l SET retried_at = clock_timestamp(), tried_by = (ARRAY[by_reach] || array_remove(l.tried_by, by_reach))[:16] WHERE l.connector_id = c.id;
    c.next_sync_at := clock_timestamp();
    c.due_reason := 'retry';
    PERFORM moves.put(ARRAY[c]);
    PERFORM moves.note_change('connectors.retry_refused', c.id::text, jsonb_build_object('reach', r.reach),
        jsonb_build_object('reach', by_reach, 'why', 'service restart with other roots or address ranges'), c);
    RETURN true;
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION moves.note_refused(connectors, text) FROM PUBLIC;

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION moves.fail_refused(run uuid, try uuid, message text, reach text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
DECLARE
    -- After a run with parameters the connector stands where it stood, with the error that it had.
    of integer := (SELECT o.connector_id FROM open_runs o WHERE o.id = run AND o.try_id = try AND o.parameters IS NULL);
    synced timestamptz;   -- a sync since ends the row of refusals
BEGIN
    IF reach IS NULL OR reach !~ '^[0-9a-f]{1,64}$' THEN
        RAISE EXCEPTION 'fail_refused: reach is %, must be a hash in hexadecimal', coalesce(reach, 'null') USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT moves.fail(run, try, 'permanent', message) THEN
        RETURN false;
    END IF;
    synced := (SELECT c.last_sync_at FROM connectors c WHERE c.id = of);
    -- One that is due again by itself needs no row: somebody has asked for it meanwhile. The move holds the connector.
    INSERT INTO refused_connectors AS r (connector_id, type, config_version, over_at, reach, refused_by)
    SELECT c.id, c.type, c.config_version, c.over_at, fail_refused.reach, ARRAY[fail_refused.reach] FROM connectors c
    WHERE c.id = of AND c.status = 'ERROR' AND c.next_sync_at IS NULL AND NOT c.needs_plan AND c.over_at IS NOT NULL
    ON CONFLICT (connector_id) DO UPDATE SET type = EXCLUDED.type, config_version = EXCLUDED.config_version, over_at = EXCLUDED.over_at, reach = EXCLUDED.reach, retried_at = NULL,
        refused_by = CASE WHEN r.config_version <> EXCLUDED.config_version THEN EXCLUDED.refused_by
            ELSE (EXCLUDED.refused_by || array_remove(r.refused_by, fail_refused.reach))[:16] END,
        again = CASE WHEN r.config_version = EXCLUDED.config_version AND (synced > r.over_at) IS NOT TRUE AND (fail_refused.reach = ANY (r.refused_by) OR cardinality(r.refused_by) = 16) THEN least(r.again + 1, 1000) ELSE 0 END,
        not_before = CASE WHEN r.config_version = EXCLUDED.config_version AND (synced > r.over_at) IS NOT TRUE AND (fail_refused.reach = ANY (r.refused_by) OR cardinality(r.refused_by) = 16)
            THEN clock_timestamp() + make_interval(mins => least(power(2, least(r.again, 10))::integer, 60)) ELSE '-infinity' END;
    RETURN true;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION moves.retry_one(h refused_connectors, by_reach text) RETURNS boolean
    LANGUAGE plpgsql AS $$
DECLARE
    c connectors;
    r refused_connectors;
BEGIN
    SELECT k.* INTO c FROM connectors k WHERE k.id = h.connector_id FOR UPDATE SKIP LOCKED;
    IF c.id IS NULL AND EXISTS (SELECT FROM connectors k WHERE k.id = h.connector_id) THEN
        RETURN false;
    END IF;
    SELECT l.* INTO r FROM refused_connectors l WHERE l.connector_id = h.connector_id FOR UPDATE SKIP LOCKED;
    IF r.connector_id IS NULL OR r.retried_at IS NOT NULL OR r.over_at <> h.over_at OR c.run_id IS NOT NULL OR (c.status = 'ERROR' AND (c.next_sync_at IS NOT NULL OR c.needs_plan)) THEN
        RETURN false;
    END IF;
    IF c.id IS NULL OR c.status <> 'ERROR' OR c.over_at IS DISTINCT FROM r.over_at OR (c.type, c.config_version) <> (r.type, r.config_version) THEN
        DELETE FROM refused_connectors l WHERE l.connector_id = r.connector_id;
        RETURN false;
    END IF;
    UPDATE refused_connectors l SET retried_at = clock_timestamp() WHERE l.connector_id = c.id;
    c.next_sync_at := clock_timestamp();
    c.due_reason := 'retry';
    c.failure_count := greatest(0, c.failure_count - 1);   -- the settings were at fault
    PERFORM moves.put(ARRAY[c]);
    PERFORM moves.note_change('connectors.retry_refused', c.id::text, jsonb_build_object('reach', r.reach),
        jsonb_build_object('reach', by_reach, 'why', 'service restart with other roots or address ranges'), c);
    RETURN true;
END $$;
-- +goose StatementEnd
DROP FUNCTION moves.note_refused(connectors, text);
ALTER TABLE refused_connectors DROP COLUMN user_id, DROP COLUMN tried_by;
