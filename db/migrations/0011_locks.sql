-- +goose Up
-- Who has a lock that a run asks for, and for how long, and how many wait for it before the run: it is not counted beyond 8.
-- ask_again: later for who stands further behind, so that a thousand who wait ask 500 times a second at most.
-- +goose StatementBegin
CREATE FUNCTION moves.locked_by(run uuid, lock_key text, OUT holder_run uuid, OUT holder_connector integer, OUT remaining interval,
    OUT ahead integer, OUT ask_again interval)
    LANGUAGE plpgsql AS $$
DECLARE
    -- By the run, which has few places, and never by the key: a plan of a quiet time takes either index.
    place bigint := coalesce((SELECT w.no FROM lock_waiters w WHERE w.run_id = run AND w.key || '' = lock_key), 9223372036854775807);
BEGIN
    SELECT l.run_id, l.connector_id, l.expires_at - clock_timestamp() INTO holder_run, holder_connector, remaining
    FROM resource_locks l WHERE l.key = lock_key AND l.expires_at > (SELECT clock_timestamp());
    SELECT count(*) INTO ahead FROM (SELECT FROM lock_waiters w WHERE w.key = lock_key AND w.no < place AND w.run_id <> run
        AND w.expires_at > (SELECT clock_timestamp()) ORDER BY w.no LIMIT 8) a;
    ask_again := least(interval '250 milliseconds' * (ahead + 1), interval '2 seconds');
END $$;
-- +goose StatementEnd

-- Gives a try a lock, where nobody holds it and nobody has waited longer: the epoch, and when it ends without a renewal. Else who has it, and to who does not wait
-- for how long the connector has been put off. waits: the run
-- keeps its place while it asks again, every 2 seconds or so; after 10 it has lost it. One that the run has already is renewed, so that it may
-- be asked again after an answer that was lost. ask numbers the try's questions, for free_locks. No row: the run is not the try's, its worker is done, or the question was given up.
-- +goose StatementBegin
CREATE FUNCTION moves.acquire_lock(run uuid, try uuid, lock_key text, lock_ttl interval, waits boolean DEFAULT false,
        ask bigint DEFAULT 0)
    RETURNS TABLE (epoch bigint, expires_at timestamptz, holder_run uuid, holder_connector integer, remaining interval, ahead integer,
        ask_again interval, put_off interval)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
DECLARE
    r       open_runs;
    is_free boolean;
BEGIN
    IF lock_key IS NULL OR lock_key !~ '^[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,127}$' OR lock_key ~ '//[^/]*@' OR lock_ttl IS NULL OR lock_ttl NOT BETWEEN '1 second' AND '1 hour' THEN
        RAISE EXCEPTION 'acquire_lock: lock_key is up to 128 letters, digits and _.:/@-, without who may enter in a URL, lock_ttl 1 s to 1 h' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT o.* INTO r FROM open_runs o WHERE o.id = run AND o.try_id = try AND o.drain_seq IS NULL;
    IF r.id IS NULL THEN
        RETURN;
    END IF;
    -- Who waits, and has a place that is good for a while, only looks.
    IF waits AND EXISTS (SELECT FROM lock_waiters w JOIN resource_locks l ON l.key = lock_key WHERE w.run_id = run AND w.key || '' = lock_key
            AND w.expires_at > (SELECT clock_timestamp()) + interval '5 seconds' AND l.run_id <> run AND l.expires_at > (SELECT clock_timestamp())) THEN
        RETURN QUERY SELECT NULL::bigint, NULL::timestamptz, b.*, NULL::interval FROM moves.locked_by(run, lock_key) b;
        RETURN;
    END IF;
    SELECT o.* INTO r FROM open_runs o WHERE o.id = run AND o.try_id = try AND o.drain_seq IS NULL FOR NO KEY UPDATE;
    IF r.id IS NULL OR coalesce(ask = ANY(r.freed_asks), false) THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('echomind.lock'), hashtext(lock_key));
    DELETE FROM lock_waiters w WHERE w.no IN (SELECT e.no FROM lock_waiters e
        WHERE e.key = lock_key AND e.expires_at <= (SELECT clock_timestamp()) ORDER BY e.no LIMIT 100 FOR UPDATE SKIP LOCKED);
    SELECT b.* INTO holder_run, holder_connector, remaining, ahead, ask_again FROM moves.locked_by(run, lock_key) b;
    -- A row that somebody holds is about to go: it is asked for again.
    PERFORM FROM resource_locks l WHERE l.key = lock_key AND (l.run_id = run AND l.released_by IS NULL OR l.expires_at <= (SELECT clock_timestamp()) AND acquire_lock.ahead = 0)
    FOR UPDATE SKIP LOCKED;
    is_free := FOUND;
    IF NOT is_free AND acquire_lock.ahead = 0 AND acquire_lock.holder_run IS NULL THEN
        SELECT l.run_id, l.connector_id, interval '0' INTO holder_run, holder_connector, remaining FROM resource_locks l WHERE l.key = lock_key;
        is_free := NOT FOUND;
    END IF;
    IF is_free OR waits THEN
        UPDATE open_runs o SET has_locks = true WHERE o.id = run AND NOT o.has_locks;
    END IF;
    IF is_free THEN
        SELECT g.epoch, g.expires_at INTO epoch, expires_at FROM moves.give_lock(r, lock_key, lock_ttl, ask) g;
    ELSIF waits THEN
        PERFORM moves.wait_for_lock(r, lock_key);
    ELSE
        SELECT clock_timestamp() - c.put_off_since INTO put_off FROM connectors c WHERE c.id = r.connector_id;
    END IF;
    RETURN NEXT;
END $$;
-- +goose StatementEnd

-- Gives a run a lock that is free, or its own; the run's row and the key's turn are held. It waits for the lock no longer. An epoch is not below
-- Postgres's clock in microseconds, so that a standby or a backup, which may not know of the last ones, does not give them again.
-- +goose StatementBegin
CREATE FUNCTION moves.give_lock(r open_runs, lock_key text, lock_ttl interval, lock_ask bigint, OUT epoch bigint, OUT expires_at timestamptz)
    LANGUAGE plpgsql AS $$
DECLARE
    micros bigint := extract(epoch FROM clock_timestamp()) * 1000000;
    next   bigint;
BEGIN
    UPDATE resource_locks l SET ttl = CASE WHEN lock_ask >= l.ask THEN lock_ttl ELSE l.ttl END,  -- not by a question that comes late
        expires_at = CASE WHEN lock_ask >= l.ask THEN clock_timestamp() + lock_ttl ELSE l.expires_at END, ask = greatest(l.ask, lock_ask)
    WHERE l.key = lock_key AND l.run_id = r.id AND l.released_by IS NULL
    RETURNING l.epoch, l.expires_at INTO epoch, expires_at;
    IF epoch IS NULL AND (SELECT count(*) FROM resource_locks l WHERE l.run_id = r.id) >= 16 THEN
        RAISE EXCEPTION 'acquire_lock: run % holds 16 locks, which is all that a run may', r.id USING ERRCODE = 'program_limit_exceeded';
    ELSIF epoch IS NULL THEN
        next := nextval('lock_epochs');
        IF next < micros THEN
            next := setval('lock_epochs', micros);
        END IF;
        INSERT INTO resource_locks AS l (key, epoch, run_id, connector_id, ttl, acquired_at, expires_at, try_id, ask)
        VALUES (lock_key, next, r.id, r.connector_id, lock_ttl, clock_timestamp(), clock_timestamp() + lock_ttl, r.try_id, lock_ask)
        ON CONFLICT (key) DO UPDATE SET epoch = EXCLUDED.epoch, run_id = EXCLUDED.run_id, connector_id = EXCLUDED.connector_id,
            ttl = EXCLUDED.ttl, acquired_at = EXCLUDED.acquired_at, expires_at = EXCLUDED.expires_at,
            try_id = EXCLUDED.try_id, released_by = NULL, ask = EXCLUDED.ask
        RETURNING l.epoch, l.expires_at INTO epoch, expires_at;
    END IF;
    DELETE FROM lock_waiters w WHERE w.run_id = r.id AND w.key || '' = lock_key;
END $$;
-- +goose StatementEnd

-- Puts a run that waits for a lock at the end of the row, or keeps its place there for 10 seconds more.
-- +goose StatementBegin
CREATE FUNCTION moves.wait_for_lock(r open_runs, lock_key text) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT count(*) FROM lock_waiters w WHERE w.run_id = r.id AND w.key <> lock_key) >= 16 THEN
        RAISE EXCEPTION 'acquire_lock: run % waits for 16 locks, which is all that a run may', r.id USING ERRCODE = 'program_limit_exceeded';
    END IF;
    INSERT INTO lock_waiters AS w (key, run_id, connector_id, since, expires_at)
    VALUES (lock_key, r.id, r.connector_id, clock_timestamp(), clock_timestamp() + interval '10 seconds')
    ON CONFLICT (run_id, key) DO UPDATE SET expires_at = EXCLUDED.expires_at;
END $$;
-- +goose StatementEnd

-- Keeps a lock for its ttl from now, also one that has run out and that nobody has taken. Else expires_at is null, and why says what became of it:
-- who asked ends what it does, and calls free_locks. It waits for nobody: a row that somebody holds is an error at once, and is asked for again.
-- +goose StatementBegin
CREATE FUNCTION moves.renew_lock(run uuid, try uuid, lock_key text, lock_epoch bigint, OUT expires_at timestamptz, OUT why text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    said  jsonb;
    taken resource_locks;
BEGIN
    SELECT coalesce(o.resources, '[]') INTO said FROM open_runs o WHERE o.id = run AND o.try_id = try AND o.drain_seq IS NULL;
    IF said IS NULL THEN
        why := 'the run is over';
        RETURN;
    END IF;
    PERFORM FROM resource_locks l WHERE l.key = lock_key AND l.run_id = run AND l.epoch = lock_epoch FOR NO KEY UPDATE NOWAIT;
    UPDATE resource_locks l SET expires_at = clock_timestamp() + l.ttl
    WHERE l.key = lock_key AND l.run_id = run AND l.epoch = lock_epoch AND l.released_by IS NULL
    RETURNING l.expires_at INTO renew_lock.expires_at;
    IF FOUND THEN
        RETURN;
    END IF;
    SELECT e.entry->>'by' INTO why FROM jsonb_array_elements(said) e(entry)
    WHERE e.entry->>'released' = lock_key AND (e.entry->>'epoch')::bigint = lock_epoch;
    SELECT l.* INTO taken FROM resource_locks l WHERE l.key = lock_key;
    why := CASE WHEN why IS NOT NULL THEN 'it was released by ' || why
        WHEN taken.epoch > lock_epoch THEN format('it was not renewed in time, and run %s of connector %s has it', taken.run_id, taken.connector_id)
        ELSE 'the run has given it back, or it was not renewed in time' END;
END $$;
-- +goose StatementEnd

-- Gives back a lock that a try holds or waits for; without a key all of its run. lock_epoch: only that one, and no later one of the key. lock_ask: only what was given to
-- that question of the try's or one before it, by who does not know the epoch because the question was not answered. Answers whether it held any.
-- Such a question is given nothing any more, should it arrive later.
-- Also what a run holds that was ended from outside: its worker says that it works no more. It waits for nobody, as a renewal; with lock_ask for the run's row.
-- +goose StatementBegin
CREATE FUNCTION moves.free_locks(run uuid, try uuid, lock_key text DEFAULT NULL, lock_epoch bigint DEFAULT NULL,
        lock_ask bigint DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s' AS $$
BEGIN
    IF lock_ask > 0 THEN
        UPDATE open_runs o SET freed_asks = (o.freed_asks || lock_ask)[greatest(cardinality(o.freed_asks) - 98, 1):]
        WHERE o.id = run AND o.try_id = try AND o.drain_seq IS NULL;
    END IF;
    IF lock_epoch IS NULL AND EXISTS (SELECT FROM open_runs o WHERE o.id = run AND o.try_id = try AND o.has_locks) THEN
        DELETE FROM lock_waiters w WHERE w.no IN (SELECT e.no FROM lock_waiters e
            WHERE e.run_id = run AND (lock_key IS NULL OR e.key || '' = lock_key) FOR UPDATE SKIP LOCKED);
    END IF;
    PERFORM FROM resource_locks l WHERE l.run_id = run AND l.try_id = try AND (lock_key IS NULL OR l.key || '' = lock_key)
        AND (lock_epoch IS NULL OR l.epoch = lock_epoch) AND (lock_ask IS NULL OR l.ask <= lock_ask) FOR UPDATE NOWAIT;
    DELETE FROM resource_locks l WHERE l.run_id = run AND l.try_id = try AND (lock_key IS NULL OR l.key || '' = lock_key)
        AND (lock_epoch IS NULL OR l.epoch = lock_epoch) AND (lock_ask IS NULL OR l.ask <= lock_ask);
    RETURN FOUND;
END $$;
-- +goose StatementEnd

-- Takes runs that end, or whose worker is done, from the rows of those who wait. own: their workers say so, and their locks are free at once. Else
-- a worker may be at work that does not know it yet: it gives them back, or their time runs out, and nobody waits for the call that ends a run.
-- +goose StatementBegin
CREATE FUNCTION moves.let_go(runs uuid[], own boolean) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM lock_waiters w WHERE w.run_id = ANY(runs);
    IF own THEN
        DELETE FROM resource_locks l WHERE l.run_id = ANY(runs);
    END IF;
END $$;
-- +goose StatementEnd

-- Takes a lock from the run that holds it, because a person says so: its next renewal says by whom, and so does the ledger. Another run has it once the
-- holder has given it back, or at expires_at. lock_epoch: only if it is still that one; null for whichever it is. No row: nobody holds it.
-- +goose StatementBegin
CREATE FUNCTION moves.release_lock(lock_key text, lock_epoch bigint, who text)
    RETURNS TABLE (run_id uuid, connector_id integer, epoch bigint, expires_at timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
DECLARE
    person text := left(coalesce(who, 'somebody'), 200);
    held   resource_locks;
BEGIN
    SELECT l.* INTO held FROM resource_locks l WHERE l.key = lock_key AND (lock_epoch IS NULL OR l.epoch = lock_epoch);
    PERFORM FROM open_runs o WHERE o.id = held.run_id FOR NO KEY UPDATE;
    UPDATE resource_locks l SET released_by = person WHERE l.key = lock_key AND l.epoch = held.epoch AND l.released_by IS NULL
    RETURNING l.expires_at INTO held.expires_at;
    IF FOUND THEN
        UPDATE open_runs o SET resources = moves.noted(o.resources, jsonb_build_object('at', clock_timestamp(), 'released', lock_key,
            'epoch', held.epoch, 'by', person)) WHERE o.id = held.run_id;
        PERFORM moves.note_change('locks.release', lock_key, NULL, jsonb_build_object('epoch', held.epoch, 'run_id', held.run_id));
        RETURN QUERY SELECT held.run_id, held.connector_id, held.epoch, held.expires_at;
    END IF;
END $$;
-- +goose StatementEnd

-- Writes down which provider a run uses, and why not those before it; provider null: none could be used. passed_over: [{provider, why}], up to 4,096 bytes.
-- +goose StatementBegin
CREATE FUNCTION moves.note_provider(run uuid, try uuid, provider text, lock_key text, lock_epoch bigint, passed_over jsonb) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
BEGIN
    IF provider !~ '^[^[:cntrl:]]{1,64}$' OR lock_key !~ '^[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,127}$' OR lock_key ~ '//[^/]*@' OR lock_epoch < 0
            OR jsonb_typeof(passed_over) IS DISTINCT FROM 'array' OR octet_length(passed_over::text) > 4096
            OR passed_over @? '$[*] ? (@.provider.type() != "string" || @.why.type() != "string" || !exists(@.provider) || !exists(@.why))' THEN
        RAISE EXCEPTION 'note_provider: provider has up to 64 characters, lock_key is one of acquire_lock''s, lock_epoch is not negative, '
            'passed_over is an array of up to 4096 bytes of {"provider": text, "why": text}'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    UPDATE open_runs o SET resources = moves.noted(o.resources, jsonb_build_object('at', clock_timestamp(), 'provider', provider,
        'lock', lock_key, 'epoch', lock_epoch, 'passed_over', passed_over))
    WHERE o.id = run AND o.try_id = try AND o.drain_seq IS NULL;
    RETURN FOUND;
END $$;
-- +goose StatementEnd

-- What a run has used of scarce things, with an entry more: the last ten.
-- +goose StatementBegin
CREATE FUNCTION moves.noted(so_far jsonb, entry jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN jsonb_array_length(so_far) >= 10 THEN so_far - 0 ELSE coalesce(so_far, '[]') END || jsonb_build_array(entry);
END $$;
-- +goose StatementEnd

-- Concurrency keys, see docs/concurrency.md. A claim asks keys_of and key_room, parks what finds a key full, and hands the keys of the others to
-- claim. Nobody has to remember that a place became free: looks go round the keys that are waited for, and work out how many places each has.

-- The concurrency keys of connectors that the transaction has locked, with those of their types, each once. A run that stands open all the same
-- is closed, see claim: it would hold a place against its own connector.
-- +goose StatementBegin
CREATE FUNCTION moves.keys_of(ids integer[]) RETURNS TABLE (id integer, keys text[])
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
#variable_conflict use_column
DECLARE
    stale uuid[];
BEGIN
    stale := ARRAY(SELECT r.id FROM unnest(ids) k(id), LATERAL (SELECT o.id FROM open_runs o WHERE o.connector_id = k.id OFFSET 0) r);
    IF stale <> '{}' THEN
        PERFORM moves.end_runs(stale, 'superseded', 'claimed again');
    END IF;
    RETURN QUERY SELECT c.id, ARRAY(SELECT DISTINCT u.key FROM unnest(c.concurrency_keys || (
            SELECT t.concurrency_keys FROM connector_types t WHERE t.name = c.type)) u(key) ORDER BY 1)
        FROM unnest(ids) k(id), LATERAL (SELECT l.id, l.concurrency_keys, l.type FROM connectors l WHERE l.id = k.id OFFSET 0) c;
END $$;
-- +goose StatementEnd

-- How many more runs of each of these keys may be in flight; keys without a limit are left out. claims: the transaction is to claim, and has the
-- turn of each key until its end, so that it sees what claimers before it have committed, and none after it sees less. Turns are 128: a lock for each
-- key would fill Postgres's table of locks. Claimers take them in one order, and wait a second for one of them at most. A key whose turn somebody
-- holds for longer has no place meanwhile.
-- +goose StatementBegin
CREATE FUNCTION moves.key_room(keys text[], claims boolean) RETURNS TABLE (key text, room integer)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s' AS $$
#variable_conflict use_column
DECLARE
    limited text[];
    turn    integer;
    missed  integer[] := '{}';
BEGIN
    limited := ARRAY(SELECT l.key FROM (SELECT DISTINCT u.key FROM unnest(keys) u(key)) k,
        LATERAL (SELECT c.key FROM concurrency_limits c WHERE c.key = k.key OFFSET 0) l);
    IF claims THEN
        FOR turn IN SELECT DISTINCT hashtext(u.key) & 127 FROM unnest(limited) u(key) ORDER BY 1 LOOP
            CONTINUE WHEN pg_try_advisory_xact_lock(hashtext('echomind.key'), turn);
            IF missed = '{}' THEN
                BEGIN
                    PERFORM pg_advisory_xact_lock(hashtext('echomind.key'), turn);
                EXCEPTION WHEN lock_not_available THEN
                    missed := missed || turn;
                END;
            ELSE
                missed := missed || turn;
            END IF;
        END LOOP;
    END IF;
    -- A statement of its own: it sees what the claimers before have committed.
    RETURN QUERY SELECT l.key, CASE WHEN (hashtext(l.key) & 127) = ANY (missed) THEN 0
            ELSE l.most - (SELECT count(*) FROM (SELECT FROM key_places p WHERE p.key = l.key LIMIT l.most) held)::integer END
        FROM unnest(limited) u(key), LATERAL (SELECT c.key, c.most FROM concurrency_limits c WHERE c.key = u.key OFFSET 0) l;
END $$;
-- +goose StatementEnd

-- Has connectors that the transaction has locked wait for the key beside each: they are not due, and no look walks over them.
-- +goose StatementBegin
CREATE FUNCTION moves.park(ids integer[], full_keys text[]) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    parked integer;
BEGIN
    UPDATE connectors c SET waits_for_key = w.key
    FROM unnest(ids, full_keys) w(id, key), LATERAL (SELECT l.ctid FROM connectors l WHERE l.id = w.id AND l.due_at IS NOT NULL OFFSET 0) at
    WHERE c.ctid = at.ctid;
    GET DIAGNOSTICS parked = ROW_COUNT;
    RETURN parked;
END $$;
-- +goose StatementEnd

-- Of keys that are waited for how many places each has: of those that are named, and of up to `most` behind `after`, in their order. 10000 of one
-- without a limit. named says that it is not of the latter.
-- +goose StatementBegin
CREATE FUNCTION moves.waiting_keys(hints text[], after text, most integer) RETURNS TABLE (key text, room integer, named boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' SET enable_sort = off AS $$
#variable_conflict use_column
DECLARE
    next_key text := after;
    names    text[] := '{}';
BEGIN
    WHILE cardinality(names) < most LOOP
        SELECT w.key INTO next_key FROM key_waiters w WHERE w.key > next_key ORDER BY w.key LIMIT 1;
        EXIT WHEN NOT FOUND;
        names := names || next_key;
    END LOOP;
    RETURN QUERY SELECT k.key, coalesce(l.most - (SELECT count(*) FROM (SELECT FROM key_places p WHERE p.key = k.key LIMIT l.most) held)::integer, 10000), k.named
        FROM (SELECT u.key, false AS named, u.no FROM unnest(names) WITH ORDINALITY u(key, no)
            UNION ALL SELECT h.key, true, NULL FROM unnest(hints) h(key) WHERE EXISTS (SELECT FROM key_waiters w WHERE w.key = h.key)) k
        LEFT JOIN LATERAL (SELECT c.most FROM concurrency_limits c WHERE c.key = k.key OFFSET 0) l ON true
        ORDER BY k.no;
END $$;
-- +goose StatementEnd

-- Locks those whose turn it is of them that wait for a key: up to `room`, owner by owner behind `served`, of each as many as of the others, the longest due
-- first. What somebody holds is skipped, and refused ones are left out. Of each owner 500 are looked at: a transaction that holds more in front of the
-- others keeps that owner's turn from them until it ends.
-- +goose StatementBegin
CREATE FUNCTION moves.lock_waiting(full_key text, room integer, served integer, refused integer[]) RETURNS TABLE (id integer, user_id integer)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s'
    SET enable_sort = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
DECLARE
    owners  integer[] := '{}';
    owner   integer := served;
    last    integer;
    wrapped boolean := false;
    share   integer;
    n       integer;
    more    integer := 100;
BEGIN
    WHILE cardinality(owners) < room LOOP
        SELECT w.user_id INTO last FROM key_waiters w WHERE w.key = full_key AND w.user_id > owner ORDER BY w.key, w.user_id LIMIT 1;
        IF NOT FOUND THEN
            EXIT WHEN wrapped;
            wrapped := true;
            owner := -1;
        ELSE
            EXIT WHEN wrapped AND last > served;
            owners := owners || last;
            owner := last;
        END IF;
    END LOOP;
    share := ceil(room::numeric / greatest(1, cardinality(owners)));
    FOREACH owner IN ARRAY owners LOOP
        RETURN QUERY SELECT c.id, owner
            FROM (SELECT w.connector_id, w.due_at FROM key_waiters w WHERE w.key = full_key AND w.user_id = owner
                    AND (refused IS NULL OR w.connector_id <> ALL (refused)) ORDER BY w.key, w.user_id, w.due_at LIMIT 500) w,
                LATERAL (SELECT l.id FROM connectors l WHERE l.id = w.connector_id AND l.waits_for_key = full_key FOR NO KEY UPDATE SKIP LOCKED) c
            LIMIT least(share, room);
        GET DIAGNOSTICS n = ROW_COUNT;
        room := room - n;
        EXIT WHEN room <= 0;
    END LOOP;
    -- Owners of whom all are held or refused leave their turn to those behind them: to up to a hundred.
    WHILE room > 0 AND more > 0 LOOP
        more := more - 1;
        SELECT w.user_id INTO last FROM key_waiters w WHERE w.key = full_key AND w.user_id > owner ORDER BY w.key, w.user_id LIMIT 1;
        IF NOT FOUND THEN
            EXIT WHEN wrapped;
            wrapped := true;
            owner := -1;
            CONTINUE;
        END IF;
        EXIT WHEN wrapped AND last > served;
        owner := last;
        RETURN QUERY SELECT c.id, owner
            FROM (SELECT w.connector_id, w.due_at FROM key_waiters w WHERE w.key = full_key AND w.user_id = owner
                    AND (refused IS NULL OR w.connector_id <> ALL (refused)) ORDER BY w.key, w.user_id, w.due_at LIMIT 500) w,
                LATERAL (SELECT l.id FROM connectors l WHERE l.id = w.connector_id AND l.waits_for_key = full_key FOR NO KEY UPDATE SKIP LOCKED) c
            LIMIT 1;
        GET DIAGNOSTICS n = ROW_COUNT;
        room := room - n;
    END LOOP;
END $$;
-- +goose StatementEnd

-- Locks those behind `after`, of the next `most` that wait for a key, that are to wait for it no longer whatever room it has: neither they nor their type
-- name it any more, or their deadline has passed since they began. Where that of the first slot had passed before, a later one waits, which came before
-- they began. last: the last that was looked at; null = there are no more.
-- +goose StatementBegin
CREATE FUNCTION moves.lock_stale(after integer, most integer, refused integer[], OUT last integer, OUT stale integer[])
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s'
    SET enable_sort = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    seen   integer[];
BEGIN
    SELECT array_agg(w.connector_id ORDER BY w.connector_id) INTO seen
        FROM (SELECT k.connector_id FROM key_waiters k WHERE k.connector_id > after ORDER BY k.connector_id LIMIT most) w;
    last := seen[cardinality(seen)];
    stale := ARRAY(
        SELECT c.id FROM unnest(seen) s(id), LATERAL (SELECT k.* FROM key_waiters k WHERE k.connector_id = s.id OFFSET 0) w,
            LATERAL (SELECT l.* FROM connectors l WHERE l.id = s.id OFFSET 0) r,
            LATERAL (SELECT l.id FROM connectors l WHERE l.id = r.id AND l.waits_for_key = w.key AND (refused IS NULL OR l.id <> ALL (refused))
                FOR NO KEY UPDATE SKIP LOCKED) c
        WHERE moment >= make_interval(mins => r.deadline_minutes)
                + CASE WHEN r.slot_at + make_interval(mins => r.deadline_minutes) >= w.since THEN r.slot_at ELSE w.since END
            OR NOT w.key = ANY (coalesce(r.concurrency_keys, '{}') || coalesce((SELECT t.concurrency_keys FROM connector_types t WHERE t.name = r.type), '{}')));
END $$;
-- +goose StatementEnd

-- Makes those due again, of these that the transaction has locked, that wait for a key. Their claim looks at all their keys anew.
-- +goose StatementBegin
CREATE FUNCTION moves.unpark(ids integer[]) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET echomind.releasing = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    released integer;
BEGIN
    UPDATE connectors c SET waits_for_key = NULL
    FROM unnest(ids) k(id), LATERAL (SELECT l.ctid FROM connectors l WHERE l.id = k.id AND l.waits_for_key IS NOT NULL OFFSET 0) at
    WHERE c.ctid = at.ctid;
    GET DIAGNOSTICS released = ROW_COUNT;
    RETURN released;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION moves.unpark(integer[]);
DROP FUNCTION moves.lock_stale(integer, integer, integer[]);
DROP FUNCTION moves.lock_waiting(text, integer, integer, integer[]);
DROP FUNCTION moves.waiting_keys(text[], text, integer);
DROP FUNCTION moves.park(integer[], text[]);
DROP FUNCTION moves.key_room(text[], boolean);
DROP FUNCTION moves.keys_of(integer[]);
DROP FUNCTION moves.noted(jsonb, jsonb);
DROP FUNCTION moves.note_provider(uuid, uuid, text, text, bigint, jsonb);
DROP FUNCTION moves.release_lock(text, bigint, text);
DROP FUNCTION moves.let_go(uuid[], boolean);
DROP FUNCTION moves.free_locks(uuid, uuid, text, bigint, bigint);
DROP FUNCTION moves.renew_lock(uuid, uuid, text, bigint);
DROP FUNCTION moves.wait_for_lock(open_runs, text);
DROP FUNCTION moves.give_lock(open_runs, text, interval, bigint);
DROP FUNCTION moves.acquire_lock(uuid, uuid, text, interval, boolean, bigint);
DROP FUNCTION moves.locked_by(uuid, text);
