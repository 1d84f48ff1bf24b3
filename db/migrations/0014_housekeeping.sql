-- +goose Up
-- What semantic keeps in order. Each call is bounded, and safe beside any other.

-- The ledger's weeks: makes those of now and the next two, or drops one that is older than the retention, and removes a batch
-- of what no week took. Says how many weeks it dropped, and how many rows it removed one by one.
-- +goose StatementBegin
CREATE FUNCTION moves.keep_ledger(retention interval, OUT dropped integer, OUT removed integer)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '500ms' AS $$
DECLARE
    week   timestamptz := date_trunc('week', clock_timestamp(), 'UTC');
    oldest timestamptz := clock_timestamp() - retention;
    name   text;
    begins timestamptz;
    made   boolean := false;
BEGIN
    IF retention IS NULL OR retention < '1 day' THEN
        RAISE EXCEPTION 'keep_ledger: retention is %, must be at least 1 day', retention
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    dropped := 0;
    removed := 0;
    -- One at a time; who finds another at it leaves it to that one.
    IF NOT pg_try_advisory_xact_lock(hashtext('echomind.ledger')) THEN
        RETURN;
    END IF;
    -- Before the weeks, whose locks hold up verdicts until the transaction ends.
    DELETE FROM runs_rest WHERE (id, completed_at) IN (
        SELECT r.id, r.completed_at FROM runs_rest r WHERE r.completed_at < oldest ORDER BY r.completed_at LIMIT 5000);
    GET DIAGNOSTICS removed = ROW_COUNT;
    FOR begins IN SELECT week + make_interval(days => 7 * n) FROM generate_series(0, 2) n LOOP
        name := 'runs_' || to_char(begins AT TIME ZONE 'UTC', 'YYYYMMDD');
        -- Rows that came before their week was made stay where they are, and the week stays unmade.
        IF to_regclass(name) IS NULL AND NOT EXISTS (SELECT FROM runs_rest
                WHERE completed_at >= begins AND completed_at < begins + interval '7 days') THEN
            EXECUTE format('CREATE TABLE %I PARTITION OF runs FOR VALUES FROM (%L) TO (%L)', name, begins,
                begins + interval '7 days');
            made := true;
        END IF;
    END LOOP;
    IF made THEN
        RETURN;   -- one that cannot be dropped does not take back those that were made
    END IF;
    SELECT c.relname INTO name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'runs'::regclass AND c.relname ~ '^runs_[0-9]{8}$'
            AND (to_date(right(c.relname, 8), 'YYYYMMDD') + 7)::timestamp AT TIME ZONE 'UTC' < oldest
        ORDER BY c.relname LIMIT 1;
    IF name IS NOT NULL THEN
        EXECUTE format('DROP TABLE %I', name);
        dropped := 1;
    END IF;
END $$;
-- +goose StatementEnd
SELECT moves.keep_ledger('1 day');

-- Removes a batch each of entries of the audit that are older than the retention, of tokens that are over for as long, and of keys of requests that are older than a
-- day. Says how many.
-- +goose StatementBegin
CREATE FUNCTION moves.keep_audit(retention interval, batch integer, OUT removed integer)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s' SET echomind.keeping = 'on' SET enable_seqscan = off AS $$
DECLARE
    oldest timestamptz := clock_timestamp() - retention;
    over   integer[];
    more   integer;
BEGIN
    IF retention IS NULL OR retention < '1 day' THEN
        RAISE EXCEPTION 'keep_audit: retention is %, must be at least 1 day', retention USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- In the order of their numbers, which is that of their times but for transactions that overlap.
    DELETE FROM audit a WHERE a.id IN (SELECT e.id FROM (SELECT o.id, o.at FROM audit o ORDER BY o.id LIMIT batch) e WHERE e.at < oldest);
    GET DIAGNOSTICS removed = ROW_COUNT;
    -- Those that were made through one of them are over for as long, and go before it.
    SELECT array_agg(o.id) INTO over FROM (SELECT k.id FROM access_tokens k WHERE least(k.revoked_at, k.expires_at) < oldest ORDER BY least(k.revoked_at, k.expires_at) LIMIT batch) o;
    DELETE FROM access_tokens t WHERE t.id IN (SELECT m.id FROM access_tokens m WHERE m.made_through && over LIMIT batch);
    GET DIAGNOSTICS more = ROW_COUNT;
    removed := removed + more;
    DELETE FROM access_tokens t WHERE t.id = ANY (over) AND NOT EXISTS (SELECT FROM access_tokens m WHERE m.made_through && over);
    GET DIAGNOSTICS more = ROW_COUNT;
    removed := removed + more;
    DELETE FROM sign_in_links l WHERE l.code_sha256 IN (SELECT o.code_sha256 FROM sign_in_links o
        WHERE o.expires_at < clock_timestamp() ORDER BY o.expires_at LIMIT batch FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS more = ROW_COUNT;
    removed := removed + more;
    DELETE FROM request_keys k WHERE (k.user_id, k.key) IN (SELECT o.user_id, o.key FROM request_keys o
        WHERE o.at < clock_timestamp() - interval '24 hours' ORDER BY o.at LIMIT batch FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS more = ROW_COUNT;
    removed := removed + more;
END $$;
-- +goose StatementEnd

-- Whether an open run is writing a document, of rows that are locked. Asked in a statement of its own, after the lock.
-- +goose StatementBegin
CREATE FUNCTION moves.is_being_written(connector integer, by uuid) RETURNS boolean
    LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM open_runs r WHERE r.connector_id = connector AND r.try_id = by)
$$;
-- +goose StatementEnd

-- Deletes documents; their chunks are found no more, and sweep_chunks removes them.
-- +goose StatementBegin
CREATE FUNCTION moves.delete_documents(ids bigint[]) RETURNS void
    LANGUAGE sql AS $$
    WITH gone AS (DELETE FROM documents WHERE id = ANY(ids) RETURNING id, try_id, first_no)
    INSERT INTO unnamed_chunks (try_id, first_no, document_id)
    SELECT g.try_id, g.first_no, g.id FROM gone g WHERE g.try_id IS NOT NULL ORDER BY g.id
$$;
-- +goose StatementEnd

-- Takes from documents what an earlier configuration has left in them, and the key of their chunks: what an open run has
-- begun to write becomes a placeholder of its own, and goes with the leftovers if the run does not end it.
-- +goose StatementBegin
CREATE FUNCTION moves.empty_documents(ids bigint[], version bigint) RETURNS void
    LANGUAGE sql AS $$
    INSERT INTO unnamed_chunks (try_id, first_no, document_id)
    SELECT d.try_id, d.first_no, d.id FROM documents d WHERE d.id = ANY(ids) AND d.try_id IS NOT NULL ORDER BY d.id;
    UPDATE documents SET status = 'partial', title = '', url = '', media_type = '', content_hash = '', version_token = '',
        links = '{}', memo = NULL, chunk_count = 0, text_bytes = 0, error = NULL, deleted_at = NULL, written_by = NULL, written_no = NULL, try_id = NULL,
        first_no = NULL, config_version = version
    WHERE id = ANY(ids)
$$;
-- +goose StatementEnd

-- Removes, of a page of a connector's documents that are deleted or partial, those that no open run is writing. `next` is where
-- the page ends, null after the last; `held`: somebody holds one of them, and it stays.
-- +goose StatementBegin
CREATE FUNCTION moves.sweep_leftovers(connector integer, behind bigint, page integer, OUT next bigint, OUT held boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    listed    bigint[];
    found_ids bigint[];
BEGIN
    SELECT array_agg(p.id ORDER BY p.id) INTO listed FROM (
        SELECT d.id FROM documents d
        WHERE d.connector_id = connector AND d.status IN ('deleted', 'partial') AND d.id > behind
        ORDER BY d.id LIMIT page) p;
    next := listed[page];
    SELECT array_agg(l.id) INTO found_ids FROM (
        SELECT d.id FROM documents d
        WHERE d.id = ANY(listed) AND d.status IN ('deleted', 'partial') AND NOT moves.is_being_written(connector, d.touched_by)
        FOR UPDATE SKIP LOCKED) l;
    PERFORM moves.delete_documents(ARRAY(SELECT d.id FROM documents d
        WHERE d.id = ANY(found_ids) AND NOT moves.is_being_written(connector, d.touched_by)));
    held := EXISTS (SELECT FROM documents d
        WHERE d.id = ANY(listed) AND d.status IN ('deleted', 'partial') AND NOT moves.is_being_written(connector, d.touched_by));
END $$;
-- +goose StatementEnd

-- Removes, of a page of a connector's documents, those of configurations before `version`. After a completed run: that run
-- listed the whole source, so that what it did not bring is not in the source as it is configured now. Of a deleted connector:
-- everything up to its last one. Of one that an open run has begun to write nothing of before is left. Returns where the page
-- ends; null after the last.
-- +goose StatementBegin
CREATE FUNCTION moves.sweep_outdated(connector integer, version bigint, behind text, page integer) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    last_read text;
    found_ids bigint[];
BEGIN
    SELECT max(p.source_id) FILTER (WHERE p.n = page) INTO last_read FROM (
        SELECT d.source_id, row_number() OVER (ORDER BY d.source_id) AS n FROM documents d
        WHERE d.connector_id = connector AND d.source_id > behind ORDER BY d.source_id LIMIT page) p;
    -- Waits for who holds one: a page that is through is not read again.
    SELECT array_agg(l.id) INTO found_ids FROM (
        SELECT d.id FROM documents d
        WHERE d.connector_id = connector AND d.source_id > behind AND (last_read IS NULL OR d.source_id <= last_read)
            AND d.config_version < version
        ORDER BY d.source_id FOR UPDATE) l;
    PERFORM moves.delete_documents(ARRAY(SELECT d.id FROM documents d
        WHERE d.id = ANY(found_ids) AND d.config_version < version AND NOT moves.is_being_written(connector, d.touched_by)));
    PERFORM moves.empty_documents(ARRAY(SELECT d.id FROM documents d
        WHERE d.id = ANY(found_ids) AND d.config_version < version), version);
    RETURN last_read;
END $$;
-- +goose StatementEnd

-- Removes chunks that no document names: of a page of their keys behind a place at most `batch`. One that somebody holds is
-- left for the next round. `next` is the last key that was looked at, null where there is none.
-- +goose StatementBegin
CREATE FUNCTION moves.sweep_chunks(behind bigint, page integer, batch integer, OUT next bigint, OUT removed integer)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    u      unnamed_chunks;
    places tid[];
    last   integer;
BEGIN
    removed := 0;
    FOR u IN SELECT q.* FROM unnamed_chunks q WHERE q.id > behind ORDER BY q.id LIMIT page FOR UPDATE SKIP LOCKED LOOP
        next := u.id;
        SELECT array_agg(l.ctid), max(l.no) INTO places, last FROM (
            SELECT c.ctid, c.no FROM chunks c
            WHERE c.try_id = u.try_id AND c.first_no = u.first_no AND c.document_id = u.document_id AND c.no > u.through
            ORDER BY c.no LIMIT batch - removed FOR UPDATE SKIP LOCKED) l;
        DELETE FROM chunks c WHERE c.ctid = ANY(places);
        removed := removed + coalesce(cardinality(places), 0);
        IF removed < batch THEN
            last := 2147483647;   -- nothing is behind what was found
        END IF;
        IF EXISTS (SELECT FROM chunks c WHERE c.try_id = u.try_id AND c.first_no = u.first_no
                AND c.document_id = u.document_id AND c.no > u.through AND c.no <= last) THEN
            NULL;   -- somebody holds one
        ELSIF removed < batch THEN
            DELETE FROM unnamed_chunks q WHERE q.id = u.id;
        ELSE
            UPDATE unnamed_chunks q SET through = last WHERE q.id = u.id;
        END IF;
        EXIT WHEN removed >= batch;
    END LOOP;
END $$;
-- +goose StatementEnd

-- Forgets worker processes that are long gone and hold nothing, and locks that ran out long ago and that nobody has asked for.
-- +goose StatementBegin
CREATE FUNCTION moves.forget_workers(batch integer, OUT forgotten integer, OUT locks integer)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s' AS $$
BEGIN
    DELETE FROM resource_locks k WHERE k.key IN (
        SELECT l.key FROM resource_locks l WHERE l.expires_at < (SELECT clock_timestamp()) - interval '1 hour' LIMIT batch FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS locks = ROW_COUNT;
    DELETE FROM workers w WHERE w.id IN (
        SELECT l.id FROM workers l WHERE l.expires_at < (SELECT clock_timestamp()) - interval '1 hour'
            AND NOT EXISTS (SELECT FROM open_runs r WHERE r.worker_id = l.id)
        ORDER BY l.id LIMIT batch FOR UPDATE SKIP LOCKED)
        AND NOT EXISTS (SELECT FROM open_runs r WHERE r.worker_id = w.id);
    GET DIAGNOSTICS forgotten = ROW_COUNT;
END $$;
-- +goose StatementEnd

-- Adds a job of the system with its type, where it is not there; a second call at the same moment waits, and finds it. A job that is there
-- stays as administrators have left it. Says whether it was added.
-- +goose StatementBegin
CREATE FUNCTION moves.add_system_job(job_type text, job_name text, minutes integer) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
BEGIN
    -- Not by the conflict alone: a connector that is not added would take a number all the same.
    IF EXISTS (SELECT FROM system_jobs s WHERE s.type = job_type) THEN
        RETURN false;
    END IF;
    INSERT INTO connector_types (name, kind, system, default_refresh_minutes, max_concurrent_syncs) VALUES (job_type, 'job', true, minutes, 0)
    ON CONFLICT (name) DO NOTHING;
    INSERT INTO connectors (name, type, scope, refresh_freq_minutes) VALUES (job_name, job_type, 'system', minutes);
    RETURN true;
EXCEPTION WHEN unique_violation THEN
    IF EXISTS (SELECT FROM system_jobs s WHERE s.type = job_type) THEN
        RETURN false;   -- somebody else has added it at the same moment
    END IF;
    RAISE;
END $$;
-- +goose StatementEnd

-- Brings the next run of orphan_sweep forward to now where a connector was deleted. A job that has failed waits for its next try; one that
-- administrators have switched off, or given times, a calendar or a condition of its own, is left alone. False where nothing is brought forward.
-- +goose StatementBegin
CREATE FUNCTION moves.hurry_orphan_sweep() RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    c      connectors;
    moment timestamptz := clock_timestamp();
BEGIN
    IF NOT EXISTS (SELECT FROM deleted_connectors d WHERE d.next_at <= moment) THEN
        RETURN false;
    END IF;
    UPDATE connectors k SET next_sync_at = moment, slot_at = moment
    WHERE k.id = (SELECT s.connector_id FROM system_jobs s WHERE s.type = 'orphan_sweep')
        AND k.status = 'ACTIVE' AND k.due_reason = 'schedule' AND k.refresh_freq_minutes IS NOT NULL AND k.calendar IS NULL AND k.condition IS NULL
        AND k.next_sync_at > moment
    RETURNING * INTO c;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM moves.wake(c, false);
    RETURN true;
END $$;
-- +goose StatementEnd

-- A session keeps the plans of a function. One that was made in a quiet hour, when open_runs and workers had a page, would
-- read all of them for as long as nobody analyses them: with 20,000 runs in flight 1,100 pages for each statement. Moves that
-- are told their runs or connectors find each by a key, so that forbidding every other walk and join is enough; lock_due walks
-- indexes in their order, and as it may not sort, too. Its plans are kept from the first call: one for a known number of places
-- would always seem cheaper. Other moves of a batch are planned each time. Never by a bitmap: it reads everything before a LIMIT,
-- and leaves dead entries in the index for the next to read again. But for keep_audit: nothing else reads the index of the tokens that one has made.
-- +goose StatementBegin
DO $$
DECLARE
    move pg_proc;
BEGIN
    FOR move IN SELECT * FROM pg_proc p WHERE p.pronamespace = 'moves'::regnamespace AND p.prosecdef
        OR p.oid IN ('connectors_user_insert'::regproc, 'connectors_user_update'::regproc, 'connectors_user_delete'::regproc,
            'connectors_note_waiter'::regproc, 'open_runs_leave_keys'::regproc) LOOP
        EXECUTE format('ALTER FUNCTION %s SET enable_bitmapscan = %s', move.oid::regprocedure, CASE move.proname WHEN 'keep_audit' THEN 'on' ELSE 'off' END);
        IF move.proname IN ('pick_up', 'pick_up_all', 'heartbeat', 'drain', 'drain_all', 'cut', 'release', 'postpone', 'waits', 'fail', 'finish',
                'skip', 'skip_all', 'hold', 'known', 'links', 'deletions_allowed', 'stored_up_to', 'complete', 'complete_all', 'advance', 'replace_secret', 'acquire_lock', 'renew_lock', 'free_locks', 'release_lock', 'note_provider', 'disable',
                'enable', 'cancel', 'wait_for_slot', 'report', 'end_job', 'trigger_sync', 'sweep_chunks', 'lock_due', 'claim', 'keys_of', 'key_room', 'park', 'waiting_keys', 'lock_waiting', 'lock_stale', 'unpark', 'replan_calendars', 'note_met', 'fail_conditions', 'connectors_user_insert', 'connectors_user_update',
                'connectors_user_delete', 'connectors_note_waiter', 'open_runs_leave_keys') THEN
            EXECUTE format('ALTER FUNCTION %s SET enable_seqscan = off', move.oid::regprocedure);
            EXECUTE format('ALTER FUNCTION %s SET enable_hashjoin = off', move.oid::regprocedure);
            EXECUTE format('ALTER FUNCTION %s SET enable_mergejoin = off', move.oid::regprocedure);
            EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = %s', move.oid::regprocedure,
                CASE move.proname WHEN 'lock_due' THEN 'force_generic_plan' ELSE 'auto' END);
        ELSE
            EXECUTE format('ALTER FUNCTION %s SET plan_cache_mode = force_custom_plan', move.oid::regprocedure);
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION moves.hurry_orphan_sweep();
DROP FUNCTION moves.add_system_job(text, text, integer);
DROP FUNCTION moves.forget_workers(integer);
DROP FUNCTION moves.sweep_chunks(bigint, integer, integer);
DROP FUNCTION moves.sweep_outdated(integer, bigint, text, integer);
DROP FUNCTION moves.sweep_leftovers(integer, bigint, integer);
DROP FUNCTION moves.empty_documents(bigint[], bigint);
DROP FUNCTION moves.delete_documents(bigint[]);
DROP FUNCTION moves.is_being_written(integer, uuid);
DROP FUNCTION moves.keep_audit(interval, integer);
DROP FUNCTION moves.keep_ledger(interval);
