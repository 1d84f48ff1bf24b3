-- +goose Up
-- The moves of those who fetch: pick_up, heartbeat, drain, cut, release, postpone, waits, fail, finish, hold. Each names the run and the try.
-- Those with _all make a move of many runs in one transaction, one after another. They wait for nobody's connector or run: of one
-- that somebody holds they answer nothing, and it is asked for alone.

-- PENDING -> SYNCING: the run is this try's from now on. With a worker, under its lease; without one, under no lease, until
-- foreign_timeout. True also where this very try holds it already: the commit whose answer was lost. False: old news.
-- +goose StatementBegin
CREATE FUNCTION moves.pick_up(connector integer, run uuid, try uuid, worker uuid DEFAULT NULL, lease interval DEFAULT NULL)
    RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    c connectors;
BEGIN
    -- A try that is the run would be the same for everybody who has the message, and fence nobody.
    IF try IS NULL OR try = run OR (worker IS NULL) <> (lease IS NULL) OR lease NOT BETWEEN '1 second' AND '1 hour' THEN
        RAISE EXCEPTION 'pick_up: try is needed, a new UUID each time; worker and lease (1 s to 1 h) go together'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF worker IS NOT NULL AND NOT EXISTS (
            SELECT FROM workers w WHERE w.id = worker AND w.expires_at > (SELECT clock_timestamp()) + lease / 2) THEN
        PERFORM moves.beat(worker, lease);
    END IF;
    SELECT * INTO c FROM connectors WHERE id = connector FOR UPDATE;
    IF NOT FOUND OR run IS NULL OR c.run_id IS DISTINCT FROM run THEN
        RETURN false;
    END IF;
    IF c.status = 'SYNCING' THEN
        RETURN moves.has_taken(c.run_id, try, worker);
    END IF;
    PERFORM moves.take(ARRAY[c.id], ARRAY[c.run_id], ARRAY[try], worker);
    RETURN true;
END $$;
-- +goose StatementEnd

-- pick_up for many runs of one worker process. asked: [{connector, run, try}]; place: where in it, from 0. Where half of its lease
-- has passed without a heartbeat, it waits for its process's row, and holds it until it is through: its caller bounds it.
-- +goose StatementBegin
CREATE FUNCTION moves.pick_up_all(asked jsonb, worker uuid, lease interval) RETURNS TABLE (place integer, taken boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    a     record;
    ids   integer[] := '{}';
    runs  uuid[] := '{}';
    tries uuid[] := '{}';
BEGIN
    IF worker IS NULL OR lease IS NULL OR lease NOT BETWEEN '1 second' AND '1 hour' THEN
        RAISE EXCEPTION 'pick_up_all: worker and lease (1 s to 1 h) are needed' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT EXISTS (SELECT FROM workers w WHERE w.id = worker AND w.expires_at > (SELECT clock_timestamp()) + lease / 2) THEN
        PERFORM moves.beat(worker, lease);
    END IF;
    -- In the order asked, and in one statement: a statement for each costs as much as the lock.
    FOR a IN SELECT k.connector, k.run, k.try, k.no - 1 AS no, l.status
        FROM ROWS FROM (jsonb_to_recordset(asked) AS (connector integer, run uuid, try uuid)) WITH ORDINALITY k(connector, run, try, no)
        LEFT JOIN LATERAL (SELECT c.status FROM connectors c JOIN open_runs r ON r.id = c.run_id
            WHERE c.id = k.connector AND c.run_id = k.run FOR UPDATE SKIP LOCKED) l ON true LOOP
        IF a.try IS NULL OR a.try = a.run THEN
            RAISE EXCEPTION 'pick_up_all: try is needed, a new UUID each time' USING ERRCODE = 'invalid_parameter_value';
        END IF;
        IF a.status IS NOT NULL THEN
            taken := CASE WHEN a.run = ANY(runs) THEN a.try = tries[array_position(runs, a.run)]
                ELSE a.status <> 'SYNCING' OR moves.has_taken(a.run, a.try, worker) END;
            IF a.status <> 'SYNCING' AND NOT a.run = ANY(runs) THEN
                ids := ids || a.connector;
                runs := runs || a.run;
                tries := tries || a.try;
            END IF;
        ELSIF NOT EXISTS (SELECT FROM connectors k WHERE k.id = a.connector AND k.run_id = a.run) THEN
            taken := false;
        ELSE
            CONTINUE;
        END IF;
        place := a.no;
        RETURN NEXT;
    END LOOP;
    PERFORM moves.take(ids, runs, tries, worker);
END $$;
-- +goose StatementEnd

-- PENDING -> SYNCING for connectors that are locked, each by a try of its own: in two statements for all, see put.
-- +goose StatementBegin
CREATE FUNCTION moves.take(ids integer[], runs uuid[], tries uuid[], worker uuid) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    -- Reading starts now: a trigger asked for before is answered by this run, and has what that allows; not by one with parameters.
    UPDATE open_runs r SET picked_up_at = clock_timestamp(), try_id = tries[array_position(runs, r.id)], worker_id = worker,
        (trigger_requested_at, deletions_allowed_at, fails_if_lost) = (
            SELECT CASE WHEN c.kept_plan IS NULL THEN c.trigger_requested_at END, CASE WHEN c.kept_plan IS NULL THEN c.deletions_allowed_at END,
                CASE WHEN c.kept_plan IS NULL THEN c.failure_count > 0 OR c.max_retries = 1
                    ELSE c.failure_count > (c.kept_plan->>'failure_count')::integer END FROM connectors c WHERE c.id = r.connector_id)
    WHERE r.id = ANY(runs) AND r.try_id IS NULL;   -- not picked_up_at: its index is of everything that waits
    UPDATE connectors SET status = 'SYNCING', trigger_requested_at = CASE WHEN kept_plan IS NOT NULL THEN trigger_requested_at END,
        wanted = wanted OR (trigger_requested_at IS NOT NULL AND kept_plan IS NULL),
        deletions_allowed_at = CASE WHEN kept_plan IS NOT NULL THEN deletions_allowed_at END
    WHERE id = ANY(ids);
END $$;
-- +goose StatementEnd

-- Whether a run is this very try's, and not done.
-- +goose StatementBegin
CREATE FUNCTION moves.has_taken(run uuid, try uuid, worker uuid) RETURNS boolean
    LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM open_runs r WHERE r.id = run AND r.try_id = try
        AND r.worker_id IS NOT DISTINCT FROM worker AND r.drain_seq IS NULL);
END $$;
-- +goose StatementEnd

-- Writes a heartbeat down, by Postgres's clock.
-- +goose StatementBegin
CREATE FUNCTION moves.beat(worker uuid, lease interval) RETURNS void
    LANGUAGE sql AS $$
    INSERT INTO workers AS w (id, expires_at) VALUES (worker, clock_timestamp() + lease)
    ON CONFLICT (id) DO UPDATE SET expires_at = EXCLUDED.expires_at, beats = w.beats + 1
$$;
-- +goose StatementEnd

-- Keeps the lease of a worker process, and with it all its runs; returns those of the named tries whose runs are not its own.
-- Tries, because it may name two of one run: the one that it has, and one that waits to be picked up, for a trigger that came
-- again. It may revive a lease that has run out, for whatever nobody has taken meanwhile. A worker that names its tries names
-- all: a run that it has had for a lease and whose try it does not name, it does not know of (the end of it could not be written
-- down), and the living would keep it for ever. That one goes to a worker that is not there, and is found lost. Null
-- for tries names nothing and keeps all.
-- +goose StatementBegin
CREATE FUNCTION moves.heartbeat(worker uuid, lease interval, runs uuid[], tries uuid[]) RETURNS SETOF uuid
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
DECLARE
    unknown uuid[];
    nobody  uuid;
BEGIN
    IF worker IS NULL OR lease IS NULL OR lease NOT BETWEEN '1 second' AND '1 hour' THEN
        RAISE EXCEPTION 'heartbeat: worker and lease (1 s to 1 h) are needed' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM moves.beat(worker, lease);
    SELECT array_agg(l.id) INTO unknown FROM (
        SELECT r.id FROM open_runs r
        WHERE r.worker_id = worker AND r.try_id <> ALL (tries) AND r.picked_up_at < (SELECT clock_timestamp()) - lease
        ORDER BY r.id FOR UPDATE SKIP LOCKED) l;
    IF unknown IS NOT NULL THEN
        INSERT INTO workers (id, expires_at) VALUES (gen_random_uuid(), clock_timestamp()) RETURNING id INTO nobody;
        UPDATE open_runs SET worker_id = nobody WHERE id = ANY(unknown);
    END IF;
    -- A statement of its own: it sees what a rescue has committed that it waited for.
    RETURN QUERY SELECT k.try FROM unnest(runs, tries) k(run, try)
        WHERE NOT EXISTS (SELECT FROM open_runs r WHERE r.id = k.run AND r.try_id = k.try AND r.worker_id = worker);
END $$;
-- +goose StatementEnd

-- The worker is done and gives up the lease: every document is published, and sync completed is at this place in the
-- document stream. False: the run is complete already, or over, which is no error.
-- +goose StatementBegin
CREATE FUNCTION moves.drain(run uuid, try uuid, seq bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
DECLARE
    had_locks boolean;
BEGIN
    IF seq IS NULL OR seq < 1 THEN
        RAISE EXCEPTION 'drain: seq is %, must be the place of sync completed in the document stream, 1 or more',
            coalesce(seq::text, 'null') USING ERRCODE = 'invalid_parameter_value';
    END IF;
    UPDATE open_runs SET worker_id = NULL, drain_seq = seq, fetched_at = clock_timestamp()
    WHERE id = run AND try_id = try AND drain_seq IS NULL RETURNING has_locks INTO had_locks;
    IF had_locks THEN
        PERFORM moves.let_go(ARRAY[run], true);
    END IF;
    RETURN had_locks IS NOT NULL;
END $$;
-- +goose StatementEnd

-- drain for many runs. asked: [{run, try, seq}]; place: where in it, from 0.
-- +goose StatementBegin
CREATE FUNCTION moves.drain_all(asked jsonb) RETURNS TABLE (place integer, drained boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
DECLARE
    a record;
BEGIN
    FOR a IN SELECT (k.item->>'run')::uuid AS run, (k.item->>'try')::uuid AS try, (k.item->>'seq')::bigint AS seq, k.no - 1 AS no
        FROM jsonb_array_elements(asked) WITH ORDINALITY k(item, no) LOOP
        PERFORM FROM open_runs r WHERE r.id = a.run AND r.try_id = a.try AND r.drain_seq IS NULL FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            place := a.no;
            drained := moves.drain(a.run, a.try, a.seq);
            RETURN NEXT;
        ELSIF NOT EXISTS (SELECT FROM open_runs r WHERE r.id = a.run AND r.try_id = a.try AND r.drain_seq IS NULL) THEN
            place := a.no;
            drained := false;
            RETURN NEXT;
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd

-- The worker gives up a run that took too long, or that fails (kind, as of fail) and must be remembered to have come so far, or, with a wait,
-- whose source has asked to wait: 1..sent are published, the last of them at this place in the document stream, and no sync completed follows.
-- Semantic stores them, passes the checkpoints among them, and then the run fails, or is postponed, so that nobody is failed, and nothing is
-- fetched again, because semantic is away or behind.
-- wait and message: as postpone has them; it counts from now. True also where it is cut already. False: the run is over, or sync
-- completed was sent, and it completes.
-- +goose StatementBegin
CREATE FUNCTION moves.cut(
    run uuid, try uuid, sent bigint, seq bigint, message text, wait interval DEFAULT NULL, kind text DEFAULT 'too_long'
) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
DECLARE
    r       open_runs;
    highest bigint;
BEGIN
    IF sent IS NULL OR sent < 1 OR seq IS NULL OR seq < 1 THEN
        RAISE EXCEPTION 'cut: sent is %, seq is %, both must be 1 or more; a run that has sent nothing fails as too_long, or is postponed',
            coalesce(sent::text, 'null'), coalesce(seq::text, 'null') USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF kind IS NULL OR kind NOT IN ('too_long', 'transient') THEN
        RAISE EXCEPTION 'cut: kind is %, must be too_long or transient', coalesce(kind, 'null') USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT o.* INTO r FROM open_runs o WHERE o.id = run AND o.try_id = try FOR UPDATE;
    IF r.id IS NULL OR r.cut IS NOT NULL OR r.total IS NOT NULL OR r.drain_seq IS NOT NULL THEN
        RETURN r.cut IS NOT NULL;
    END IF;
    -- Asked after the run is locked: no store is under way that could count a higher number.
    SELECT coalesce(max(m.no), 0) INTO highest FROM run_messages m WHERE m.try_id = try;
    IF highest > sent THEN
        RAISE EXCEPTION 'cut: sent is %, but number % is stored already: sent is the highest number', sent, highest
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    UPDATE open_runs o SET worker_id = NULL, drain_seq = seq, fetched_at = clock_timestamp(), total = sent,
        whole = (o.stored = sent), cut = left(coalesce(message, 'no message'), 2000), wait_message = NULL,
        waits_until = CASE WHEN wait IS NOT NULL THEN clock_timestamp() + moves.granted(wait, 'cut') END,
        cut_kind = CASE WHEN wait IS NULL THEN kind END
    WHERE o.id = run;
    IF r.has_locks THEN
        PERFORM moves.let_go(ARRAY[run], true);
    END IF;
    RETURN true;
END $$;
-- +goose StatementEnd

-- Locks the connector of a try's run, if the run is still the try's; else no row.
-- +goose StatementBegin
CREATE FUNCTION moves.lock_syncing(run uuid, try uuid) RETURNS connectors
    LANGUAGE plpgsql AS $$
DECLARE
    c connectors;
BEGIN
    SELECT k.* INTO c FROM connectors k
    WHERE k.id = (SELECT r.connector_id FROM open_runs r WHERE r.id = run) FOR UPDATE;
    IF c.run_id IS DISTINCT FROM run OR c.status <> 'SYNCING'
        OR NOT EXISTS (SELECT FROM open_runs r WHERE r.id = run AND r.try_id = try) THEN
        RETURN NULL;
    END IF;
    RETURN c;
END $$;
-- +goose StatementEnd

-- PENDING, SYNCING -> ACTIVE, due now, the run superseded, no failure counted: a clean stop. A run that waits to be picked up
-- may be handed back by the receiver of its message; a run that is being fetched, by its own try only. If the source has asked to wait,
-- the run is put off until then. keep_locks: something may still be at work under the locks of the run, which are free when their ttl is over.
-- +goose StatementBegin
CREATE FUNCTION moves.release(run uuid, try uuid, keep_locks boolean DEFAULT false) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    c       connectors;
    waiting open_runs;
BEGIN
    SELECT k.* INTO c FROM connectors k
    WHERE k.id = (SELECT r.connector_id FROM open_runs r WHERE r.id = run) FOR UPDATE;
    IF c.run_id IS DISTINCT FROM run
        OR NOT EXISTS (SELECT FROM open_runs r WHERE r.id = run AND (r.try_id IS NULL OR r.try_id = try)) THEN
        RETURN false;
    END IF;
    IF keep_locks THEN
        UPDATE open_runs o SET has_locks = false WHERE o.id = run AND o.has_locks;
        PERFORM moves.let_go(ARRAY[run], false) WHERE FOUND;
    END IF;
    SELECT r.* INTO waiting FROM open_runs r WHERE r.id = run AND r.waits_until > clock_timestamp();
    IF FOUND THEN
        PERFORM moves.put_off(c, waiting.waits_until, coalesce(waiting.wait_message, waiting.cut));
        RETURN true;
    END IF;
    IF c.kept_plan IS NOT NULL THEN
        c := moves.asked_again(c, clock_timestamp());
        PERFORM moves.end_runs(ARRAY[run], 'superseded', 'released', own => true);
        c := moves.resumed(c);
    ELSE
        c := moves.unspent(c);
        PERFORM moves.end_runs(ARRAY[run], 'superseded', 'released', own => true);
        c.status := 'ACTIVE';
        c.run_id := NULL;
        c.next_sync_at := clock_timestamp();
        c.due_reason := CASE WHEN c.trigger_requested_at IS NULL THEN 'release' ELSE 'manual' END;
    END IF;
    PERFORM moves.put(ARRAY[c]);
    PERFORM moves.wake(c, true);
    RETURN true;
END $$;
-- +goose StatementEnd

-- How long a source's wish to wait is granted: a second at least, so that nobody asks without a pause, and a day at most.
-- +goose StatementBegin
CREATE FUNCTION moves.granted(wait interval, asked text) RETURNS interval
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF wait IS NULL THEN
        RAISE EXCEPTION '%: wait is null, must be an interval, such as 90 seconds', asked USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN least(greatest(wait, interval '1 second'), interval '24 hours');
END $$;
-- +goose StatementEnd

-- ACTIVE for a connector that is locked, due when a wait is over that the source has asked for: at once where it is over, or where a sync
-- was asked for while the run went on.
-- +goose StatementBegin
CREATE FUNCTION moves.put_off(c connectors, until timestamptz, message text) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    advanced boolean;
BEGIN
    IF c.kept_plan IS NOT NULL THEN
        c := moves.asked_again(c, until);
    END IF;
    c := moves.unspent(c);
    c.status_message := left(coalesce(message, 'no message'), 2000);
    UPDATE open_runs o SET waits_until = until WHERE o.id = c.run_id RETURNING o.advanced INTO advanced;
    PERFORM moves.end_runs(ARRAY[c.run_id], 'superseded', 'postponed', c.status_message, true);
    IF c.kept_plan IS NOT NULL THEN
        c := moves.resumed(c);
        PERFORM moves.put(ARRAY[c]);
        PERFORM moves.wake(c, true);
        RETURN;
    END IF;
    c.status := 'ACTIVE';
    c.run_id := NULL;
    c.put_off_since := CASE WHEN advanced THEN clock_timestamp() ELSE coalesce(c.put_off_since, clock_timestamp()) END;
    c.next_sync_at := greatest(until, clock_timestamp());
    c.due_reason := 'wait';
    IF c.trigger_requested_at IS NOT NULL THEN
        c.next_sync_at := clock_timestamp();
        c.due_reason := 'manual';
        c.status_message := NULL;
    END IF;
    PERFORM moves.put(ARRAY[c]);
    PERFORM moves.wake(c, true);
END $$;
-- +goose StatementEnd

-- SYNCING -> ACTIVE, due when a wait is over that the source has asked for; the run superseded, no failure counted. wait: from
-- now, one second to a day. message says who asked, without the time: that stands in next_sync_at, and in the ledger in
-- waits_until. What the run has sent and is not stored is refused: a run that has sent something calls cut.
-- +goose StatementBegin
CREATE FUNCTION moves.postpone(run uuid, try uuid, wait interval, message text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    c     connectors := moves.lock_syncing(run, try);
    until timestamptz := clock_timestamp() + moves.granted(wait, 'postpone');
BEGIN
    IF c.id IS NULL THEN
        RETURN false;
    END IF;
    PERFORM moves.put_off(c, until, message);
    RETURN true;
END $$;
-- +goose StatementEnd

-- Writes down that a try waits, because its source has asked for it: for who asks why it takes so long. A release puts the
-- run off until then; nothing else follows from it.
-- wait and message: as postpone has them. Meant for waits of 10 seconds and more. A wait of 0: it is over before its time. False also where the run drains.
-- +goose StatementBegin
CREATE FUNCTION moves.waits(run uuid, try uuid, wait interval, message text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
BEGIN
    UPDATE open_runs o SET waits_until = CASE WHEN wait = '0' THEN NULL ELSE clock_timestamp() + moves.granted(wait, 'waits') END,
        wait_message = CASE WHEN wait = '0' THEN NULL ELSE left(coalesce(message, 'no message'), 2000) END
    WHERE o.id = run AND o.try_id = try AND o.drain_seq IS NULL;
    RETURN FOUND;
END $$;
-- +goose StatementEnd

-- A connector whose run took too long: it goes on from the checkpoint that has brought it further, at once and without a failure
-- counted; without one it fails by the failure policy.
-- +goose StatementBegin
CREATE FUNCTION moves.took_too_long(c connectors, advanced boolean) RETURNS connectors
    LANGUAGE plpgsql AS $$
BEGIN
    IF NOT advanced OR c.kept_plan IS NOT NULL THEN
        RETURN moves.failed(c, false);
    END IF;
    c.status := 'ERROR';
    c.put_off_since := NULL;
    c.next_sync_at := clock_timestamp();
    c.due_reason := 'retry';
    RETURN c;
END $$;
-- +goose StatementEnd

-- SYNCING -> ERROR, or DISABLED after max_retries failures in a row. kind: transient, permanent, or too_long, which counts
-- no failure where the run has passed a checkpoint, and goes on from it at once. It may be semantic that says so: what the run holds is its worker's to give back.
-- +goose StatementBegin
CREATE FUNCTION moves.fail(run uuid, try uuid, kind text, message text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    c connectors := moves.lock_syncing(run, try);
    advanced boolean;
BEGIN
    IF kind IS NULL OR kind NOT IN ('transient', 'permanent', 'too_long', 'relist') THEN
        RAISE EXCEPTION 'fail: kind is %, must be transient, permanent, too_long or relist', coalesce(kind, 'null')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF c.id IS NULL THEN
        RETURN false;
    END IF;
    SELECT r.advanced INTO advanced FROM open_runs r WHERE r.id = run;
    c.status_message := left(coalesce(message, 'no message'), 2000);
    c := moves.unspent(c);
    PERFORM moves.end_runs(ARRAY[run], 'failed', CASE kind WHEN 'permanent' THEN 'permanent failure'
        WHEN 'too_long' THEN 'took too long' ELSE 'transient failure' END, c.status_message);
    c.run_id := NULL;
    IF kind = 'relist' THEN
        c.state := CASE WHEN c.state ? 'place' THEN jsonb_build_object('place', c.state -> 'place') ELSE '{}' END;
        c.listing := NULL;
    END IF;
    c := CASE kind WHEN 'too_long' THEN moves.took_too_long(c, advanced) ELSE moves.failed(c, kind = 'permanent') END;
    PERFORM moves.put(ARRAY[c]);
    PERFORM moves.wake(c, true);
    RETURN true;
END $$;
-- +goose StatementEnd

-- SYNCING -> ACTIVE by a subscriber that stores what it fetches itself: the sync is complete, its cursor is the new state.
-- One that has sent documents to semantic must not call it: semantic completes those. new_state null leaves the old one.
-- +goose StatementBegin
CREATE FUNCTION moves.finish(run uuid, try uuid, new_state jsonb DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    c connectors := moves.lock_syncing(run, try);
BEGIN
    IF jsonb_path_exists(new_state, '$.**{31}') THEN
        RAISE EXCEPTION 'finish: new_state is nested more than 30 levels deep, no trigger could carry it'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF c.id IS NULL THEN
        RETURN false;
    END IF;
    PERFORM FROM open_runs r WHERE r.id = run FOR UPDATE;   -- a store that is under way counts
    IF EXISTS (SELECT FROM open_runs r WHERE r.id = run AND (r.stored > 0 OR r.total IS NOT NULL OR r.drain_seq IS NOT NULL)) THEN
        RAISE EXCEPTION 'finish: run % has documents at semantic, which completes it; send sync completed instead', run
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    PERFORM moves.end_runs(ARRAY[run], 'completed', NULL, own => true);
    IF new_state IS NOT NULL THEN
        c.state := new_state;
        c.listing := NULL;
    END IF;
    c := moves.settled(c, 'completed');
    PERFORM moves.put(ARRAY[c]);
    PERFORM moves.wake(c, true);
    RETURN true;
END $$;
-- +goose StatementEnd

-- The fence of a subscriber's own store: true, and held until the transaction ends, while the run is this try's. A call
-- that ends the run meanwhile waits; after an earlier end it is false.
-- +goose StatementBegin
CREATE FUNCTION moves.hold(run uuid, try uuid) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
BEGIN
    PERFORM FROM open_runs WHERE id = run AND try_id = try FOR SHARE;
    RETURN FOUND;
END $$;
-- +goose StatementEnd

-- What is stored of the documents of a try's connector, a page of them behind `after`, in the order of their ids. A token counts
-- only if it was stored under the run's configuration, and so does a memo; a deleted document is not known. seen: one of these tries showed it, in
-- that listing of its, by that number.
-- +goose StatementBegin
CREATE FUNCTION moves.known(run uuid, try uuid, after text DEFAULT '', page integer DEFAULT 1000,
    tries uuid[] DEFAULT '{}', listings integer[] DEFAULT '{}', nos bigint[] DEFAULT '{}')
    RETURNS TABLE (source_id text, version_token text, content_hash text, seen boolean, memo json, refused_token text, found boolean)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    r     open_runs := moves.of_try(run, try, 'known');
    since bigint := (SELECT c.added_version FROM connectors c WHERE c.id = r.connector_id);
    -- Looked up for each sighting of a document: a look at the sightings for each of the tries costs minutes where they are many.
    shown jsonb := (SELECT jsonb_object_agg(l.try || ' ' || l.listing, l.no)
        FROM (SELECT n.try, n.listing, max(n.no) AS no FROM unnest(tries, listings, nos) n(try, listing, no)
            WHERE n.try IS NOT NULL AND n.listing IS NOT NULL AND n.no IS NOT NULL GROUP BY 1, 2) l);
BEGIN
    IF page IS NULL OR page NOT BETWEEN 1 AND 10000 OR after IS NULL THEN
        RAISE EXCEPTION 'known: page is %, must be from 1 to 10000; after is %, must be an id or empty',
            coalesce(page::text, 'null'), coalesce(after, 'null') USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN QUERY SELECT k.source_id,
        CASE WHEN k.config_version = r.config_version AND k.status = 'stored' THEN k.version_token ELSE '' END,
        CASE WHEN k.config_version = r.config_version THEN k.content_hash ELSE '' END,
        s.seen IS NOT NULL,
        CASE WHEN k.config_version = r.config_version THEN k.memo END,
        CASE WHEN k.config_version = r.config_version AND k.status = 'failed' THEN k.version_token ELSE '' END,
        k.try_id IS NOT NULL AND (k.status = 'stored' OR k.chunk_count > 0)
    FROM (SELECT d.* FROM documents d
        WHERE d.connector_id = r.connector_id AND d.status IN ('stored', 'failed') AND d.source_id > after
            AND d.config_version >= since   -- before it are those of a deleted connector of the same id
        ORDER BY d.source_id LIMIT page) k
    LEFT JOIN LATERAL (SELECT true AS seen FROM sightings g
        WHERE shown IS NOT NULL AND g.connector_id = r.connector_id AND g.source_id = k.source_id
            AND g.no <= (shown ->> (g.try_id || ' ' || g.listing))::bigint LIMIT 1) s ON true
    ORDER BY k.source_id;
END $$;
-- +goose StatementEnd

-- The links that are stored with a document of a try's connector; no row for one that is not stored.
-- +goose StatementBegin
CREATE FUNCTION moves.links(run uuid, try uuid, source_id text) RETURNS SETOF text[]
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    r     open_runs := moves.of_try(run, try, 'links');
    since bigint := (SELECT c.added_version FROM connectors c WHERE c.id = r.connector_id);
BEGIN
    RETURN QUERY SELECT d.links FROM documents d
        WHERE d.connector_id = r.connector_id AND d.source_id = links.source_id AND d.status IN ('stored', 'failed')
            AND d.config_version >= since;
END $$;
-- +goose StatementEnd

-- Whether a try's run may delete many documents at once: its user has allowed it, or its connector has no deletion_guard. Asked only
-- where a listing would in fact do so.
-- +goose StatementBegin
CREATE FUNCTION moves.deletions_allowed(run uuid, try uuid) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    r open_runs := moves.of_try(run, try, 'deletions_allowed');
BEGIN
    RETURN r.deletions_allowed_at IS NOT NULL
        OR EXISTS (SELECT FROM connectors c WHERE c.id = r.connector_id AND NOT c.deletion_guard);
END $$;
-- +goose StatementEnd

-- The highest stored number of each of these tries; a try with nothing stored has no row. A sender holds back by it: what has a higher
-- number still waits, or is lost. Not how many are stored: nobody would know whether lost ones still wait.
-- +goose StatementBegin
CREATE FUNCTION moves.stored_up_to(tries uuid[]) RETURNS TABLE (try uuid, no bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF tries IS NULL OR cardinality(tries) > 1000 THEN
        RAISE EXCEPTION 'stored_up_to: % tries, must be an array of at most 1000', coalesce(cardinality(tries)::text, 'null')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN QUERY SELECT k.id, m.no FROM unnest(tries) k(id)
        CROSS JOIN LATERAL (SELECT r.no FROM run_messages r WHERE r.try_id = k.id ORDER BY r.no DESC LIMIT 1) m;
END $$;
-- +goose StatementEnd

-- A try's open run, for who reads; an error where it is the try's no more: nothing would read as nothing stored.
-- +goose StatementBegin
CREATE FUNCTION moves.of_try(run uuid, try uuid, asked text) RETURNS open_runs
    LANGUAGE plpgsql STABLE AS $$
DECLARE
    r open_runs;
BEGIN
    SELECT o.* INTO r FROM open_runs o WHERE o.id = run AND o.try_id = try;
    IF NOT FOUND THEN
        RAISE EXCEPTION '%: run % is over, or another try has it', asked, run USING ERRCODE = 'no_data_found';
    END IF;
    RETURN r;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION moves.of_try(uuid, uuid, text);
DROP FUNCTION moves.stored_up_to(uuid[]);
DROP FUNCTION moves.deletions_allowed(uuid, uuid);
DROP FUNCTION moves.links(uuid, uuid, text);
DROP FUNCTION moves.known(uuid, uuid, text, integer, uuid[], integer[], bigint[]);
DROP FUNCTION moves.hold(uuid, uuid);
DROP FUNCTION moves.finish(uuid, uuid, jsonb);
DROP FUNCTION moves.fail(uuid, uuid, text, text);
DROP FUNCTION moves.took_too_long(connectors, boolean);
DROP FUNCTION moves.waits(uuid, uuid, interval, text);
DROP FUNCTION moves.postpone(uuid, uuid, interval, text);
DROP FUNCTION moves.put_off(connectors, timestamptz, text);
DROP FUNCTION moves.granted(interval, text);
DROP FUNCTION moves.release(uuid, uuid, boolean);
DROP FUNCTION moves.lock_syncing(uuid, uuid);
DROP FUNCTION moves.cut(uuid, uuid, bigint, bigint, text, interval, text);
DROP FUNCTION moves.drain_all(jsonb);
DROP FUNCTION moves.drain(uuid, uuid, bigint);
DROP FUNCTION moves.heartbeat(uuid, interval, uuid[], uuid[]);
DROP FUNCTION moves.beat(uuid, interval);
DROP FUNCTION moves.has_taken(uuid, uuid, uuid);
DROP FUNCTION moves.take(integer[], uuid[], uuid[], uuid);
DROP FUNCTION moves.pick_up_all(jsonb, uuid, interval);
DROP FUNCTION moves.pick_up(integer, uuid, uuid, uuid, interval);
