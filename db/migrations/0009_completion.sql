-- +goose Up
-- The moves of semantic: complete, advance, and what becomes of runs whose worker or documents were lost for good.

-- The last checkpoint of a run that waits though everything before it is stored; null where there is none. What is counted
-- from the last one on is enough: before that one everything was stored. A few at a time, so that a message that is late does
-- not make this longer and longer; ask again after passing one.
-- +goose StatementBegin
CREATE FUNCTION moves.reached_checkpoint(run uuid) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT max(r.no) FROM (
        SELECT p.no, bool_and(p.counted) OVER (ORDER BY p.no) AS reached
        FROM (
            SELECT k.no, k.no - k.previous = (
                SELECT count(*) FROM run_messages m
                WHERE m.try_id = k.try_id AND m.no > k.previous AND m.no <= k.no
                    AND m.given_up IS DISTINCT FROM 'unnamed' AND m.waits_for IS NULL) AS counted
            FROM (
                SELECT c.try_id, c.no, lag(c.no, 1, s.checkpoint_no) OVER (ORDER BY c.no) AS previous
                FROM open_runs s
                JOIN run_checkpoints c ON c.try_id = s.try_id AND c.no > s.checkpoint_no
                WHERE s.id = run
                ORDER BY c.no LIMIT 16) k) p) r
    WHERE r.reached
$$;
-- +goose StatementEnd

-- Passes every checkpoint that is reached, of a connector and a run that are locked: its state is the connector's.
-- +goose StatementBegin
CREATE FUNCTION moves.pass_checkpoints(c connectors, try uuid) RETURNS connectors
    LANGUAGE plpgsql AS $$
DECLARE
    reached bigint;
BEGIN
    LOOP
        reached := moves.reached_checkpoint(c.run_id);
        EXIT WHEN reached IS NULL;
        SELECT k.state INTO c.state FROM run_checkpoints k WHERE k.try_id = try AND k.no = reached;
        DELETE FROM run_checkpoints k WHERE k.try_id = try AND k.no <= reached;
        UPDATE open_runs SET checkpoint_no = reached WHERE id = c.run_id;
    END LOOP;
    RETURN c;
END $$;
-- +goose StatementEnd

-- Makes the state of the last checkpoint that is reached the connector's, while the run goes on. False where there was none,
-- or the run is over. An error (lock_not_available) where somebody holds the connector: it is asked again.
-- +goose StatementBegin
CREATE FUNCTION moves.advance(run uuid) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '200ms' AS $$
DECLARE
    c   connectors;
    try uuid;
BEGIN
    IF moves.reached_checkpoint(run) IS NULL THEN   -- without a lock: while a message is late, every store asks
        RETURN false;
    END IF;
    SELECT k.* INTO c FROM connectors k
    WHERE k.id = (SELECT r.connector_id FROM open_runs r WHERE r.id = run) FOR UPDATE NOWAIT;
    SELECT r.try_id INTO try FROM open_runs r WHERE r.id = run FOR UPDATE;
    -- Looked at again: another caller may have passed it before the lock.
    IF NOT FOUND OR c.run_id IS DISTINCT FROM run OR c.status <> 'SYNCING' OR moves.reached_checkpoint(run) IS NULL THEN
        RETURN false;
    END IF;
    c := moves.pass_checkpoints(c, try);
    UPDATE connectors SET state = c.state WHERE id = c.id;
    RETURN true;
END $$;
-- +goose StatementEnd

-- SYNCING -> ACTIVE: ends a run of which everything is stored, in one transaction with its cursor, so that the cursor never
-- runs ahead of the data. Skipped where there was nothing to store. A document that is neither stored nor known to have failed
-- leaves the cursor where it was. No row where the run is not, or no longer, open and whole; an error (lock_not_available)
-- where somebody holds the connector: it is asked again.
-- +goose StatementBegin
CREATE FUNCTION moves.complete(run uuid) RETURNS TABLE (connector_id integer, type text, verdict text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '200ms' AS $$
#variable_conflict use_column
DECLARE
    c    connectors;
    r    open_runs;
    what text;
BEGIN
    SELECT k.* INTO c FROM connectors k
    WHERE k.id = (SELECT o.connector_id FROM open_runs o WHERE o.id = run) FOR UPDATE NOWAIT;
    SELECT o.* INTO r FROM open_runs o WHERE o.id = run FOR UPDATE;
    IF r.id IS NULL OR NOT r.whole OR c.run_id IS DISTINCT FROM run OR c.status <> 'SYNCING' THEN
        RETURN;
    END IF;
    what := CASE WHEN r.total = r.notes THEN 'skipped' ELSE 'completed' END;
    IF r.new_state IS NOT NULL AND r.unnamed = 0
        AND NOT EXISTS (SELECT FROM run_messages m WHERE m.try_id = r.try_id AND m.waits_for IS NOT NULL) THEN
        c.state := r.new_state;
    ELSE
        c := moves.pass_checkpoints(c, r.try_id);
    END IF;
    PERFORM moves.end_runs(ARRAY[run], what, r.reason);
    -- The first run that lists the whole source under a configuration: what it did not bring is not in the source.
    UPDATE unswept_runs SET outdated = true
    WHERE run_id = run AND r.listing_whole AND c.listed_version IS DISTINCT FROM r.config_version;
    c.listed_version := CASE WHEN r.listing_whole THEN r.config_version ELSE c.listed_version END;
    c.docs_analyzed := r.documents_processed + r.documents_failed + r.documents_unchanged;
    PERFORM moves.settled(c);
    RETURN QUERY SELECT c.id, c.type, what;
END $$;
-- +goose StatementEnd

-- SYNCING -> ERROR, or DISABLED, by the failure policy: runs whose worker was lost again. silent: [{id, beats}].
-- +goose StatementBegin
CREATE FUNCTION moves.abandon(silent jsonb, foreign_timeout interval, batch integer)
    RETURNS TABLE (run_id uuid, connector_id integer, type text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
#variable_conflict use_column
DECLARE
    c    connectors;
    lost uuid;
BEGIN
    FOR c IN SELECT * FROM moves.lock_lost(silent, foreign_timeout, false, batch) LOOP
        lost := c.run_id;
        CONTINUE WHEN NOT moves.lock_run(lost, false);
        c.status_message := 'worker lost again: its lease ran out';
        PERFORM moves.end_runs(ARRAY[lost], 'failed', 'worker lost', c.status_message);
        c.run_id := NULL;
        c := moves.failed(c, false);
        PERFORM moves.put(c);
        PERFORM moves.wake(c, true);
        RETURN QUERY SELECT lost, c.id, c.type;
    END LOOP;
END $$;
-- +goose StatementEnd

-- SYNCING -> ERROR, due now, no failure counted: runs whose worker is done and whose documents the stream no longer holds. A
-- message is acknowledged only after its store is committed, so that a run which is still short after the stream was asked has
-- lost some.
-- +goose StatementBegin
CREATE FUNCTION moves.fail_lost_in_transit(candidates uuid[], first_seq bigint, last_seq bigint)
    RETURNS TABLE (run_id uuid, connector_id integer, type text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
#variable_conflict use_column
DECLARE
    c    connectors;
    lost uuid;
BEGIN
    FOR c IN SELECT k.* FROM open_runs r JOIN connectors k ON k.id = r.connector_id AND k.run_id = r.id AND k.status = 'SYNCING'
        WHERE r.id = ANY(candidates) AND NOT r.whole AND (r.drain_seq < first_seq OR r.drain_seq > last_seq)
        FOR UPDATE OF k SKIP LOCKED
    LOOP
        lost := c.run_id;
        CONTINUE WHEN NOT moves.lock_run(lost, true);
        c.status_message := 'documents were lost in transit; syncing again';
        PERFORM moves.end_runs(ARRAY[lost], 'failed', 'lost in transit', c.status_message);
        c.run_id := NULL;
        c.status := 'ERROR';
        c.next_sync_at := clock_timestamp();
        c.due_reason := 'lost';
        PERFORM moves.put(c);
        PERFORM moves.wake(c, true);
        RETURN QUERY SELECT lost, c.id, c.type;
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION moves.fail_lost_in_transit(uuid[], bigint, bigint);
DROP FUNCTION moves.abandon(jsonb, interval, integer);
DROP FUNCTION moves.complete(uuid);
DROP FUNCTION moves.advance(uuid);
DROP FUNCTION moves.pass_checkpoints(connectors, uuid);
DROP FUNCTION moves.reached_checkpoint(uuid);
