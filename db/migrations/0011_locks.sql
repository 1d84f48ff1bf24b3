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

-- +goose Down
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
