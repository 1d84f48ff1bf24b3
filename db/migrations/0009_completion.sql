-- +goose Up
-- How runs end: skip, by a worker that has sent nothing; and the moves of semantic: complete, advance, and what becomes of runs
-- whose worker or documents were lost for good.

-- SYNCING -> ACTIVE for a run whose worker has found nothing to send: skipped, its cursor is the new state. False: the run is not
-- this try's any more. new_state null leaves the old one.
-- +goose StatementBegin
CREATE FUNCTION moves.skip(run uuid, try uuid, new_state jsonb, reason text, unchanged bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    c connectors := moves.lock_syncing(run, try);
BEGIN
    IF c.id IS NULL THEN
        RETURN false;
    END IF;
    PERFORM FROM open_runs r WHERE r.id = run FOR UPDATE;   -- a store that is under way counts
    PERFORM moves.end_unsent(ARRAY[c.id], ARRAY[run], ARRAY[CASE WHEN c.kept_plan IS NULL THEN new_state END], ARRAY[reason], ARRAY[unchanged]);
    IF c.kept_plan IS NOT NULL THEN
        c := moves.resumed(c);
        PERFORM moves.put(ARRAY[c]);
        PERFORM moves.wake(c, true);
    END IF;
    RETURN true;
END $$;
-- +goose StatementEnd

-- skip for many runs, in one transaction. asked: [{run, try, new_state, reason, unchanged}]; place: where in it, from 0.
-- +goose StatementBegin
CREATE FUNCTION moves.skip_all(asked jsonb) RETURNS TABLE (place integer, skipped boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    a         record;
    ids       integer[] := '{}';
    runs      uuid[] := '{}';
    states    jsonb[] := '{}';
    reasons   text[] := '{}';
    unchanged bigint[] := '{}';
BEGIN
    FOR a IN SELECT k.run, k.try, nullif(k.new_state, 'null') AS new_state, k.reason, k.unchanged, k.no - 1 AS no, l.id
        FROM ROWS FROM (jsonb_to_recordset(asked) AS (run uuid, try uuid, new_state jsonb, reason text, unchanged bigint))
            WITH ORDINALITY k(run, try, new_state, reason, unchanged, no)
        LEFT JOIN LATERAL (SELECT c.id FROM open_runs r
            JOIN connectors c ON c.id = r.connector_id AND c.run_id = r.id AND c.status = 'SYNCING' AND c.kept_plan IS NULL
            WHERE r.id = k.run AND r.try_id = k.try FOR UPDATE SKIP LOCKED) l ON true LOOP
        IF a.id IS NOT NULL THEN
            skipped := true;
            IF NOT a.run = ANY(runs) THEN
                ids := ids || a.id;
                runs := runs || a.run;
                states := states || a.new_state;
                reasons := reasons || a.reason;
                unchanged := unchanged || a.unchanged;
            END IF;
        ELSIF NOT EXISTS (SELECT FROM open_runs r JOIN connectors k ON k.id = r.connector_id AND k.run_id = r.id AND k.status = 'SYNCING'
                WHERE r.id = a.run AND r.try_id = a.try) THEN
            skipped := false;
        ELSE
            CONTINUE;
        END IF;
        place := a.no;
        RETURN NEXT;
    END LOOP;
    PERFORM moves.end_unsent(ids, runs, states, reasons, unchanged);
END $$;
-- +goose StatementEnd

-- SYNCING -> ACTIVE for connectors that are locked, they and their runs, which have sent nothing: in a few statements for all, see
-- put; without a copy of each whole connector, which settled needs, and which costs as much as the write. Their ledger rows are
-- written once, and nothing is left to be swept, unless a new state ends a listing that earlier runs have begun, or a message of
-- theirs was refused.
-- +goose StatementBegin
CREATE FUNCTION moves.end_unsent(ids integer[], ended uuid[], states jsonb[], reasons text[], unchanged bigint[]) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz;
    c      connectors;
    r      record;
    locks  boolean;
BEGIN
    FOR r IN SELECT octet_length(s::text) AS bytes FROM unnest(states) s
        WHERE octet_length(s::text) > 65536 OR jsonb_path_exists(s, '$.**{31}') LOOP
        RAISE EXCEPTION 'skip: new_state has % bytes, at most 65536, nested at most 30 levels deep', r.bytes
            USING ERRCODE = 'invalid_parameter_value';
    END LOOP;
    FOR r IN SELECT o.id FROM open_runs o
        WHERE o.id = ANY(ended) AND (o.stored > 0 OR o.total IS NOT NULL OR o.drain_seq IS NOT NULL OR unchanged[array_position(ended, o.id)] < 0) LOOP
        RAISE EXCEPTION 'skip: run % has sent something, which semantic completes; send sync completed instead', r.id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END LOOP;
    INSERT INTO unswept_runs (run_id, connector_id, try_id, config_version, outdated)
    SELECT o.id, o.connector_id, o.try_id, o.config_version, false FROM open_runs o
    WHERE o.id = ANY(ended) AND (EXISTS (SELECT FROM connectors k WHERE k.id = o.connector_id AND k.listing IS NOT NULL)
        OR EXISTS (SELECT FROM message_tries t WHERE t.try_id = o.try_id));
    WITH gone AS (
        DELETE FROM open_runs o WHERE o.id = ANY(ended) RETURNING o.*, array_position(ended, o.id) AS no),
    listing AS (   -- goes on in the next run, which may delete what this one might
        UPDATE connectors k SET deletions_allowed_at = coalesce(k.deletions_allowed_at, g.deletions_allowed_at)
        FROM gone g WHERE g.deletions_allowed_at IS NOT NULL AND k.id = g.connector_id AND k.listing->'seen' IS NOT NULL
            AND states[g.no] IS NULL),
    kept AS (INSERT INTO runs (id, connector_id, type, trigger, slot, due_at, started_at, config_version, dispatches,
        trigger_requested_at, deletions_allowed_at, parameters, picked_up_at, try_id, fetched_at, completed_at, status, reason, resources, total, stored,
        documents_unchanged, listing_whole, progress_done, progress_total, progress_text, warnings)
    SELECT g.id, g.connector_id, g.type, g.trigger, g.slot, g.due_at, g.started_at, g.config_version, g.dispatches,
        g.trigger_requested_at, g.deletions_allowed_at, g.parameters, g.picked_up_at, g.try_id, clock_timestamp(), clock_timestamp(), 'skipped',
        left(coalesce(nullif(reasons[g.no], ''), 'nothing had changed'), 2000), g.resources, 0, 0, coalesce(unchanged[g.no], 0), false,
        g.progress_done, g.progress_total, g.progress_text, g.warnings
    FROM gone g)
    SELECT bool_or(g.has_locks) INTO locks FROM gone g;
    PERFORM moves.let_go(ended, true) WHERE locks;
    moment := clock_timestamp();
    -- Planned as settled does it. The scheduler is woken once for what is due of a type, and once for the places of others.
    FOR r IN WITH moved AS (
        UPDATE connectors k SET status = 'ACTIVE', status_message = NULL, run_id = NULL, failure_count = 0, put_off_since = NULL, last_sync_at = moment,
            synced_version = k.config_version, docs_analyzed = coalesce(s.unchanged, 0),
            state = coalesce(s.state, k.state), listing = CASE WHEN s.state IS NULL THEN k.listing END,
            over_at = moment, synced_for = greatest(k.synced_for, k.claimed_for), needs_plan = k.trigger_requested_at IS NULL AND k.schedule_cron IS NOT NULL,
            next_sync_at = CASE WHEN k.trigger_requested_at IS NOT NULL THEN moment ELSE s.slot END,
            due_reason = CASE WHEN k.trigger_requested_at IS NOT NULL THEN 'manual' WHEN s.slot IS NOT NULL THEN 'schedule' END,
            slot_at = CASE WHEN k.trigger_requested_at IS NULL THEN s.slot END
        -- The rows are locked: see put.
        FROM unnest(ids, states, unchanged) a(id, state, unchanged), LATERAL (
            SELECT l.ctid, a.state, a.unchanged, CASE WHEN l.schedule_cron IS NULL AND l.refresh_freq_minutes > 0
                THEN moves.interval_slot(l.id, moment, l.refresh_freq_minutes, l.spread_percent) END AS slot
            FROM connectors l WHERE l.id = a.id OFFSET 0) s
        WHERE k.ctid = s.ctid
        RETURNING k.type, k.needs_plan OR coalesce(least(k.next_sync_at, k.parameters_due_at) <= moment, false) AS due, CASE WHEN k.followed AND k.kept_plan IS NULL THEN k.id END AS followed)
        SELECT m.type, m.due, array_remove(array_agg(m.followed), NULL) AS followed FROM moved m GROUP BY m.type, m.due
    LOOP
        PERFORM moves.note_ends(r.followed, 'skipped') WHERE r.followed <> '{}';
        SELECT r.type, r.due INTO c.type, c.needs_plan;
        PERFORM moves.wake(c, true);
    END LOOP;
END $$;
-- +goose StatementEnd

-- Where a connector stands whose run has completed: ACTIVE, and planned; after a run with parameters, where it stood before.
-- +goose StatementBegin
CREATE FUNCTION moves.settled(c connectors, verdict text) RETURNS connectors
    LANGUAGE plpgsql AS $$
BEGIN
    IF c.kept_plan IS NOT NULL THEN
        RETURN moves.resumed(c);
    END IF;
    c.status := 'ACTIVE';
    c.status_message := NULL;
    c.run_id := NULL;
    c.failure_count := 0;
    c.put_off_since := NULL;
    c.last_sync_at := clock_timestamp();
    c.synced_version := c.config_version;
    c.over_at := c.last_sync_at;
    IF c.followed THEN
        PERFORM moves.note_ends(ARRAY[c.id], verdict);
    END IF;
    c.synced_for := greatest(c.synced_for, c.claimed_for);   -- a period that has completed stays so, whatever is caught up
    RETURN moves.planned(c, c.last_sync_at);
END $$;
-- +goose StatementEnd

-- What a try says of itself before it drains, for who asks: a job how much is done, of how much, in words; what its user should
-- know. Null says nothing of it. It is cut at 200 characters, at 100 warnings, and each of them at 500.
-- +goose StatementBegin
CREATE FUNCTION moves.report(run uuid, try uuid, done bigint, total bigint, line text, warnings text[] DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s' AS $$
BEGIN
    UPDATE open_runs o SET progress_done = report.done, progress_total = report.total, progress_text = nullif(left(line, 200), ''),
        warnings = CASE WHEN report.warnings IS NULL THEN o.warnings ELSE ARRAY(SELECT left(w.text, 500)
            FROM unnest(report.warnings) WITH ORDINALITY w(text, no) WHERE w.text IS NOT NULL AND w.no <= 100 ORDER BY w.no) END
    WHERE o.id = run AND o.try_id = try AND o.drain_seq IS NULL;
    RETURN FOUND;
END $$;
-- +goose StatementEnd

-- SYNCING -> ACTIVE by the worker of a job: completed, with its result, or, with a reason, skipped. There are no documents to wait for.
-- +goose StatementBegin
CREATE FUNCTION moves.end_job(run uuid, try uuid, result jsonb DEFAULT NULL, reason text DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    c       connectors := moves.lock_syncing(run, try);
    verdict text := CASE WHEN reason IS NULL THEN 'completed' ELSE 'skipped' END;
BEGIN
    IF jsonb_typeof(result) <> 'object' OR octet_length(result::text) > 32768 THEN
        RAISE EXCEPTION 'end_job: the result is % bytes of %, must be an object of at most 32768', octet_length(result::text), jsonb_typeof(result)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF c.id IS NULL THEN
        RETURN false;
    END IF;
    IF NOT EXISTS (SELECT FROM connector_types t WHERE t.name = c.type AND t.kind = 'job') THEN
        RAISE EXCEPTION 'end_job: % is no type of jobs: its runs store documents', c.type USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    UPDATE open_runs o SET result = end_job.result, fetched_at = clock_timestamp() WHERE o.id = run AND o.stored = 0 AND o.total IS NULL
        AND o.drain_seq IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'end_job: run % has documents at semantic, which completes it', run USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    PERFORM moves.end_runs(ARRAY[run], verdict, left(reason, 2000), own => true);
    c := moves.settled(c, verdict);
    PERFORM moves.put(ARRAY[c]);
    PERFORM moves.wake(c, true);
    RETURN true;
END $$;
-- +goose StatementEnd

-- How far a run's messages are stored without one that is missing, waits for other parts, or was given up so that nobody can
-- name it. It goes on from where it was known last, over at most span numbers: a run may have millions.
-- +goose StatementBegin
CREATE FUNCTION moves.counted_through(r open_runs, span integer) RETURNS bigint
    LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    through bigint := r.counted_through;
    m       run_messages;
BEGIN
    -- A loop along the index, which ends at the first gap: while a message is late, every store asks.
    FOR m IN SELECT k.* FROM run_messages k
        WHERE k.try_id = r.try_id AND k.no > r.counted_through AND k.no <= r.counted_through + span ORDER BY k.no LOOP
        EXIT WHEN m.no > through + 1 OR m.given_up = 'unnamed' OR m.waits_for IS NOT NULL;
        through := m.no;
    END LOOP;
    RETURN through;
END $$;
-- +goose StatementEnd

-- Passes the last checkpoint up to a number, of a connector and a run that are locked: its state is the connector's. It has
-- advanced where the state is another, or a listing begins or ends: what a listing says of itself names the try, and is another
-- in every run, also of one that comes no further.
-- +goose StatementBegin
CREATE FUNCTION moves.pass_checkpoint(c connectors, r open_runs, through bigint) RETURNS connectors
    LANGUAGE plpgsql AS $$
DECLARE
    k run_checkpoints;
BEGIN
    SELECT p.* INTO k FROM run_checkpoints p
    WHERE p.try_id = r.try_id AND p.no > r.checkpoint_no AND p.no <= through ORDER BY p.no DESC LIMIT 1;
    IF FOUND THEN
        UPDATE open_runs SET checkpoint_no = k.no, counted_through = through,
            advanced = advanced OR k.state IS DISTINCT FROM c.state
                OR (k.listing->'seen' IS NULL) <> (c.listing->'seen' IS NULL)
        WHERE id = r.id;
        c.state := k.state;
        c.listing := k.listing;
    END IF;
    RETURN c;
END $$;
-- +goose StatementEnd

-- Makes the state of the last checkpoint that is reached the connector's, while the run goes on: every message up to it is
-- stored. Each call looks at no more than span numbers further. passed: whether there was one; not where the run is over. more:
-- whether it has to be asked again, because a checkpoint waits beyond them. An error (lock_not_available) where somebody holds
-- the connector: it is asked again.
-- +goose StatementBegin
CREATE FUNCTION moves.advance(run uuid, span integer DEFAULT 10000, OUT passed boolean, OUT more boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '200ms' AS $$
DECLARE
    c       connectors;
    r       open_runs;
    seen    open_runs;
    through bigint;
BEGIN
    passed := false;
    SELECT o.* INTO seen FROM open_runs o WHERE o.id = run;
    through := moves.counted_through(seen, span);   -- without a lock
    more := coalesce(through = seen.counted_through + span, false)
        AND EXISTS (SELECT FROM run_checkpoints k WHERE k.try_id = seen.try_id AND k.no > through);
    IF NOT EXISTS (SELECT FROM run_checkpoints k
            WHERE k.try_id = seen.try_id AND k.no > seen.checkpoint_no AND k.no <= through) THEN
        IF through > seen.counted_through + span / 10 THEN   -- fewer are counted again: that costs less than a commit
            UPDATE open_runs o SET counted_through = through
            WHERE o.id = run AND o.try_id = seen.try_id AND o.counted_through < through;
        END IF;
        RETURN;
    END IF;
    SELECT k.* INTO c FROM connectors k WHERE k.id = seen.connector_id FOR UPDATE NOWAIT;
    SELECT o.* INTO r FROM open_runs o WHERE o.id = run FOR UPDATE;
    -- Looked at again: another caller may have passed it before the lock.
    IF r.try_id IS DISTINCT FROM seen.try_id OR c.run_id IS DISTINCT FROM run OR c.status <> 'SYNCING'
        OR NOT EXISTS (SELECT FROM run_checkpoints k WHERE k.try_id = r.try_id AND k.no > r.checkpoint_no AND k.no <= through) THEN
        RETURN;
    END IF;
    c := moves.pass_checkpoint(c, r, through);
    DELETE FROM run_checkpoints k WHERE k.try_id = r.try_id AND k.no <= through;
    UPDATE connectors SET state = c.state, listing = c.listing WHERE id = c.id AND kept_plan IS NULL;   -- the cursor of a run with parameters is dropped
    passed := true;
END $$;
-- +goose StatementEnd

-- SYNCING -> ACTIVE: ends a run that is fully stored, in one transaction with its cursor, so that the cursor never
-- runs ahead of the data. Skipped where there was nothing to store. A document that is neither stored nor known to have failed
-- leaves the cursor where it was. A run that was cut is postponed, or fails: SYNCING -> ERROR, DISABLED. No row where the run is not, or no longer,
-- open and whole, or advance has to count first; an error (lock_not_available) where somebody holds the connector: it is asked again.
-- +goose StatementBegin
CREATE FUNCTION moves.complete(run uuid, span integer DEFAULT 10000)
    RETURNS TABLE (connector_id integer, type text, verdict text)
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
    what := moves.complete_locked(c, r, span);
    RETURN QUERY SELECT c.id, c.type, what WHERE what IS NOT NULL;
END $$;
-- +goose StatementEnd

-- complete for many runs, in one transaction; place: where in the list, from 0. A verdict that is null: the run is not, or no
-- longer, open and whole, or advance has to count first. No row for one that somebody holds: it is asked for alone.
-- +goose StatementBegin
CREATE FUNCTION moves.complete_all(runs uuid[], span integer DEFAULT 10000)
    RETURNS TABLE (place integer, connector_id integer, type text, verdict text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '200ms' AS $$
#variable_conflict use_column
DECLARE
    c connectors;
    r open_runs;
BEGIN
    FOR at IN 1..coalesce(cardinality(runs), 0) LOOP
        SELECT k.* INTO c FROM open_runs o JOIN connectors k ON k.id = o.connector_id AND k.run_id = o.id AND k.status = 'SYNCING'
        WHERE o.id = runs[at] AND o.whole FOR UPDATE SKIP LOCKED;
        IF FOUND THEN
            SELECT o.* INTO r FROM open_runs o WHERE o.id = runs[at];
            RETURN QUERY SELECT at - 1, c.id, c.type, moves.complete_locked(c, r, span);
        ELSIF NOT EXISTS (SELECT FROM open_runs o WHERE o.id = runs[at] AND o.whole) THEN
            RETURN QUERY SELECT at - 1, 0, '', NULL::text;
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd

-- Ends a run that is fully stored, both it and its connector locked, and returns its verdict; null where advance has to count
-- first.
-- +goose StatementBegin
CREATE FUNCTION moves.complete_locked(c connectors, r open_runs, span integer) RETURNS text
    LANGUAGE plpgsql AS $$
DECLARE
    through bigint;
    clean   boolean;
    what    text;
BEGIN
    clean := r.unnamed = 0 AND r.waiting = 0;
    through := CASE WHEN clean THEN r.total ELSE moves.counted_through(r, span) END;
    IF NOT clean AND through = r.counted_through + span
        AND EXISTS (SELECT FROM run_checkpoints k WHERE k.try_id = r.try_id AND k.no > through) THEN
        RETURN NULL;
    END IF;
    IF clean AND r.new_state IS NOT NULL THEN
        c.state := r.new_state;
        c.listing := NULL;
    ELSE
        c := moves.pass_checkpoint(c, r, through);
    END IF;
    IF r.cut IS NULL THEN
        what := CASE WHEN r.total = r.notes THEN 'skipped' ELSE 'completed' END;
        PERFORM moves.finish_stored(c, r, what);
    ELSIF r.waits_until IS NOT NULL THEN
        what := 'superseded';
        PERFORM moves.put_off(c, r.waits_until, r.cut);
    ELSE
        what := 'failed';
        PERFORM moves.fail_cut(c, r);
    END IF;
    RETURN what;
END $$;
-- +goose StatementEnd

-- Whether a run that has brought nothing went on from a checkpoint behind which a whole listing has nothing left: the one before it, of the same configuration,
-- has brought something, and was ended before it completed. It is asked before the connector is put.
-- +goose StatementBegin
CREATE FUNCTION moves.ends_listing(r open_runs) RETURNS boolean
    LANGUAGE sql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
    SELECT coalesce((SELECT k.listing -> 'whole' = 'true' FROM connectors k WHERE k.id = r.connector_id), false)
        AND (r.documents_processed > 0 OR EXISTS (SELECT FROM (SELECT l.config_version, l.documents_processed FROM runs l
            WHERE l.connector_id = r.connector_id ORDER BY l.started_at DESC LIMIT 1000) n WHERE n.config_version = r.config_version AND n.documents_processed > 0))
$$;
-- +goose StatementEnd

-- SYNCING -> ACTIVE for a run that is fully stored.
-- +goose StatementBegin
CREATE FUNCTION moves.finish_stored(c connectors, r open_runs, verdict text) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    -- Not where something of it was lost: a document that did not come may be in the source. Not where nothing came, whatever its
    -- worker says: it may have found its source closed; unless its listing was through before.
    whole_source boolean := CASE WHEN r.listing_whole AND r.unnamed = 0 AND r.waiting = 0 AND c.kept_plan IS NULL
        THEN verdict = 'completed' OR moves.ends_listing(r) ELSE false END;
BEGIN
    PERFORM moves.end_runs(ARRAY[r.id], verdict, coalesce(r.reason, CASE verdict WHEN 'skipped' THEN 'nothing had changed' END), own => true);
    -- The first run that lists the whole source under a configuration: what it did not bring is not in the source.
    UPDATE unswept_runs SET outdated = true
    WHERE run_id = r.id AND whole_source AND c.listed_version IS DISTINCT FROM r.config_version;
    c.listed_version := CASE WHEN whole_source THEN r.config_version ELSE c.listed_version END;
    IF c.kept_plan IS NULL THEN
        c.docs_analyzed := r.documents_processed + r.documents_failed + r.documents_unchanged;
    END IF;
    IF c.listing->'seen' IS NOT NULL THEN   -- it goes on in the next run, which may delete what this one might
        c.deletions_allowed_at := coalesce(c.deletions_allowed_at, r.deletions_allowed_at);
    END IF;
    c := moves.settled(c, verdict);
    PERFORM moves.put(ARRAY[c]);
    PERFORM moves.wake(c, true);
END $$;
-- +goose StatementEnd

-- SYNCING -> ERROR, DISABLED for a run that was cut and does not wait, once everything that it has sent is stored, and its last checkpoint passed.
-- +goose StatementBegin
CREATE FUNCTION moves.fail_cut(c connectors, r open_runs) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    advanced boolean;
BEGIN
    SELECT o.advanced INTO advanced FROM open_runs o WHERE o.id = r.id;
    c := moves.unspent(c);
    PERFORM moves.end_runs(ARRAY[r.id], 'failed', CASE r.cut_kind WHEN 'transient' THEN 'transient failure' ELSE 'took too long' END, r.cut);
    c.status_message := r.cut;
    c.run_id := NULL;
    c := CASE r.cut_kind WHEN 'transient' THEN moves.failed(c, false) ELSE moves.took_too_long(c, advanced) END;
    PERFORM moves.put(ARRAY[c]);
    PERFORM moves.wake(c, true);
END $$;
-- +goose StatementEnd

-- Fails the run of a connector, both locked: by the failure policy, or, where its documents were lost in transit, due at once, or when
-- the wait is over that it was cut with, and without a failure counted.
-- +goose StatementBegin
CREATE FUNCTION moves.fail_lost(c connectors, what text) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    cut open_runs;
BEGIN
    SELECT o.* INTO cut FROM open_runs o WHERE o.id = c.run_id AND o.cut IS NOT NULL;
    c.status_message := CASE what
        WHEN 'transit' THEN 'documents were lost in transit; syncing again'
        WHEN 'message' THEN 'nobody could take its message: NATS took it 10 times, each time it left the stream, and nobody began to sync; look at the workers'' logs and at the dead letters'
        ELSE 'worker lost again: its lease ran out' END;
    c := moves.unspent(c);
    PERFORM moves.end_runs(ARRAY[c.run_id], 'failed', CASE what WHEN 'transit' THEN 'lost in transit'
        WHEN 'message' THEN 'message not taken' ELSE 'worker lost' END, c.status_message);
    c.run_id := NULL;
    IF what = 'transit' AND c.kept_plan IS NULL THEN
        c.status := 'ERROR';
        c.next_sync_at := clock_timestamp();
        c.due_reason := 'lost';
        IF cut.waits_until > c.next_sync_at AND c.trigger_requested_at IS NULL THEN
            c.next_sync_at := cut.waits_until;
            c.due_reason := 'wait';
            c.status_message := cut.cut;
        END IF;
    ELSE
        c := moves.failed(c, false);
    END IF;
    PERFORM moves.put(ARRAY[c]);
    PERFORM moves.wake(c, true);
END $$;
-- +goose StatementEnd

-- The same, apart: in a savepoint of its own, so that a row which Postgres refuses to write takes no other with it. Returns what
-- was refused. Only after a whole batch failed: see attempt in services/scheduler for what a savepoint costs.
-- +goose StatementBegin
CREATE FUNCTION moves.try_fail_lost(c connectors, what text, apart boolean) RETURNS text
    LANGUAGE plpgsql AS $$
BEGIN
    IF NOT apart THEN
        PERFORM moves.fail_lost(c, what);
        RETURN NULL;
    END IF;
    BEGIN
        PERFORM moves.fail_lost(c, what);
        RETURN NULL;
    EXCEPTION WHEN data_exception OR integrity_constraint_violation OR raise_exception THEN
        RETURN SQLERRM;
    END;
END $$;
-- +goose StatementEnd

-- SYNCING -> ERROR, or DISABLED, by the failure policy: runs whose worker was lost again. silent: [{id, beats}]. With apart a
-- refused row is named in `problem` and the others are failed; refused are connectors that are left out.
-- +goose StatementBegin
CREATE FUNCTION moves.abandon(silent jsonb, foreign_timeout interval, batch integer, apart boolean DEFAULT false,
        refused integer[] DEFAULT NULL)
    RETURNS TABLE (run_id uuid, connector_id integer, type text, problem text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s'
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    c connectors;
BEGIN
    FOR c IN SELECT * FROM moves.lock_lost(silent, foreign_timeout, true, batch, refused) LOOP
        CONTINUE WHEN NOT moves.lock_run(c.run_id, false);
        RETURN QUERY SELECT c.run_id, c.id, c.type, moves.try_fail_lost(c, 'worker', apart);
    END LOOP;
END $$;
-- +goose StatementEnd

-- SYNCING -> ERROR, due now, no failure counted: runs whose worker is done and whose documents the stream no longer holds. A
-- message is acknowledged only after its store is committed, so that a run which is still short after the stream was asked has
-- lost some. apart: as abandon has it.
-- +goose StatementBegin
CREATE FUNCTION moves.fail_lost_in_transit(candidates uuid[], first_seq bigint, last_seq bigint, apart boolean DEFAULT false)
    RETURNS TABLE (run_id uuid, connector_id integer, type text, problem text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
#variable_conflict use_column
DECLARE
    c connectors;
BEGIN
    FOR c IN SELECT k.* FROM open_runs r JOIN connectors k ON k.id = r.connector_id AND k.run_id = r.id AND k.status = 'SYNCING'
        WHERE r.id = ANY(candidates) AND NOT r.whole AND (r.drain_seq < first_seq OR r.drain_seq > last_seq)
        FOR UPDATE OF k SKIP LOCKED
    LOOP
        CONTINUE WHEN NOT moves.lock_run(c.run_id, true);
        RETURN QUERY SELECT c.run_id, c.id, c.type, moves.try_fail_lost(c, 'transit', apart);
    END LOOP;
END $$;
-- +goose StatementEnd

-- PENDING -> ERROR, or DISABLED, by the failure policy: runs whose message the broker has taken ten times, has left the stream each
-- time, and nobody picked them up: no subscriber can take it. A message that waits stays in the stream and is not published again,
-- and one that the broker does not take never was in it, so that a run which only waits never comes here. apart, refused: as abandon
-- has them.
-- +goose StatementBegin
CREATE FUNCTION moves.fail_not_taken(batch integer, apart boolean DEFAULT false, refused integer[] DEFAULT NULL)
    RETURNS TABLE (run_id uuid, connector_id integer, type text, problem text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s'
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    c connectors;
BEGIN
    FOR c IN SELECT k.* FROM open_runs r JOIN connectors k ON k.id = r.connector_id AND k.run_id = r.id AND k.status = 'PENDING'
        WHERE r.picked_up_at IS NULL AND r.not_taken >= 10 AND (refused IS NULL OR r.connector_id <> ALL (refused))
        LIMIT batch FOR UPDATE OF k, r SKIP LOCKED
    LOOP
        RETURN QUERY SELECT c.run_id, c.id, c.type, moves.try_fail_lost(c, 'message', apart);
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION moves.fail_not_taken(integer, boolean, integer[]);
DROP FUNCTION moves.fail_lost_in_transit(uuid[], bigint, bigint, boolean);
DROP FUNCTION moves.abandon(jsonb, interval, integer, boolean, integer[]);
DROP FUNCTION moves.try_fail_lost(connectors, text, boolean);
DROP FUNCTION moves.fail_lost(connectors, text);
DROP FUNCTION moves.fail_cut(connectors, open_runs);
DROP FUNCTION moves.finish_stored(connectors, open_runs, text);
DROP FUNCTION moves.ends_listing(open_runs);
DROP FUNCTION moves.complete_locked(connectors, open_runs, integer);
DROP FUNCTION moves.complete_all(uuid[], integer);
DROP FUNCTION moves.complete(uuid, integer);
DROP FUNCTION moves.advance(uuid, integer);
DROP FUNCTION moves.pass_checkpoint(connectors, open_runs, bigint);
DROP FUNCTION moves.counted_through(open_runs, integer);
DROP FUNCTION moves.end_job(uuid, uuid, jsonb, text);
DROP FUNCTION moves.report(uuid, uuid, bigint, bigint, text, text[]);
DROP FUNCTION moves.settled(connectors, text);
DROP FUNCTION moves.end_unsent(integer[], uuid[], jsonb[], text[], bigint[]);
DROP FUNCTION moves.skip_all(jsonb);
DROP FUNCTION moves.skip(uuid, uuid, jsonb, text, bigint);
