-- +goose Up
-- Chains, as they go on. What ends a run writes upstream_ends, where somebody follows; the scheduler tells it to those who follow (hand_on), and looks at these
-- (lock_followers, upstreams_of): where all that they run after have come so far as they want they are let go, and due as others are. No state but that of the rows is
-- needed: a look that dies is repeated. The order of locks is that of 0016.

-- Writes down that a run of connectors that others run after has ended: completed or skipped. They are locked.
-- +goose StatementBegin
CREATE FUNCTION moves.note_ends(ids integer[], verdict text) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    noted  integer;
BEGIN
    UPDATE upstream_ends e SET tell_at = moment, held = NULL, no = e.no + 1, ended_at = moment, ended_for = greatest(e.ended_for, k.for_),
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
    whose  integer;   -- see followers.waits_for
    look   timestamptz := CASE WHEN NEW.run_id IS NOT NULL THEN NULL
        WHEN NEW.status = 'DISABLED' THEN CASE WHEN NOT EXISTS (SELECT FROM run_after a WHERE a.connector_id = NEW.id) THEN moment END   -- it follows no more
        WHEN NEW.needs_plan THEN NULL
        WHEN NEW.asks_upstreams THEN NEW.next_sync_at
        WHEN NEW.status = 'ACTIVE' AND NEW.next_sync_at IS NULL AND NEW.schedule_cron IS NULL AND coalesce(NEW.refresh_freq_minutes, 0) = 0 THEN moment END;
BEGIN
    IF NEW.status = 'DISABLED' THEN
        UPDATE upstream_uses u SET seen = NULL WHERE u.connector_id = NEW.id AND u.seen IS NOT NULL;
    ELSIF OLD.over_at IS NULL AND NEW.over_at IS NOT NULL AND NEW.claimed_at IS NOT NULL THEN   -- what was never claimed has used nothing
        PERFORM moves.use_ends(ARRAY[NEW.id]);
    END IF;
    IF coalesce(look > moment, true) THEN
        whose := 0;
    END IF;
    UPDATE followers f SET look_at = look, told = f.told + 1, rests_since = moment, waits_since = NULL, waits_for = whose
    WHERE f.connector_id = NEW.id AND (f.look_at IS DISTINCT FROM look OR f.waits_since IS NOT NULL OR f.waits_for IS DISTINCT FROM whose);
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

-- Tells a page of those who run after a connector to be looked at, in the order of their ids; it waits for nobody. Those that wait for the end of another are not
-- told. Of one that was deleted, or given to somebody else, nobody runs who may not. last: where the page ends, null = it is the last; told: how many were told; held:
-- those that were not told, as somebody holds their rows.
-- +goose StatementBegin
CREATE FUNCTION moves.hand_on(upstream integer, after integer, batch integer, OUT last integer, OUT told integer, OUT held integer[])
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    ended  upstream_ends;
    page   integer[];
    ready  integer[];
BEGIN
    SELECT * INTO ended FROM upstream_ends e WHERE e.connector_id = upstream;
    page := ARRAY(SELECT a.connector_id FROM run_after a WHERE a.upstream_id = upstream AND a.connector_id > after
        AND (ended.held IS NULL OR a.connector_id = ANY (ended.held)) ORDER BY 1 LIMIT batch);
    IF cardinality(page) = batch THEN
        last := page[batch];
    END IF;
    IF ended.lost IS NULL THEN
        page := moves.told_of(upstream, page);
    END IF;
    ready := ARRAY(SELECT l.connector_id FROM unnest(page) k(id), LATERAL (
        SELECT f.connector_id FROM followers f WHERE f.connector_id = k.id FOR UPDATE SKIP LOCKED) l);
    IF ended.lost IS NOT NULL THEN
        ready := ARRAY(SELECT c.id FROM unnest(ready) k(id), LATERAL (SELECT l.id FROM connectors l WHERE l.id = k.id FOR UPDATE SKIP LOCKED) c);
        ready := ARRAY(SELECT a.connector_id FROM unnest(ready) k(id), LATERAL (
            SELECT r.connector_id FROM run_after r WHERE r.connector_id = k.id AND r.upstream_id = upstream FOR UPDATE SKIP LOCKED) a);
        DELETE FROM run_after a WHERE a.upstream_id = upstream AND a.connector_id = ANY (ready) AND (ended.lost = 'gone'
            OR NOT coalesce((SELECT moves.may_follow(f, u) FROM connectors f, connectors u WHERE f.id = a.connector_id AND u.id = upstream), false));
    END IF;
    told := moves.look_now(ready, moment);
    held := ARRAY(SELECT k.id FROM unnest(page) k(id) WHERE k.id <> ALL (ready));
END $$;
-- +goose StatementEnd

-- Which of these followers an end of an upstream is told to. It reads what is committed: who is being looked at has everybody's ends told, or goes on waiting for the same one.
-- +goose StatementBegin
CREATE FUNCTION moves.told_of(upstream integer, page integer[]) RETURNS integer[]
    LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    RETURN ARRAY(SELECT f.connector_id FROM unnest(page) k(id), LATERAL (
        SELECT l.connector_id, l.waits_for FROM followers l WHERE l.connector_id = k.id OFFSET 0) f WHERE f.waits_for IS NULL OR f.waits_for = upstream);
END $$;
-- +goose StatementEnd

-- Has followers looked at that the transaction has locked. Who is to be looked at anyway stays as it is: a look that locks it later sees what this transaction has seen. It says how many were told.
-- +goose StatementBegin
CREATE FUNCTION moves.look_now(ready integer[], moment timestamptz) RETURNS integer
    LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    told integer;
BEGIN
    UPDATE followers f SET look_at = moment, told = f.told + 1, waits_for = NULL
    WHERE f.connector_id = ANY (ready) AND (f.waits_for IS NOT NULL OR coalesce(f.look_at > moment, true));
    GET DIAGNOSTICS told = ROW_COUNT;
    RETURN told;
END $$;
-- +goose StatementEnd

-- Has connectors looked at whose run_after rows were changed while somebody held them: a page, in the order of their ids; it waits for nobody. It says where the page ends; null = there is none.
-- +goose StatementBegin
CREATE FUNCTION moves.hand_on_changed(after integer, batch integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    page  integer[] := ARRAY(SELECT DISTINCT k.connector_id FROM (
        SELECT a.connector_id FROM changed_followers a WHERE a.connector_id > after ORDER BY 1 LIMIT batch) k ORDER BY 1);
    ready integer[];
BEGIN
    IF page = '{}' THEN
        RETURN NULL;
    END IF;
    ready := ARRAY(SELECT l.connector_id FROM unnest(page) k(id), LATERAL (
        SELECT f.connector_id FROM followers f WHERE f.connector_id = k.id FOR UPDATE SKIP LOCKED) l);
    PERFORM moves.look_now(ready, clock_timestamp());
    DELETE FROM changed_followers a WHERE a.ctid = ANY (ARRAY(SELECT l.ctid FROM unnest(page) k(id), LATERAL (
        SELECT h.ctid FROM changed_followers h WHERE h.connector_id = k.id
            AND (h.connector_id = ANY (ready) OR NOT EXISTS (SELECT FROM followers f WHERE f.connector_id = h.connector_id)) FOR UPDATE SKIP LOCKED) l));
    RETURN page[cardinality(page)];
END $$;
-- +goose StatementEnd

-- Tells those who run after connectors that have ended and wait for that, and writes down that they were told; of connectors that many run after, only that this is so.
-- It waits for nobody. It returns those that are to be told of one by one.
-- +goose StatementBegin
CREATE FUNCTION moves.hand_on_all(upstreams integer[], nos bigint[], few integer) RETURNS integer[]
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    held   integer[];
    page   integer[];
    ready  integer[];
    rest   integer[] := '{}';
BEGIN
    FOR i IN 1..cardinality(upstreams) LOOP
        SELECT e.held INTO held FROM upstream_ends e WHERE e.connector_id = upstreams[i] AND e.no = nos[i] AND e.lost IS NULL FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;   -- it ends once more, and tells then
        page := ARRAY(SELECT a.connector_id FROM run_after a WHERE a.upstream_id = upstreams[i] ORDER BY 1 LIMIT few);
        IF cardinality(page) = few THEN
            UPDATE upstream_ends e SET wide = true, tell_at = clock_timestamp() WHERE e.connector_id = upstreams[i];
            CONTINUE;
        ELSIF page = '{}' OR held IS NOT NULL THEN
            rest := rest || upstreams[i];
            CONTINUE;
        END IF;
        page := moves.told_of(upstreams[i], page);
        ready := ARRAY(SELECT l.connector_id FROM unnest(page) k(id), LATERAL (
            SELECT f.connector_id FROM followers f WHERE f.connector_id = k.id FOR UPDATE SKIP LOCKED) l);
        IF cardinality(ready) < cardinality(page) THEN
            rest := rest || upstreams[i];
        ELSE
            PERFORM moves.look_now(ready, moment);
            UPDATE upstream_ends e SET tell_at = NULL WHERE e.connector_id = upstreams[i];
        END IF;
    END LOOP;
    RETURN rest;
END $$;
-- +goose StatementEnd

-- Writes down that those who run after a connector have been told of its end with a number, or of its loss, for which they were to be told since a moment; those whose
-- rows somebody held are told in a second. What nobody runs after is forgotten.
-- +goose StatementBegin
CREATE FUNCTION moves.have_told(upstream integer, end_no bigint, was_lost text, since timestamptz, untold integer[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET echomind.moving = 'on' SET lock_timeout = '3s' AS $$
DECLARE
    few CONSTANT integer := 20;
BEGIN
    IF untold <> '{}' THEN
        UPDATE upstream_ends e SET tell_at = clock_timestamp() + interval '1 second', held = untold
        WHERE e.connector_id = upstream AND e.no = end_no AND e.lost IS NOT DISTINCT FROM was_lost AND e.tell_at = since;
        RETURN;
    ELSIF was_lost = 'gone' THEN
        DELETE FROM upstream_ends e WHERE e.connector_id = upstream AND e.lost = 'gone' AND e.no = end_no AND e.tell_at = since;
        RETURN;
    END IF;
    UPDATE upstream_ends e SET tell_at = NULL, lost = NULL, held = NULL,
        wide = few <= (SELECT count(*) FROM (SELECT FROM run_after a WHERE a.upstream_id = upstream LIMIT few) n)
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

-- Locks those of these connectors that wait for others and are to be looked at, or run after nobody any more; skips what is locked. Who does not wait is looked at when that changes;
-- who runs after many, behind those that run after few. What has ended is read after this, in a statement of its own: an end that it does not see is told to somebody who is locked here.
-- +goose StatementBegin
CREATE FUNCTION moves.lock_followers(ids integer[], moment timestamptz DEFAULT NULL) RETURNS SETOF connectors
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
DECLARE
    c    connectors;
    who  integer;
    look timestamptz;
    few  CONSTANT integer := 20;
    wide boolean;
    many boolean;
BEGIN
    moment := coalesce(moment, clock_timestamp());
    FOREACH who IN ARRAY ids LOOP
        SELECT * INTO c FROM connectors l WHERE l.id = who FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        SELECT f.wide INTO wide FROM followers f WHERE f.connector_id = who FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        many := few < (SELECT count(*) FROM (SELECT FROM run_after a WHERE a.connector_id = who LIMIT few + 1) n);
        IF many <> wide THEN
            UPDATE followers f SET wide = many, look_at = CASE WHEN many THEN clock_timestamp() ELSE f.look_at END WHERE f.connector_id = who;
            CONTINUE WHEN many;
        END IF;
        IF c.run_id IS NULL AND (NOT EXISTS (SELECT FROM run_after a WHERE a.connector_id = who) OR c.status <> 'DISABLED' AND NOT c.needs_plan AND (CASE WHEN c.asks_upstreams THEN c.next_sync_at <= moment
                ELSE c.status = 'ACTIVE' AND c.next_sync_at IS NULL AND c.schedule_cron IS NULL AND coalesce(c.refresh_freq_minutes, 0) = 0 END)) THEN
            RETURN NEXT c;
            CONTINUE;
        END IF;
        look := CASE WHEN c.asks_upstreams THEN c.next_sync_at END;
        UPDATE followers f SET look_at = look, waits_for = 0 WHERE f.connector_id = who AND (f.look_at, f.waits_for) IS DISTINCT FROM (look, 0);
    END LOOP;
END $$;
-- +goose StatementEnd

-- Whether those that connectors run after have come so far as they want: each has an end that is not used, and whose slot is not too old. Else which of them is waited for,
-- the one with the shortest patience first, how long, and since when, where one of the others has come so far: since the first of these has, and it is at rest. chained: whether it runs after any.
-- waits_for: one of those that are waited for, taken as if at random: whatever the order in which a thousand end, a dozen looks see it. ages_at: when the first of the ends becomes too old whose patience
-- begins then.
-- +goose StatementBegin
CREATE FUNCTION moves.upstreams_of(ids integer[], moment timestamptz)
    RETURNS TABLE (id integer, chained boolean, met boolean, upstream integer, timeout_minutes integer, since timestamptz, waits_for integer, ages_at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT k.id, s.* FROM unnest(ids) k(id), LATERAL (
        SELECT count(*) > 0, coalesce(bool_and(e.has), false),
            (array_agg(e.upstream_id ORDER BY e.timeout_minutes, e.upstream_id) FILTER (WHERE NOT e.has))[1],
            min(e.timeout_minutes) FILTER (WHERE NOT e.has),
            CASE WHEN bool_or(e.has) THEN (
                SELECT coalesce(f.waits_since, greatest(f.rests_since, min(e.ended_at) FILTER (WHERE e.has))) FROM followers f WHERE f.connector_id = k.id) END,
            (array_agg(e.upstream_id ORDER BY hashint8extended(e.upstream_id, k.id), e.upstream_id) FILTER (WHERE NOT e.has))[1],
            min(e.ended_for + make_interval(mins => e.max_age_minutes)) FILTER (WHERE e.has AND e.timeout_minutes IS NOT NULL)
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
-- since when those without a schedule wait for the rest of those that they run after; upstreams: whose end they are told of, null = everybody's; no array = as it stands. Who
-- was told of another's end until now is told of everybody's first, and looked at again: of an end that comes while this is written one of the two looks knows.
-- +goose StatementBegin
CREATE FUNCTION moves.look_again(ids integer[], were_told bigint[], moments timestamptz[], sinces timestamptz[], upstreams integer[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
    UPDATE followers f SET waits_since = CASE WHEN sinces IS NULL THEN f.waits_since ELSE k.since END,
        look_at = CASE WHEN f.told <> k.told THEN f.look_at WHEN upstreams IS NULL OR f.waits_for IS NULL OR f.waits_for IS NOT DISTINCT FROM k.upstream THEN k.at ELSE clock_timestamp() END,
        waits_for = CASE WHEN f.told <> k.told OR upstreams IS NULL THEN f.waits_for WHEN f.waits_for IS NULL OR f.waits_for = k.upstream THEN k.upstream END
    FROM unnest(ids, were_told, moments, sinces, upstreams) k(id, told, at, since, upstream) WHERE f.connector_id = k.id;
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

REVOKE ALL ON FUNCTION moves.note_ends(integer[], text), moves.see_ends(jsonb), moves.use_ends(integer[]), moves.told_of(integer, integer[]), moves.look_now(integer[], timestamptz), connectors_note_follower(),
    moves.hand_on(integer, integer, integer), moves.hand_on_all(integer[], bigint[], integer), moves.hand_on_changed(integer, integer), moves.have_told(integer, bigint, text, timestamptz, integer[]),
    moves.lock_followers(integer[], timestamptz), moves.upstreams_of(integer[], timestamptz), moves.let_follow(integer[]),
    moves.give_up_following(integer[], integer[], timestamptz), moves.look_again(integer[], bigint[], timestamptz[], timestamptz[], integer[]), moves.stop_following(integer[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION moves.hand_on(integer, integer, integer), moves.hand_on_all(integer[], bigint[], integer), moves.hand_on_changed(integer, integer), moves.have_told(integer, bigint, text, timestamptz, integer[]),
    moves.lock_followers(integer[], timestamptz), moves.upstreams_of(integer[], timestamptz), moves.let_follow(integer[]),
    moves.give_up_following(integer[], integer[], timestamptz), moves.look_again(integer[], bigint[], timestamptz[], timestamptz[], integer[]), moves.stop_following(integer[]) TO echomind_scheduler;
GRANT SELECT ON upstream_ends, followers TO echomind_scheduler;

-- +goose Down
DROP TRIGGER connectors_follower_moved ON connectors;
DROP FUNCTION connectors_note_follower();
DROP FUNCTION moves.stop_following(integer[]);
DROP FUNCTION moves.look_again(integer[], bigint[], timestamptz[], timestamptz[], integer[]);
DROP FUNCTION moves.give_up_following(integer[], integer[], timestamptz);
DROP FUNCTION moves.let_follow(integer[]);
DROP FUNCTION moves.upstreams_of(integer[], timestamptz);
DROP FUNCTION moves.lock_followers(integer[], timestamptz);
DROP FUNCTION moves.have_told(integer, bigint, text, timestamptz, integer[]);
DROP FUNCTION moves.hand_on_changed(integer, integer);
DROP FUNCTION moves.hand_on_all(integer[], bigint[], integer);
DROP FUNCTION moves.hand_on(integer, integer, integer);
DROP FUNCTION moves.look_now(integer[], timestamptz);
DROP FUNCTION moves.told_of(integer, integer[]);
DROP FUNCTION moves.use_ends(integer[]);
DROP FUNCTION moves.see_ends(jsonb);
DROP FUNCTION moves.note_ends(integer[], text);
