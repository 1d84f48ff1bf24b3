-- +goose Up
-- expand
-- Failures that the service's own settings are the reason of: a folder in no allowed root, an address in no allowed range. A service with other settings tries these
-- connectors again, once: docs/reliability.md says how.

-- A row is a hint: it counts while the connector's last sync ended with this refusal. Its lock comes behind the connector's.
CREATE TABLE refused_connectors (
    connector_id   integer PRIMARY KEY,
    type           text NOT NULL,
    config_version bigint NOT NULL,
    -- The over_at of the connector at its last refusal: another failure since has another one.
    over_at        timestamptz NOT NULL,
    -- What the settings were that refused it last, as a hash, and all that have refused this configuration.
    reach          text NOT NULL
        CONSTRAINT refused_connectors_reach_form CHECK (reach ~ '^[0-9a-f]{1,64}$'),
    refused_by     text[] NOT NULL
        CONSTRAINT refused_connectors_refused_by_most CHECK (cardinality(refused_by) BETWEEN 1 AND 16),
    -- How often in a row settings that had refused it already took it once more, and until when it is therefore left alone.
    again          integer NOT NULL DEFAULT 0
        CONSTRAINT refused_connectors_again_range CHECK (again >= 0),
    not_before     timestamptz NOT NULL DEFAULT '-infinity',
    -- When it became due by other settings, until its sync begins.
    retried_at     timestamptz
);
-- retry_refused: what other settings refused, by type.
CREATE INDEX refused_connectors_reach ON refused_connectors (type, reach, connector_id) WHERE retried_at IS NULL;
-- retry_refused: who has not begun yet.
CREATE INDEX refused_connectors_retried ON refused_connectors (type, connector_id) WHERE retried_at IS NOT NULL;

-- SYNCING -> ERROR, as a permanent failure, and remembers the settings of the service that are the reason: reach is their hash.
-- +goose StatementBegin
CREATE FUNCTION moves.fail_refused(run uuid, try uuid, message text, reach text) RETURNS boolean
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

-- How many more connectors of a type may become due by other settings, where most may wait for their sync to begin; those that have begun wait no more.
-- +goose StatementBegin
CREATE FUNCTION moves.retry_room(of_type text, most integer) RETURNS integer
    LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    begun integer[];
BEGIN
    begun := ARRAY(SELECT r.connector_id FROM refused_connectors r LEFT JOIN connectors c ON c.id = r.connector_id
        WHERE r.type = of_type AND r.retried_at IS NOT NULL
            -- One that a window or a full key keeps is not due: others go on.
            AND NOT coalesce(c.status = 'PENDING' OR (c.status = 'ERROR' AND c.due_at <= clock_timestamp() AND c.over_at = r.over_at), false)
        ORDER BY r.connector_id LIMIT 1000);
    UPDATE refused_connectors r SET retried_at = NULL WHERE r.connector_id IN (SELECT l.connector_id FROM refused_connectors l
        WHERE l.connector_id = ANY (begun) AND l.retried_at IS NOT NULL FOR UPDATE SKIP LOCKED);
    RETURN greatest(0, most - (SELECT count(*) FROM (SELECT FROM refused_connectors r WHERE r.type = of_type AND r.retried_at IS NOT NULL LIMIT most) w));
END $$;
-- +goose StatementEnd

-- Makes connectors due again that other settings of their service have refused, and those of by_reach have not: each once, and without the failure that was no fault of theirs. One call
-- looks at a page behind a place, and leaves at most `most` of the type waiting for their sync to begin, so that others of the type stand behind no more. It waits for nobody's row. It says
-- how many are due by it, and where the next call goes on; '' is the beginning: it has seen all.
-- +goose StatementBegin
CREATE FUNCTION moves.retry_refused(of_type text, by_reach text, page integer, most integer, after_reach text DEFAULT '', after_id integer DEFAULT 0,
    OUT retried integer, OUT next_reach text, OUT next_id integer)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '1s'
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    room   integer;
    h      refused_connectors;
BEGIN
    IF of_type IS NULL OR coalesce(by_reach, '') !~ '^[0-9a-f]{1,64}$' OR coalesce(page, 0) NOT BETWEEN 1 AND 10000 OR coalesce(most, 0) NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'retry_refused: type, by_reach (a hash), page (1 to 10000) and most (1 to 1000) are needed' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    retried := 0;
    next_reach := after_reach;
    next_id := after_id;
    IF NOT pg_try_advisory_xact_lock(hashtext('echomind.refused'), hashtext(of_type)) THEN   -- two at once would count the same
        RETURN;
    END IF;
    room := moves.retry_room(of_type, most);   -- 0: nothing is looked at
    -- What these settings have refused last is no row of this page, however much that is.
    FOR h IN SELECT * FROM ((SELECT r.* FROM refused_connectors r WHERE r.type = of_type AND r.retried_at IS NULL AND r.reach < by_reach AND (r.reach, r.connector_id) > (after_reach, after_id)
                ORDER BY r.reach, r.connector_id LIMIT page)
            UNION ALL (SELECT r.* FROM refused_connectors r WHERE r.type = of_type AND r.retried_at IS NULL AND r.reach > by_reach AND (r.reach, r.connector_id) > (after_reach, after_id)
                ORDER BY r.reach, r.connector_id LIMIT page)) p
        ORDER BY p.reach, p.connector_id LIMIT page
    LOOP
        EXIT WHEN room = 0;
        IF NOT by_reach = ANY (h.refused_by) AND h.not_before <= moment AND moves.retry_one(h, by_reach) THEN
            retried := retried + 1;
            room := room - 1;
        END IF;
        next_reach := h.reach;
        next_id := h.connector_id;
        page := page - 1;
    END LOOP;
    IF page > 0 AND room > 0 THEN
        next_reach := '';
        next_id := 0;
    END IF;
    IF retried > 0 THEN
        PERFORM pg_notify('connectors_due', of_type);
    END IF;
END $$;
-- +goose StatementEnd

-- Makes one refused connector due again, where that refusal is still what its last sync ended with; forgets it where it is not. One that somebody holds, or whose sync goes on, stays as it is.
-- +goose StatementBegin
CREATE FUNCTION moves.retry_one(h refused_connectors, by_reach text) RETURNS boolean
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

-- Of a connector that is gone nothing is kept: no look would come to it while the settings stay.
-- +goose StatementBegin
CREATE FUNCTION connectors_forget_refusal() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    DELETE FROM refused_connectors r WHERE TG_OP = 'TRUNCATE' OR r.connector_id = OLD.id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER connectors_refusal_gone AFTER DELETE ON connectors FOR EACH ROW EXECUTE FUNCTION connectors_forget_refusal();
CREATE TRIGGER connectors_refusals_none AFTER TRUNCATE ON connectors FOR EACH STATEMENT EXECUTE FUNCTION connectors_forget_refusal();

REVOKE ALL ON FUNCTION connectors_forget_refusal(), moves.fail_refused(uuid, uuid, text, text), moves.retry_room(text, integer), moves.retry_refused(text, text, integer, integer, text, integer),
    moves.retry_one(refused_connectors, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION moves.fail_refused(uuid, uuid, text, text), moves.retry_refused(text, text, integer, integer, text, integer) TO echomind_worker;

-- +goose Down
DROP TRIGGER connectors_refusals_none ON connectors;
DROP TRIGGER connectors_refusal_gone ON connectors;
DROP FUNCTION connectors_forget_refusal();
DROP FUNCTION moves.retry_refused(text, text, integer, integer, text, integer);
DROP FUNCTION moves.retry_one(refused_connectors, text);
DROP FUNCTION moves.retry_room(text, integer);
DROP FUNCTION moves.fail_refused(uuid, uuid, text, text);
DROP TABLE refused_connectors;
