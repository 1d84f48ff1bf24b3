-- +goose Up
-- Chains: connectors that run after others. docs/chains.md says what it does, ADR 0037 why so. Here is who writes run_after, and what is refused; 0017 has what ends a
-- run, and the looks. Lock order: connectors, upstream_ends or upstream_uses, run_after, followers. Whoever writes run_after by a statement of its own has its rows
-- before it knows the connectors: it takes its turn among all that do, and waits for no connector, unless it adds rows, which nobody else sees yet. Of run_after no
-- move of the scheduler waits for a row.

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
        (SELECT format('upstream_id is %s, which does not exist, or which the owner of connector "%s" does not see', a.upstream_id, n.name)
            FROM added a JOIN connectors n ON n.id = a.connector_id
            WHERE NOT coalesce((SELECT moves.may_follow(f, u) FROM connectors f, connectors u WHERE f.id = a.connector_id AND u.id = a.upstream_id), false) LIMIT 1),
        (SELECT format('connector "%s" would run after more than %s others', n.name, most) FROM unnest(ids) k(id) JOIN connectors n ON n.id = k.id
            WHERE (SELECT count(*) FROM (SELECT FROM run_after a WHERE a.connector_id = k.id LIMIT most + 1) n) > most LIMIT 1),
        (SELECT format('more than %s connectors would run after connector %s', most, k.id) FROM unnest(ups) k(id)
            WHERE (SELECT count(*) FROM (SELECT FROM run_after a WHERE a.upstream_id = k.id LIMIT most + 1) n) > most LIMIT 1));
    IF problem IS NULL THEN
        cycle := moves.cycle_of(ids);
        IF (SELECT a.source = 'api' FROM moves.actor() a) THEN   -- it may go through connectors that the viewer does not see
            cycle := (SELECT string_agg(CASE WHEN w.word !~ '^[0-9]+$' OR api.sees_connector(w.word::integer) THEN w.word ELSE 'another' END, ' after ' ORDER BY w.place)
                FROM unnest(string_to_array(cycle, ' after ')) WITH ORDINALITY w(word, place));
        END IF;
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
        ON CONFLICT (connector_id) DO UPDATE SET look_at = EXCLUDED.look_at, rests_since = EXCLUDED.rests_since, told = f.told + 1, waits_for = NULL;
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
    ids  integer[] := ARRAY(SELECT DISTINCT a.connector_id FROM changed a);
    mine integer[];
BEGIN
    -- The claims pass them over, as others whose users write them. One that somebody has is not waited for: who deletes it waits for the rows that are written here.
    mine := ARRAY(SELECT c.id FROM connectors c WHERE c.id = ANY (ids) ORDER BY c.id FOR UPDATE SKIP LOCKED);
    UPDATE followers f SET look_at = clock_timestamp(), told = f.told + 1, waits_for = NULL WHERE f.connector_id = ANY (mine);
    -- Who has one of the others may write its followers row next.
    INSERT INTO changed_followers (connector_id) SELECT k.id FROM unnest(ids) k(id) WHERE k.id <> ALL (mine);
    IF ids <> '{}' THEN
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
        DELETE FROM changed_followers;
        DELETE FROM upstream_ends;
        RETURN NULL;
    ELSIF TG_OP = 'DELETE' THEN
        DELETE FROM run_after a WHERE a.connector_id = OLD.id;
        DELETE FROM upstream_uses u WHERE u.connector_id = OLD.id;
        DELETE FROM followers f WHERE f.connector_id = OLD.id;
    ELSE
        DELETE FROM run_after a USING connectors u WHERE a.connector_id = NEW.id AND u.id = a.upstream_id AND NOT moves.may_follow(NEW, u);
    END IF;
    UPDATE upstream_ends e SET lost = CASE TG_OP WHEN 'DELETE' THEN 'gone' ELSE 'given' END, tell_at = clock_timestamp(), held = NULL WHERE e.connector_id = OLD.id;
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

REVOKE ALL ON FUNCTION moves.may_follow(connectors, connectors), moves.cycle_of(integer[]), moves.cycle_among(integer[], integer[]),
    run_after_turn(), run_after_refuse(), run_after_replace(), run_after_added(), run_after_changed(), run_after_refuse_system(), connectors_leave_chain() FROM PUBLIC;
GRANT SELECT, INSERT, UPDATE (accepts, max_age_minutes, timeout_minutes), DELETE ON run_after TO echomind_console;
GRANT SELECT ON upstream_ends, upstream_uses, followers, run_after_ends TO echomind_console;

-- +goose Down
DROP TRIGGER connectors_chain_given ON connectors;
DROP TRIGGER connectors_chain_none ON connectors;
DROP TRIGGER connectors_leave_chain ON connectors;
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
DROP FUNCTION moves.cycle_of(integer[]);
DROP FUNCTION moves.cycle_among(integer[], integer[]);
DROP FUNCTION moves.may_follow(connectors, connectors);
