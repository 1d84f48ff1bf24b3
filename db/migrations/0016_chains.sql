-- +goose Up
-- Chains: connectors that run after others. docs/chains.md says what it does, ADR 0037 why so. What ends a run writes upstream_ends, where somebody follows; the
-- scheduler tells it to those who follow (hand_on), and looks at these (lock_followers, upstreams_of): where all that they run after have come so far as they want
-- they are let go, and due as others are. No state but that of the rows is needed: a look that dies is repeated. Lock order: connectors, upstream_ends or
-- upstream_uses, run_after, followers. Whoever writes run_after by a statement of its own has its rows before it knows the connectors: it takes its turn among all that
-- do, and waits for no connector, unless it adds rows, which nobody else sees yet. Of run_after no move of the scheduler waits for a row.

-- Writes down that a run of connectors that others run after has ended: completed or skipped. They are locked.
-- +goose StatementBegin
CREATE FUNCTION moves.note_ends(ids integer[], verdict text) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    noted  integer;
BEGIN
    UPDATE upstream_ends e SET tell_at = moment, no = e.no + 1, ended_at = moment, ended_for = greatest(e.ended_for, k.for_),
        completed_no = CASE verdict WHEN 'completed' THEN e.no + 1 ELSE e.completed_no END,
        completed_at = CASE verdict WHEN 'completed' THEN moment ELSE e.completed_at END,
        completed_for = CASE verdict WHEN 'completed' THEN greatest(e.completed_for, k.for_) ELSE e.completed_for END
    FROM unnest(ids) i(id), LATERAL (SELECT coalesce(l.claimed_for, moment) AS for_ FROM connectors l WHERE l.id = i.id OFFSET 0) k
    WHERE e.connector_id = i.id;
    GET DIAGNOSTICS noted = ROW_COUNT;
    IF noted < cardinality(ids) THEN   -- nobody follows any more
        UPDATE connectors c SET followed = false WHERE c.id = ANY (ids) AND NOT EXISTS (SELECT FROM upstream_ends e WHERE e.connector_id = c.id);
    END IF;
    IF noted > 0 THEN
        PERFORM pg_notify('connectors_due', (SELECT c.type FROM connectors c WHERE c.id = ids[1]));
    END IF;
END $$;
-- +goose StatementEnd

-- What connectors that are claimed will have used once their sync is over: the last ends of all that they run after, where they were let go, whatever their rows say since, or each has one that is not used. A sync
-- that goes on keeps what it was let go for. claims: see claim; those for a run with parameters see nothing.
-- +goose StatementBegin
CREATE FUNCTION moves.see_ends(claims jsonb) RETURNS void
    LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    ids integer[] := ARRAY(SELECT c.id FROM jsonb_to_recordset(claims) k(id integer, asked boolean, follows boolean),
        LATERAL (SELECT l.id, l.over_at, l.claimed_at FROM connectors l WHERE l.id = k.id OFFSET 0) c
        WHERE k.follows AND k.asked IS NOT TRUE AND (c.over_at IS NOT NULL OR c.claimed_at IS NULL));
BEGIN
    INSERT INTO upstream_uses AS u (connector_id, upstream_id, seen)
    SELECT s.connector_id, s.upstream_id, s.now_seen FROM (
        SELECT e.connector_id, e.upstream_id, e.seen, CASE WHEN c.let_go OR bool_and(e.counted_no > e.used) OVER (PARTITION BY e.connector_id) THEN e.no END AS now_seen
        FROM unnest(ids) k(id), LATERAL (SELECT l.upstreams_met_at IS NOT NULL OR l.due_reason = 'upstream' AS let_go FROM connectors l WHERE l.id = k.id OFFSET 0) c,
            LATERAL (SELECT a.* FROM run_after_ends a WHERE a.connector_id = k.id OFFSET 0) e) s
    WHERE s.now_seen IS DISTINCT FROM s.seen
    ON CONFLICT (connector_id, upstream_id) DO UPDATE SET seen = EXCLUDED.seen;
END $$;
-- +goose StatementEnd

-- Connectors have used what they were let go for.
-- +goose StatementBegin
CREATE FUNCTION moves.use_ends(ids integer[]) RETURNS void
    LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    UPDATE upstream_uses u SET used = greatest(u.used, u.seen), seen = NULL WHERE u.connector_id = ANY (ids) AND u.seen IS NOT NULL;
END $$;
-- +goose StatementEnd

-- Whatever moves a connector that runs after others: what its sync was let go for is used once that is over, and is not where it was switched off; and when it
-- is to be looked at.
-- +goose StatementBegin
CREATE FUNCTION connectors_note_follower() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    look   timestamptz := CASE WHEN NEW.run_id IS NOT NULL OR NEW.status = 'DISABLED' OR NEW.needs_plan THEN NULL
        WHEN NEW.asks_upstreams THEN NEW.next_sync_at
        WHEN NEW.status = 'ACTIVE' AND NEW.next_sync_at IS NULL AND NEW.schedule_cron IS NULL AND coalesce(NEW.refresh_freq_minutes, 0) = 0 THEN moment END;
BEGIN
    IF NEW.status = 'DISABLED' THEN
        UPDATE upstream_uses u SET seen = NULL WHERE u.connector_id = NEW.id AND u.seen IS NOT NULL;
    ELSIF OLD.over_at IS NULL AND NEW.over_at IS NOT NULL AND NEW.claimed_at IS NOT NULL THEN   -- what was never claimed has used nothing
        PERFORM moves.use_ends(ARRAY[NEW.id]);
    END IF;
    UPDATE followers f SET look_at = look, told = f.told + 1, rests_since = moment, waits_since = NULL
    WHERE f.connector_id = NEW.id AND (f.look_at IS DISTINCT FROM look OR f.waits_since IS NOT NULL);
    IF look <= moment THEN
        PERFORM pg_notify('connectors_due', NEW.type);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER connectors_follower_moved AFTER UPDATE ON connectors FOR EACH ROW
    WHEN (NEW.follows AND (NEW.status, NEW.run_id, NEW.next_sync_at, NEW.needs_plan, NEW.asks_upstreams, NEW.over_at, NEW.schedule_cron, NEW.refresh_freq_minutes)
        IS DISTINCT FROM (OLD.status, OLD.run_id, OLD.next_sync_at, OLD.needs_plan, OLD.asks_upstreams, OLD.over_at, OLD.schedule_cron, OLD.refresh_freq_minutes))
    EXECUTE FUNCTION connectors_note_follower();

-- Whether a connector may run after another: its owner sees that. Jobs of the system run after each other alone.
-- +goose StatementBegin
CREATE FUNCTION moves.may_follow(f connectors, u connectors) RETURNS boolean
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF f.scope = 'system' OR u.scope = 'system' THEN
        RETURN f.scope = u.scope;
    END IF;
    RETURN u.user_id = f.user_id OR u.scope = 'org' OR (u.scope = 'group' AND ((f.scope = 'group' AND f.scope_id = u.scope_id)
        OR EXISTS (SELECT FROM group_members m WHERE m.user_id = f.user_id AND m.group_id = u.scope_id)));
END $$;
-- +goose StatementEnd

-- Tells a page of those who run after a connector to be looked at, in the order of their ids; it waits for nobody. Of one that was deleted, or given to somebody else,
-- nobody runs who may not. last: where the page ends, null = there is none; held: how many were not told, as somebody holds their rows.
-- +goose StatementBegin
CREATE FUNCTION moves.hand_on(upstream integer, after integer, batch integer, OUT last integer, OUT held integer)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    page   integer[] := ARRAY(SELECT a.connector_id FROM run_after a WHERE a.upstream_id = upstream AND a.connector_id > after ORDER BY 1 LIMIT batch);
    lost   text := (SELECT e.lost FROM upstream_ends e WHERE e.connector_id = upstream);
    ready  integer[];
BEGIN
    last := page[cardinality(page)];
    ready := ARRAY(SELECT l.connector_id FROM unnest(page) k(id), LATERAL (
        SELECT f.connector_id FROM followers f WHERE f.connector_id = k.id FOR UPDATE SKIP LOCKED) l);
    IF lost IS NOT NULL THEN
        ready := ARRAY(SELECT c.id FROM unnest(ready) k(id), LATERAL (SELECT l.id FROM connectors l WHERE l.id = k.id FOR UPDATE SKIP LOCKED) c);
        ready := ARRAY(SELECT a.connector_id FROM unnest(ready) k(id), LATERAL (
            SELECT r.connector_id FROM run_after r WHERE r.connector_id = k.id AND r.upstream_id = upstream FOR UPDATE SKIP LOCKED) a);
        DELETE FROM run_after a WHERE a.upstream_id = upstream AND a.connector_id = ANY (ready) AND (lost = 'gone'
            OR NOT coalesce((SELECT moves.may_follow(f, u) FROM connectors f, connectors u WHERE f.id = a.connector_id AND u.id = upstream), false));
    END IF;
    UPDATE followers f SET look_at = moment, told = f.told + 1 WHERE f.connector_id = ANY (ready);
    held := cardinality(page) - cardinality(ready);
END $$;
-- +goose StatementEnd

-- Tells all who run after connectors that have ended, each of which few run after, and writes down that they were told. It waits for nobody. It returns those that are
-- to be told of one by one.
-- +goose StatementBegin
CREATE FUNCTION moves.hand_on_all(upstreams integer[], nos bigint[], few integer) RETURNS integer[]
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    page   integer[];
    ready  integer[];
    rest   integer[] := '{}';
BEGIN
    FOR i IN 1..cardinality(upstreams) LOOP
        PERFORM FROM upstream_ends e WHERE e.connector_id = upstreams[i] AND e.no = nos[i] AND e.lost IS NULL FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;   -- it ends once more, and tells then
        page := ARRAY(SELECT a.connector_id FROM run_after a WHERE a.upstream_id = upstreams[i] ORDER BY 1 LIMIT few);
        ready := ARRAY(SELECT l.connector_id FROM unnest(page) k(id), LATERAL (
            SELECT f.connector_id FROM followers f WHERE f.connector_id = k.id FOR UPDATE SKIP LOCKED) l);
        IF page = '{}' OR cardinality(page) = few OR cardinality(ready) < cardinality(page) THEN
            rest := rest || upstreams[i];
        ELSE
            UPDATE followers f SET look_at = moment, told = f.told + 1 WHERE f.connector_id = ANY (ready) AND f.look_at IS DISTINCT FROM moment;
            UPDATE upstream_ends e SET tell_at = NULL WHERE e.connector_id = upstreams[i];
        END IF;
    END LOOP;
    RETURN rest;
END $$;
-- +goose StatementEnd

-- Writes down that those who run after a connector have been told of its end with a number, or of its loss, for which they were to be told since a moment; where somebody held a row, all are told again in a second. What
-- nobody runs after is forgotten.
-- +goose StatementBegin
CREATE FUNCTION moves.have_told(upstream integer, end_no bigint, was_lost text, since timestamptz, held boolean) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
BEGIN
    IF held THEN
        UPDATE upstream_ends e SET tell_at = clock_timestamp() + interval '1 second'
        WHERE e.connector_id = upstream AND e.no = end_no AND e.lost IS NOT DISTINCT FROM was_lost AND e.tell_at = since;
        RETURN;
    ELSIF was_lost = 'gone' THEN
        DELETE FROM upstream_ends e WHERE e.connector_id = upstream AND e.lost = 'gone' AND e.no = end_no AND e.tell_at = since;
        RETURN;
    END IF;
    UPDATE upstream_ends e SET tell_at = NULL, lost = NULL
    WHERE e.connector_id = upstream AND e.no = end_no AND e.lost IS NOT DISTINCT FROM was_lost AND e.tell_at = since;
    IF FOUND AND NOT EXISTS (SELECT FROM run_after a WHERE a.upstream_id = upstream) THEN
        PERFORM FROM connectors c WHERE c.id = upstream FOR UPDATE SKIP LOCKED;
        IF FOUND AND NOT EXISTS (SELECT FROM run_after a WHERE a.upstream_id = upstream) THEN   -- who adds one takes the same lock
            DELETE FROM upstream_ends e WHERE e.connector_id = upstream;
            UPDATE connectors c SET followed = false WHERE c.id = upstream;
        END IF;
    END IF;
END $$;
-- +goose StatementEnd

-- Locks those of these connectors that wait for others and are to be looked at, or run after nobody any more; skips what is locked. Who does not wait is looked at when that changes.
-- +goose StatementBegin
CREATE FUNCTION moves.lock_followers(ids integer[], moment timestamptz DEFAULT NULL) RETURNS SETOF connectors
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
DECLARE
    c    connectors;
    who  integer;
    look timestamptz;
BEGIN
    moment := coalesce(moment, clock_timestamp());
    FOREACH who IN ARRAY ids LOOP
        SELECT * INTO c FROM connectors l WHERE l.id = who FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        PERFORM FROM followers f WHERE f.connector_id = who FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        IF c.run_id IS NULL AND (NOT EXISTS (SELECT FROM run_after a WHERE a.connector_id = who) OR c.status <> 'DISABLED' AND NOT c.needs_plan AND (CASE WHEN c.asks_upstreams THEN c.next_sync_at <= moment
                ELSE c.status = 'ACTIVE' AND c.next_sync_at IS NULL AND c.schedule_cron IS NULL AND coalesce(c.refresh_freq_minutes, 0) = 0 END)) THEN
            RETURN NEXT c;
            CONTINUE;
        END IF;
        look := CASE WHEN c.asks_upstreams THEN c.next_sync_at END;
        UPDATE followers f SET look_at = look WHERE f.connector_id = who AND f.look_at IS DISTINCT FROM look;
    END LOOP;
END $$;
-- +goose StatementEnd

-- Whether those that connectors run after have come so far as they want: each has an end that is not used, and whose slot is not too old. Else which of them is waited for,
-- the one with the shortest patience first, how long, and since when, where one of the others has come so far: since the first of these has, and it is at rest. chained: whether it runs after any.
-- +goose StatementBegin
CREATE FUNCTION moves.upstreams_of(ids integer[], moment timestamptz)
    RETURNS TABLE (id integer, chained boolean, met boolean, upstream integer, timeout_minutes integer, since timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT k.id, s.* FROM unnest(ids) k(id), LATERAL (
        SELECT count(*) > 0, coalesce(bool_and(e.has), false),
            (array_agg(e.upstream_id ORDER BY e.timeout_minutes, e.upstream_id) FILTER (WHERE NOT e.has))[1],
            min(e.timeout_minutes) FILTER (WHERE NOT e.has),
            CASE WHEN bool_or(e.has) THEN (
                SELECT coalesce(f.waits_since, greatest(f.rests_since, min(e.ended_at) FILTER (WHERE e.has))) FROM followers f WHERE f.connector_id = k.id) END
        FROM (SELECT a.*, a.counted_no > a.used AND (a.max_age_minutes IS NULL OR coalesce(a.ended_for >= moment - make_interval(mins => a.max_age_minutes), false)) AS has
            FROM run_after_ends a WHERE a.connector_id = k.id OFFSET 0) e) s;
END $$;
-- +goose StatementEnd

-- Lets connectors go that the transaction has locked: they wait for others no more, and are due as others are, or their condition is asked.
-- +goose StatementBegin
CREATE FUNCTION moves.let_follow(ids integer[]) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s'
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    let    integer;
BEGIN
    INSERT INTO upstream_uses AS u (connector_id, upstream_id, seen)
    SELECT e.connector_id, e.upstream_id, e.no
    FROM unnest(ids) k(id), LATERAL (SELECT a.* FROM run_after_ends a WHERE a.connector_id = k.id OFFSET 0) e
    ON CONFLICT (connector_id, upstream_id) DO UPDATE SET seen = EXCLUDED.seen;
    UPDATE connectors c SET upstreams_met_at = moment, next_sync_at = coalesce(c.next_sync_at, moment), due_reason = coalesce(c.due_reason, 'upstream')
    FROM unnest(ids) k(id), LATERAL (SELECT l.ctid FROM connectors l WHERE l.id = k.id OFFSET 0) at
    WHERE c.ctid = at.ctid AND c.follows AND c.run_id IS NULL AND (c.asks_upstreams OR (c.status = 'ACTIVE' AND c.next_sync_at IS NULL AND NOT c.needs_plan));
    GET DIAGNOSTICS let = ROW_COUNT;
    RETURN let;
END $$;
-- +goose StatementEnd

-- Connectors without a schedule that the transaction has locked wait for somebody no more who did not come: missed, and the ends that have come by now are used.
-- +goose StatementBegin
CREATE FUNCTION moves.give_up_following(ids integer[], upstreams integer[], moment timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s'
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    -- One statement: it uses what it has seen, where somebody is still missing.
    WITH e AS MATERIALIZED (
        SELECT a.connector_id, a.upstream_id, a.no, k.upstream, a.counted_no > a.used AND (a.max_age_minutes IS NULL
            OR coalesce(a.ended_for >= moment - make_interval(mins => a.max_age_minutes), false)) AS has
        FROM unnest(ids, upstreams) k(id, upstream), LATERAL (SELECT r.* FROM run_after_ends r WHERE r.connector_id = k.id OFFSET 0) a),
    vain AS (SELECT e.connector_id, min(e.upstream) AS upstream FROM e GROUP BY e.connector_id HAVING NOT bool_and(e.has)),
    used AS (
        INSERT INTO upstream_uses AS u (connector_id, upstream_id, used)
        SELECT e.connector_id, e.upstream_id, e.no FROM e JOIN vain USING (connector_id) WHERE e.has
        ON CONFLICT (connector_id, upstream_id) DO UPDATE SET used = EXCLUDED.used)
    INSERT INTO runs (id, connector_id, type, trigger, missed_count, due_at, started_at, completed_at, status, reason, config_version)
    SELECT gen_random_uuid(), c.id, c.type, 'upstream', 1, coalesce((SELECT f.waits_since FROM followers f WHERE f.connector_id = c.id), moment), clock_timestamp(), clock_timestamp(), 'missed',
        format('upstream %s did not complete', v.upstream), c.config_version
    FROM vain v, LATERAL (SELECT l.id, l.type, l.config_version FROM connectors l WHERE l.id = v.connector_id OFFSET 0) c;
END $$;
-- +goose StatementEnd

-- Writes down when connectors that the transaction has locked are looked at again, null = when they are told; not of one that was told since it was looked at. sinces:
-- since when those without a schedule wait for the rest of those that they run after; no array = as it stands.
-- +goose StatementBegin
CREATE FUNCTION moves.look_again(ids integer[], were_told bigint[], moments timestamptz[], sinces timestamptz[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    UPDATE followers f SET look_at = CASE WHEN f.told = k.told THEN k.at ELSE f.look_at END, waits_since = CASE WHEN sinces IS NULL THEN f.waits_since ELSE k.since END
    FROM unnest(ids, were_told, moments, sinces) k(id, told, at, since) WHERE f.connector_id = k.id;
END $$;
-- +goose StatementEnd

-- Connectors that the transaction has locked, and that run after nobody any more.
-- +goose StatementBegin
CREATE FUNCTION moves.stop_following(ids integer[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    c connectors;
BEGIN
    FOR c IN UPDATE connectors k SET follows = false, upstreams_met_at = NULL
        WHERE k.id = ANY (ids) AND k.follows AND NOT EXISTS (SELECT FROM run_after a WHERE a.connector_id = k.id) RETURNING k.* LOOP
        DELETE FROM followers f WHERE f.connector_id = c.id;
        DELETE FROM upstream_uses u WHERE u.connector_id = c.id;
        PERFORM moves.wake(c, false);
    END LOOP;
END $$;
-- +goose StatementEnd

-- Who writes run_after takes turns: two that add do not close half of a cycle each, and what one has committed the next sees; two that change do not wait for each
-- other's rows in a circle. What takes rows along with a connector has that one's lock, and takes no turn.
-- +goose StatementBegin
CREATE FUNCTION run_after_turn() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = '3s' AS $$
BEGIN
    IF TG_OP = 'INSERT' AND current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'run_after is added to in transactions of isolation level read committed, not %', current_setting('transaction_isolation')
            USING ERRCODE = 'feature_not_supported', CONSTRAINT = 'run_after_isolation';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('echomind.run_after'));
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER run_after_turn BEFORE INSERT ON run_after FOR EACH STATEMENT EXECUTE FUNCTION run_after_turn();
CREATE TRIGGER run_after_turn_changed BEFORE UPDATE OR DELETE ON run_after FOR EACH STATEMENT
    WHEN (current_setting('echomind.moving', true) IS DISTINCT FROM 'on' OR NOT has_column_privilege('connectors'::regclass, 'status', 'UPDATE'))
    EXECUTE FUNCTION run_after_turn();

-- +goose StatementBegin
CREATE FUNCTION run_after_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'run_after: connector_id and upstream_id cannot be changed; delete the row and add another'
        USING ERRCODE = 'check_violation', CONSTRAINT = 'run_after_key_stays';
END $$;
-- +goose StatementEnd
CREATE TRIGGER run_after_refuse BEFORE UPDATE OF connector_id, upstream_id ON run_after FOR EACH ROW
    WHEN ((NEW.connector_id, NEW.upstream_id) IS DISTINCT FROM (OLD.connector_id, OLD.upstream_id)) EXECUTE FUNCTION run_after_refuse();

-- A row of a deleted upstream, which nobody has been told of yet, is no row of another connector with its id.
-- +goose StatementBegin
CREATE FUNCTION run_after_replace() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
BEGIN
    IF EXISTS (SELECT FROM upstream_ends e WHERE e.connector_id = NEW.upstream_id AND e.lost = 'gone') THEN
        DELETE FROM run_after a WHERE a.connector_id = NEW.connector_id AND a.upstream_id = NEW.upstream_id;
    END IF;
    RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER run_after_replace BEFORE INSERT ON run_after FOR EACH ROW EXECUTE FUNCTION run_after_replace();

-- A cycle of these edges: of each who comes before, and who runs after it; null where there is none. Who runs after nobody is taken away, and so on, each edge
-- once, until nothing is left, or cycles and what comes after them. It begins with the lowest of these, and names itself twice.
-- +goose StatementBegin
CREATE FUNCTION moves.cycle_among(befores integer[], afters integer[]) RETURNS integer[]
    LANGUAGE plpgsql IMMUTABLE SET enable_nestloop = off SET enable_hashjoin = on SET enable_mergejoin = on AS $$
DECLARE
    names   integer[] := ARRAY(SELECT u.id FROM unnest(befores || afters) u(id) GROUP BY u.id ORDER BY u.id);
    begins  integer[];   -- where the edges of each begin, by its place in names; one more for the end
    ahead   integer[];   -- the edges, by who comes before: the place of who runs after
    waits   integer[];   -- after how many each runs that are not taken away
    queue   integer[];   -- who runs after nobody that is left
    head    integer := 1;
    came    integer[];   -- the first of those that each runs after, of who is left
    met     integer[];   -- at which step the way came by
    way     integer[] := '{}';
    here    integer;
    behind  integer;
BEGIN
    WITH n AS MATERIALIZED (SELECT u.id, u.no::integer AS no FROM unnest(names) WITH ORDINALITY u(id, no)),
    e AS MATERIALIZED (SELECT b.no AS before, a.no AS after FROM unnest(befores, afters) k(before, after) JOIN n b ON b.id = k.before JOIN n a ON a.id = k.after)
    SELECT (SELECT array_agg(e.after ORDER BY e.before, e.after) FROM e),
        (SELECT array_agg(d.first ORDER BY d.no) FROM (
            SELECT n.no, 1 + coalesce(sum(o.many) OVER (ORDER BY n.no ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)::integer AS first
            FROM n LEFT JOIN (SELECT e.before, count(*) AS many FROM e GROUP BY e.before) o ON o.before = n.no) d) || cardinality(befores) + 1,
        (SELECT array_agg(coalesce(i.many, 0)::integer ORDER BY n.no) FROM n LEFT JOIN (SELECT e.after, count(*) AS many FROM e GROUP BY e.after) i ON i.after = n.no),
        ARRAY(SELECT n.no FROM n LEFT JOIN (SELECT DISTINCT e.after FROM e) i ON i.after = n.no WHERE i.after IS NULL ORDER BY n.no)
    INTO ahead, begins, waits, queue;
    WHILE head <= cardinality(queue) LOOP
        here := queue[head];
        head := head + 1;
        FOR i IN begins[here]..begins[here + 1] - 1 LOOP
            behind := ahead[i];
            waits[behind] := waits[behind] - 1;
            IF waits[behind] = 0 THEN
                queue[cardinality(queue) + 1] := behind;
            END IF;
        END LOOP;
    END LOOP;
    IF cardinality(queue) = cardinality(names) THEN
        RETURN NULL;
    END IF;
    came := array_fill(0, ARRAY[cardinality(names)]);
    met := came;
    FOR before IN 1..cardinality(names) LOOP
        CONTINUE WHEN waits[before] = 0;
        FOR i IN begins[before]..begins[before + 1] - 1 LOOP
            IF came[ahead[i]] = 0 THEN
                came[ahead[i]] := before;
            END IF;
        END LOOP;
    END LOOP;
    here := (SELECT w.no FROM unnest(waits) WITH ORDINALITY w(many, no) WHERE w.many > 0 ORDER BY w.no LIMIT 1);
    WHILE met[here] = 0 LOOP
        way[cardinality(way) + 1] := names[here];
        met[here] := cardinality(way);
        here := came[here];
    END LOOP;
    RETURN way[met[here]:] || names[here];
END $$;
-- +goose StatementEnd

-- A cycle that goes through one of these connectors, as it is said: "1 after 3 after 2 after 1"; null where there is none. It reads what comes after
-- them, each row once.
-- +goose StatementBegin
CREATE FUNCTION moves.cycle_of(ids integer[]) RETURNS text
    LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    all_    integer[];
    befores integer[];
    afters  integer[];
    way     integer[];
BEGIN
    all_ := ARRAY(WITH RECURSIVE d (id) AS (SELECT unnest(ids) UNION SELECT a.connector_id FROM d, LATERAL (
        SELECT r.connector_id FROM run_after r WHERE r.upstream_id = d.id OFFSET 0) a) SELECT d.id FROM d);
    -- Most often nobody that comes after is one that they run after.
    IF NOT EXISTS (SELECT a.upstream_id FROM unnest(ids) k(id), LATERAL (SELECT r.upstream_id FROM run_after r WHERE r.connector_id = k.id OFFSET 0) a
            INTERSECT SELECT m.id FROM unnest(all_) m(id)) THEN
        RETURN NULL;
    END IF;
    SELECT array_agg(n.id), array_agg(a.connector_id) INTO befores, afters
    FROM unnest(all_) n(id), LATERAL (SELECT r.connector_id FROM run_after r WHERE r.upstream_id = n.id OFFSET 0) a;
    way := moves.cycle_among(befores, afters);
    RETURN array_to_string(CASE WHEN cardinality(way) > 20 THEN way[:19] || NULL::integer || way[cardinality(way)] ELSE way END, ' after ', '...');
END $$;
-- +goose StatementEnd

-- Refuses what may not be, and has both connectors know. An end of the upstream that is in the ledger, among its last ten thousand rows, counts as one that comes now.
-- +goose StatementBegin
CREATE FUNCTION run_after_added() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    most    CONSTANT integer := 1000;
    moment  timestamptz := clock_timestamp();
    ids     integer[] := ARRAY(SELECT DISTINCT a.connector_id FROM added a);
    ups     integer[] := ARRAY(SELECT DISTINCT a.upstream_id FROM added a);
    gone    integer[];
    cycle   text;
    problem text;
BEGIN
    IF ids = '{}' THEN
        RETURN NULL;
    END IF;
    PERFORM FROM connectors k WHERE k.id = ANY (ids || ups) ORDER BY k.id FOR UPDATE;
    PERFORM moves.refuse_system(c) FROM connectors c WHERE c.id = ANY (ids) AND c.scope = 'system';
    gone := ARRAY(SELECT e.connector_id FROM upstream_ends e WHERE e.connector_id = ANY (ups) AND e.lost = 'gone');
    IF gone <> '{}' THEN   -- they ran after a deleted connector of the same id
        DELETE FROM run_after a WHERE a.upstream_id = ANY (gone) AND NOT EXISTS (
            SELECT FROM added n WHERE n.connector_id = a.connector_id AND n.upstream_id = a.upstream_id);
        DELETE FROM upstream_ends e WHERE e.connector_id = ANY (gone);
    END IF;
    problem := coalesce(
        (SELECT format('connector_id is %s, which does not exist', a.connector_id) FROM added a
            WHERE NOT EXISTS (SELECT FROM connectors c WHERE c.id = a.connector_id) LIMIT 1),
        (SELECT format('upstream_id is %s, which does not exist, or which the owner of connector %s does not see', a.upstream_id, a.connector_id) FROM added a
            WHERE NOT coalesce((SELECT moves.may_follow(f, u) FROM connectors f, connectors u WHERE f.id = a.connector_id AND u.id = a.upstream_id), false) LIMIT 1),
        (SELECT format('connector %s would run after more than %s others', k.id, most) FROM unnest(ids) k(id)
            WHERE (SELECT count(*) FROM (SELECT FROM run_after a WHERE a.connector_id = k.id LIMIT most + 1) n) > most LIMIT 1),
        (SELECT format('more than %s connectors would run after connector %s', most, k.id) FROM unnest(ups) k(id)
            WHERE (SELECT count(*) FROM (SELECT FROM run_after a WHERE a.upstream_id = k.id LIMIT most + 1) n) > most LIMIT 1));
    IF problem IS NULL THEN
        cycle := moves.cycle_of(ids);
        problem := 'a connector would run after itself: ' || cycle;
    END IF;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION 'run_after: %', problem USING ERRCODE = 'check_violation', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
            CONSTRAINT = CASE WHEN cycle IS NOT NULL THEN 'run_after_no_cycle' ELSE 'run_after_allowed' END;
    END IF;
    DELETE FROM upstream_uses u USING added a WHERE u.connector_id = a.connector_id AND u.upstream_id = a.upstream_id;
    INSERT INTO upstream_ends (connector_id, no, ended_at, ended_for, completed_no, completed_at, completed_for)
    SELECT u.id, (r.completed_at IS NOT NULL)::integer + b.skipped::integer, coalesce(u.last_sync_at, r.completed_at), coalesce(u.synced_for, u.last_sync_at, r.for_),
        (r.completed_at IS NOT NULL)::integer, r.completed_at, r.for_
    FROM connectors u LEFT JOIN LATERAL (
        SELECT l.completed_at, coalesce(l.slot, l.started_at) AS for_ FROM (
            SELECT h.* FROM runs h WHERE h.connector_id = u.id ORDER BY h.started_at DESC LIMIT 10000) l
        WHERE l.status = 'completed' AND l.config_version >= u.added_version AND l.parameters IS NULL
        ORDER BY l.started_at DESC LIMIT 1) r ON true
    CROSS JOIN LATERAL (SELECT coalesce(u.last_sync_at > r.completed_at + interval '1 second' OR (u.last_sync_at IS NOT NULL AND r.completed_at IS NULL), false) AS skipped) b
    WHERE u.id = ANY (ups)
    ON CONFLICT (connector_id) DO NOTHING;
    UPDATE connectors c SET followed = true WHERE c.id = ANY (ups) AND NOT c.followed;
    -- What was let go already waits for the new one, too.
    UPDATE connectors c SET follows = true, upstreams_met_at = NULL, status = CASE WHEN c.due_reason = 'upstream' THEN 'ACTIVE' ELSE c.status END,
        next_sync_at = CASE WHEN c.due_reason = 'upstream' THEN NULL ELSE c.next_sync_at END, due_reason = nullif(c.due_reason, 'upstream'),
        kept_plan = c.kept_plan || '{"upstreams_met_at": null}'
            || CASE WHEN c.kept_plan ->> 'due_reason' = 'upstream' THEN '{"status": "ACTIVE", "next_sync_at": null, "due_reason": null}' ELSE '{}'::jsonb END
    WHERE c.id = ANY (ids);
    INSERT INTO followers AS f (connector_id, look_at, rests_since) SELECT k.id, moment, moment FROM unnest(ids) k(id)
        ON CONFLICT (connector_id) DO UPDATE SET look_at = EXCLUDED.look_at, rests_since = EXCLUDED.rests_since, told = f.told + 1;
    PERFORM pg_notify('connectors_due', (SELECT c.type FROM connectors c WHERE c.id = ids[1]));
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER run_after_added AFTER INSERT ON run_after REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION run_after_added();

-- Whose rows were changed or removed is looked at anew.
-- +goose StatementBegin
CREATE FUNCTION run_after_changed() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
DECLARE
    ids integer[] := ARRAY(SELECT DISTINCT a.connector_id FROM changed a);
BEGIN
    -- The claims pass them over, as others whose users write them. One that somebody has is not waited for: who deletes it waits for the rows that are written here.
    PERFORM FROM connectors c WHERE c.id = ANY (ids) ORDER BY c.id FOR UPDATE SKIP LOCKED;
    UPDATE followers f SET look_at = clock_timestamp(), told = f.told + 1 WHERE f.connector_id = ANY (ids);
    IF FOUND THEN
        PERFORM pg_notify('connectors_due', coalesce((SELECT c.type FROM connectors c WHERE c.id = ids[1]), ''));
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER run_after_changed AFTER UPDATE ON run_after REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION run_after_changed();
CREATE TRIGGER run_after_removed AFTER DELETE ON run_after REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION run_after_changed();

-- Jobs of the system are their administrators', and so is what they run after.
-- +goose StatementBegin
CREATE FUNCTION run_after_refuse_system() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM moves.refuse_system(c) FROM connectors c WHERE c.id IN (SELECT a.connector_id FROM changed a) AND c.scope = 'system';
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER run_after_system_changed AFTER UPDATE ON run_after REFERENCING NEW TABLE AS changed FOR EACH STATEMENT
    WHEN (current_setting('echomind.moving', true) IS DISTINCT FROM 'on' OR NOT has_column_privilege('connectors'::regclass, 'status', 'UPDATE'))
    EXECUTE FUNCTION run_after_refuse_system();
CREATE TRIGGER run_after_system_removed AFTER DELETE ON run_after REFERENCING OLD TABLE AS changed FOR EACH STATEMENT
    WHEN (current_setting('echomind.moving', true) IS DISTINCT FROM 'on' OR NOT has_column_privilege('connectors'::regclass, 'status', 'UPDATE'))
    EXECUTE FUNCTION run_after_refuse_system();

-- A connector that is deleted, or given to somebody else, waits for nobody that its owner does not see; those who run after it are told.
-- +goose StatementBegin
CREATE FUNCTION connectors_leave_chain() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        DELETE FROM run_after;
        DELETE FROM upstream_uses;
        DELETE FROM followers;
        DELETE FROM upstream_ends;
        RETURN NULL;
    ELSIF TG_OP = 'DELETE' THEN
        DELETE FROM run_after a WHERE a.connector_id = OLD.id;
        DELETE FROM upstream_uses u WHERE u.connector_id = OLD.id;
        DELETE FROM followers f WHERE f.connector_id = OLD.id;
    ELSE
        DELETE FROM run_after a USING connectors u WHERE a.connector_id = NEW.id AND u.id = a.upstream_id AND NOT moves.may_follow(NEW, u);
    END IF;
    UPDATE upstream_ends e SET lost = CASE TG_OP WHEN 'DELETE' THEN 'gone' ELSE 'given' END, tell_at = clock_timestamp() WHERE e.connector_id = OLD.id;
    PERFORM pg_notify('connectors_due', OLD.type);
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER connectors_leave_chain AFTER DELETE ON connectors FOR EACH ROW WHEN (OLD.follows OR OLD.followed) EXECUTE FUNCTION connectors_leave_chain();
CREATE TRIGGER connectors_chain_none AFTER TRUNCATE ON connectors FOR EACH STATEMENT EXECUTE FUNCTION connectors_leave_chain();
-- By its name it comes before connectors_follower_moved, which writes followers.
CREATE TRIGGER connectors_chain_given AFTER UPDATE OF user_id, scope, scope_id ON connectors FOR EACH ROW
    WHEN ((NEW.follows OR NEW.followed) AND (NEW.user_id, NEW.scope, NEW.scope_id) IS DISTINCT FROM (OLD.user_id, OLD.scope, OLD.scope_id))
    EXECUTE FUNCTION connectors_leave_chain();

CREATE TRIGGER run_after_audit AFTER INSERT OR UPDATE OR DELETE ON run_after
    FOR EACH ROW EXECUTE FUNCTION audit_row('run_after', '{connector_id,upstream_id}', '{}');

REVOKE ALL ON FUNCTION moves.note_ends(integer[], text), moves.see_ends(jsonb), moves.use_ends(integer[]), moves.may_follow(connectors, connectors),
    moves.hand_on(integer, integer, integer), moves.hand_on_all(integer[], bigint[], integer), moves.have_told(integer, bigint, text, timestamptz, boolean), moves.lock_followers(integer[], timestamptz),
    moves.upstreams_of(integer[], timestamptz), moves.let_follow(integer[]), moves.give_up_following(integer[], integer[], timestamptz),
    moves.look_again(integer[], bigint[], timestamptz[], timestamptz[]), moves.stop_following(integer[]), moves.cycle_of(integer[]), moves.cycle_among(integer[], integer[]),
    run_after_turn(), run_after_refuse(), run_after_replace(), run_after_added(), run_after_changed(), run_after_refuse_system(), connectors_note_follower(), connectors_leave_chain() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION moves.hand_on(integer, integer, integer), moves.hand_on_all(integer[], bigint[], integer), moves.have_told(integer, bigint, text, timestamptz, boolean), moves.lock_followers(integer[], timestamptz),
    moves.upstreams_of(integer[], timestamptz), moves.let_follow(integer[]), moves.give_up_following(integer[], integer[], timestamptz),
    moves.look_again(integer[], bigint[], timestamptz[], timestamptz[]), moves.stop_following(integer[]) TO echomind_scheduler;
GRANT SELECT ON upstream_ends, followers TO echomind_scheduler;
GRANT SELECT, INSERT, UPDATE (accepts, max_age_minutes, timeout_minutes), DELETE ON run_after TO echomind_console;
GRANT SELECT ON upstream_ends, upstream_uses, followers, run_after_ends TO echomind_console;

-- +goose Down
DROP TRIGGER connectors_chain_given ON connectors;
DROP TRIGGER connectors_chain_none ON connectors;
DROP TRIGGER connectors_leave_chain ON connectors;
DROP TRIGGER connectors_follower_moved ON connectors;
DROP TRIGGER run_after_audit ON run_after;
DROP TRIGGER run_after_system_removed ON run_after;
DROP TRIGGER run_after_system_changed ON run_after;
DROP TRIGGER run_after_removed ON run_after;
DROP TRIGGER run_after_changed ON run_after;
DROP TRIGGER run_after_added ON run_after;
DROP TRIGGER run_after_replace ON run_after;
DROP TRIGGER run_after_refuse ON run_after;
DROP TRIGGER run_after_turn_changed ON run_after;
DROP TRIGGER run_after_turn ON run_after;
DROP FUNCTION connectors_leave_chain();
DROP FUNCTION run_after_refuse_system();
DROP FUNCTION run_after_changed();
DROP FUNCTION run_after_added();
DROP FUNCTION run_after_replace();
DROP FUNCTION run_after_refuse();
DROP FUNCTION run_after_turn();
DROP FUNCTION connectors_note_follower();
DROP FUNCTION moves.cycle_of(integer[]);
DROP FUNCTION moves.cycle_among(integer[], integer[]);
DROP FUNCTION moves.stop_following(integer[]);
DROP FUNCTION moves.look_again(integer[], bigint[], timestamptz[], timestamptz[]);
DROP FUNCTION moves.give_up_following(integer[], integer[], timestamptz);
DROP FUNCTION moves.let_follow(integer[]);
DROP FUNCTION moves.upstreams_of(integer[], timestamptz);
DROP FUNCTION moves.lock_followers(integer[], timestamptz);
DROP FUNCTION moves.have_told(integer, bigint, text, timestamptz, boolean);
DROP FUNCTION moves.hand_on_all(integer[], bigint[], integer);
DROP FUNCTION moves.hand_on(integer, integer, integer);
DROP FUNCTION moves.may_follow(connectors, connectors);
DROP FUNCTION moves.use_ends(integer[]);
DROP FUNCTION moves.see_ends(jsonb);
DROP FUNCTION moves.note_ends(integer[], text);
