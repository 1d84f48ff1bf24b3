-- +goose Up
-- expand
-- The finder of faults goes on, whoever holds a webhook and whatever the clock does; the audit of dead letters is bounded, and so is what counting connectors reads.

-- Webhooks that are to be looked at again: those that somebody held when they were called, and those that are new or changed, since a page of the finder that is not committed yet knows
-- nothing of them. Each page of the finder calls them first. One may stand here twice: who writes a row waits for nobody.
CREATE TABLE webhook_calls (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook_id integer NOT NULL
);
-- call_webhooks.
CREATE INDEX webhook_calls_webhook ON webhook_calls (webhook_id);

-- Calls of very many webhooks, by whom they reach: org, job, system (superadmins), group:eng, or connector:12 (the webhooks about it). One walk goes through all webhooks in the order of their numbers, and begins anew at the end while there is such a call.
-- Each page of the finder takes the walk on. A call that is made again begins its round again where the walk is: so each reach has one row.
CREATE TABLE webhook_rounds (
    reach    text PRIMARY KEY,
    -- Where the walk was when the call was made. The call is over when the walk is there again.
    round    bigint NOT NULL,
    after_id integer NOT NULL
);
-- call_round: those that are over.
CREATE INDEX webhook_rounds_place ON webhook_rounds (round, after_id);
-- Where the walk is.
ALTER TABLE webhook_looks ADD COLUMN round bigint NOT NULL DEFAULT 0, ADD COLUMN round_after integer NOT NULL DEFAULT 0;
-- webhooks_in: those that are told of all that their owner sees.
CREATE INDEX webhooks_of_all ON webhooks (id) WHERE connector_id IS NULL;

-- Up to so many of the webhooks that a call reaches. Nothing calls api.webhooks_of any more.
-- +goose StatementBegin
CREATE FUNCTION api.webhooks_in(reach text, most integer) RETURNS SETOF integer
    LANGUAGE sql STABLE AS $$
    SELECT n.id FROM (
        SELECT w.id FROM webhooks w WHERE reach = 'org' AND w.connector_id IS NULL
        UNION ALL SELECT w.id FROM webhooks w WHERE reach = 'system' AND w.role = 'superadmin' AND w.connector_id IS NULL
        UNION ALL SELECT w.id FROM webhooks w WHERE reach = 'job' AND w.role = 'admin' AND w.connector_id IS NULL
        UNION ALL SELECT w.id FROM webhooks w WHERE starts_with(reach, 'connector:') AND w.connector_id = substring(reach FROM '^connector:(.*)$')::integer
        UNION ALL SELECT w.id FROM webhooks w WHERE starts_with(reach, 'user:') AND w.connector_id IS NULL AND w.user_id = substring(reach FROM '^user:(.*)$')::integer
        UNION ALL SELECT w.id FROM group_members m JOIN webhooks w ON w.user_id = m.user_id WHERE starts_with(reach, 'group:') AND w.connector_id IS NULL AND m.group_id = substr(reach, 7)) n
    LIMIT most
$$;
-- +goose StatementEnd

-- Has webhooks looked at, before those that are only reviewed, and before those that were called with a shorter head start. False: somebody else holds one of them, and it is called again with the next page.
-- +goose StatementBegin
CREATE FUNCTION api.call_webhooks(webhooks integer[], head_start interval) RETURNS boolean
    LANGUAGE sql AS $$
    WITH held AS (SELECT n.webhook_id FROM webhook_turns n WHERE n.webhook_id = ANY (webhooks) AND n.look_at IS NOT NULL ORDER BY n.webhook_id FOR NO KEY UPDATE SKIP LOCKED),
        called AS (UPDATE webhook_turns n SET look_at = least(n.look_at, clock_timestamp() - head_start), is_called = true FROM held h WHERE n.webhook_id = h.webhook_id RETURNING n.webhook_id),
        missed AS (SELECT n.webhook_id FROM webhook_turns n WHERE n.webhook_id = ANY (webhooks) AND n.look_at IS NOT NULL AND n.webhook_id NOT IN (SELECT h.webhook_id FROM held h)),
        kept AS (INSERT INTO webhook_calls (webhook_id) SELECT m.webhook_id FROM missed m WHERE NOT EXISTS (SELECT FROM webhook_calls c WHERE c.webhook_id = m.webhook_id)),
        done AS (DELETE FROM webhook_calls c WHERE c.webhook_id = ANY (webhooks) AND c.webhook_id NOT IN (SELECT m.webhook_id FROM missed m))
    SELECT NOT EXISTS (SELECT FROM missed)
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.call_webhooks(webhooks integer[]) RETURNS boolean
    LANGUAGE sql AS $$
    SELECT api.call_webhooks(webhooks, interval '1 day')
$$;
-- +goose StatementEnd

-- Calls the webhooks that may have to say something of connectors in some places: those that see a place, those about a connector, and those that were told of one. Of each place and each connector up to 20 are called at once, which is what one user has, and
-- up to most of all larger ones together. The walk calls the others. Only note_faults calls this function: it holds webhook_looks.
-- +goose StatementBegin
CREATE FUNCTION api.call_webhooks_of(connectors integer[], places text[], most integer, walk webhook_looks) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    few    CONSTANT integer := 20;
    room   integer := most;
    called_in text;
    ids    integer[];
    called integer[] := '{}';
    noted  text[] := '{}';
BEGIN
    FOR called_in IN SELECT 'system' UNION SELECT unnest(places) UNION SELECT 'connector:' || unnest(connectors) LOOP
        -- To ask which members of a very large group have a webhook would read all of them.
        IF starts_with(called_in, 'group:') AND (SELECT count(*) FROM (SELECT FROM group_members m WHERE m.group_id = substr(called_in, 7) LIMIT most + 1) n) > most THEN
            noted := noted || called_in;
            CONTINUE;
        END IF;
        ids := ARRAY(SELECT i.id FROM api.webhooks_in(called_in, greatest(room, few) + 1) i(id));
        IF cardinality(ids) > greatest(room, few) THEN
            noted := noted || called_in;
            CONTINUE;
        END IF;
        called := called || ids;
        IF cardinality(ids) > few THEN
            room := room - cardinality(ids);
        END IF;
    END LOOP;
    -- A webhook that was told of a connector, and does not see its place any more, says nothing, and only forgets it. Where there is no room its next review does that.
    PERFORM api.call_webhooks(called || ARRAY(SELECT s.webhook_id FROM webhook_states s WHERE s.connector_id = ANY (connectors) LIMIT room));
    INSERT INTO webhook_rounds (reach, round, after_id) SELECT n.reach, walk.round, walk.round_after FROM unnest(noted) n(reach)
    ON CONFLICT (reach) DO UPDATE SET round = EXCLUDED.round, after_id = EXCLUDED.after_id;
END $$;
-- +goose StatementEnd

-- Takes the walk through all webhooks on by up to most of them, and calls those that a call of many reaches. They are looked at behind those that are called at once. The result says where the walk is then. Only note_faults calls this function: it holds
-- webhook_looks.
-- +goose StatementBegin
CREATE FUNCTION api.call_round(walk webhook_looks, most integer) RETURNS webhook_looks
    LANGUAGE plpgsql AS $$
DECLARE
    ids integer[] := ARRAY(SELECT w.id FROM webhooks w WHERE w.id > walk.round_after ORDER BY w.id LIMIT most);
BEGIN
    PERFORM api.call_webhooks(ARRAY(SELECT w.id FROM webhooks w WHERE w.id = ANY (ids) AND CASE
            WHEN w.connector_id IS NOT NULL THEN EXISTS (SELECT FROM webhook_rounds r WHERE r.reach = 'connector:' || w.connector_id)
            ELSE EXISTS (SELECT FROM webhook_rounds r WHERE r.reach = ANY (ARRAY['org', CASE w.role WHEN 'superadmin' THEN 'system' WHEN 'admin' THEN 'job' END]))
                OR EXISTS (SELECT FROM group_members m JOIN webhook_rounds r ON r.reach = 'group:' || m.group_id WHERE m.user_id = w.user_id) END), interval '12 hours');
    walk.round_after := coalesce(ids[most], 0);
    walk.round := walk.round + CASE WHEN walk.round_after = 0 THEN 1 ELSE 0 END;
    DELETE FROM webhook_rounds r WHERE r.reach IN (SELECT o.reach FROM webhook_rounds o WHERE (o.round, o.after_id) <= (walk.round - 1, walk.round_after) ORDER BY o.round, o.after_id LIMIT most);
    RETURN walk;
END $$;
-- +goose StatementEnd

-- As before; and a webhook that is made, switched on or changed is called once more by the finder.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION webhooks_turn() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO webhook_turns (webhook_id, look_at) VALUES (NEW.id, CASE WHEN NEW.enabled THEN moment END);
        INSERT INTO webhook_calls (webhook_id) SELECT NEW.id WHERE NEW.enabled;
        RETURN NULL;
    END IF;
    UPDATE webhook_turns t SET look_at = CASE WHEN NEW.enabled THEN moment END, after_state = 0, after_fault = 0, rest_until = '-infinity',
        failed_turns = 0, failing_since = NULL, is_changed = t.sending_until > moment,
        send_at = CASE WHEN NEW.enabled AND t.send_at IS NOT NULL THEN greatest(moment, t.sending_until) END
    WHERE t.webhook_id = NEW.id;
    -- A call of one that was switched on stays until this transaction ends, which holds its turn. Of one that was off a page that is not committed yet may take it.
    INSERT INTO webhook_calls (webhook_id) SELECT NEW.id WHERE NEW.enabled AND NOT (OLD.enabled AND EXISTS (SELECT FROM webhook_calls c WHERE c.webhook_id = NEW.id));
    IF NOT NEW.enabled THEN
        DELETE FROM webhook_calls c WHERE c.id IN (SELECT n.id FROM webhook_calls n WHERE n.webhook_id = NEW.id FOR UPDATE SKIP LOCKED);
        UPDATE webhook_deliveries d SET state = 'dropped', next_at = NULL, ended_at = moment, last_error = coalesce(d.last_error, 'the webhook was switched off') WHERE d.webhook_id = NEW.id AND d.next_at IS NOT NULL;
        DELETE FROM webhook_states s WHERE s.webhook_id = NEW.id;
    ELSE
        UPDATE webhook_deliveries d SET state = 'dropped', next_at = NULL, ended_at = moment, last_error = coalesce(d.last_error, 'the webhook is not told of this any more')
        WHERE d.webhook_id = NEW.id AND d.next_at IS NOT NULL AND d.type <> 'webhook.test' AND (NOT substr(d.type, length('connector.') + 1) = ANY (NEW.events) OR d.connector_id <> NEW.connector_id);
        IF NEW.url <> OLD.url THEN   -- it was told already how its connectors stand, and would hear of it again with the next try of the old one
            UPDATE webhook_deliveries d SET next_at = moment WHERE d.webhook_id = NEW.id AND d.next_at > moment;
        END IF;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- As before. What differs is written once, whoever holds a webhook; and no next look is further away than the longest pause. However many webhooks there are, a page calls up to 20 that see the place of a connector that stands otherwise than
-- before, up to 20 about that connector, and up to 3,000 others. Calls of many are worked off also while it is not time for a look: true then too.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.note_faults(every interval, page integer) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s'
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    l      webhook_looks;
    found_ids integer[];
    last_type text;
    last_until timestamptz;
    differ   integer[];
    many CONSTANT integer := 1000;   -- how many webhooks one page calls at once of those places that many see, and how far it takes the walk on
    is_due     boolean;
    is_round   boolean := EXISTS (SELECT FROM webhook_rounds);
    is_asked   boolean := false;   -- whether events may have to tell of found_ids
    is_wanted  boolean := EXISTS (SELECT FROM webhook_turns t WHERE t.look_at IS NOT NULL);   -- else only events tell of anything
BEGIN
    SELECT * INTO l FROM webhook_looks WHERE one AND (is_round OR next_at <= moment OR next_at > moment + every * 4) FOR UPDATE SKIP LOCKED;   -- or the clock has stepped back: no look ends with a later one
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    is_due := l.next_at <= moment OR l.next_at > moment + every * 4;
    IF is_round THEN
        l := api.call_round(l, many);
    END IF;
    IF NOT is_due THEN
        UPDATE webhook_looks SET round = l.round, round_after = l.round_after;
        RETURN EXISTS (SELECT FROM webhook_rounds);
    END IF;
    UPDATE webhook_turns t SET look_at = moment   -- the clock has stepped back
    WHERE t.webhook_id IN (SELECT n.webhook_id FROM webhook_turns n WHERE n.look_at > moment + interval '20 minutes' ORDER BY n.look_at DESC LIMIT many FOR NO KEY UPDATE SKIP LOCKED);
    PERFORM api.call_webhooks(ARRAY(SELECT c.webhook_id FROM webhook_calls c ORDER BY c.id LIMIT page));
    IF l.phase = 0 AND NOT is_wanted THEN
        l.phase := 1;
        l.after_type := coalesce((SELECT min(t.name) FROM connector_types t), '');
        l.after_until := '-infinity';
        l.after_id := 0;
    END IF;
    IF l.phase = 0 THEN
        SELECT array_agg(f.id ORDER BY f.type, f.id), max(f.type) INTO found_ids, last_type
        FROM (SELECT c.id, c.type FROM connectors c WHERE c.at_fault AND (c.type, c.id) > (l.after_type, l.after_id) ORDER BY c.type, c.id LIMIT page) f;
        l.after_type := coalesce(last_type, '');
        l.after_id := found_ids[cardinality(found_ids)];
        IF coalesce(cardinality(found_ids), 0) < page THEN
            l.phase := 1;
            l.after_type := coalesce((SELECT min(t.name) FROM connector_types t), '');
            l.after_until := '-infinity';
            l.after_id := 0;
        END IF;
    ELSIF l.phase = 1 THEN
        is_asked := true;
        SELECT array_agg(f.connector_id ORDER BY f.fresh_until, f.connector_id), max(f.fresh_until) INTO found_ids, last_until
        FROM (SELECT n.connector_id, n.fresh_until FROM connector_freshness n WHERE n.type = l.after_type AND n.fresh_until >= l.after_until AND n.fresh_until < moment
            AND (n.fresh_until, n.connector_id) > (l.after_until, l.after_id) ORDER BY n.fresh_until, n.connector_id LIMIT page) f;
        l.after_until := coalesce(last_until, '-infinity');
        l.after_id := coalesce(found_ids[cardinality(found_ids)], 0);
        IF coalesce(cardinality(found_ids), 0) < page THEN
            l.after_type := (SELECT min(t.name) FROM connector_types t WHERE t.name > l.after_type);
            l.after_until := '-infinity';
            l.after_id := 0;
            IF l.after_type IS NULL THEN
                l.phase := CASE WHEN is_wanted THEN 2 ELSE 3 END;
                l.after_type := '';
            END IF;
        END IF;
    ELSIF l.phase = 2 THEN
        found_ids := ARRAY(SELECT f.connector_id FROM webhook_faults f WHERE f.connector_id > l.after_id ORDER BY f.connector_id LIMIT page);
        l.after_id := found_ids[cardinality(found_ids)];
        IF coalesce(cardinality(found_ids), 0) < page THEN
            l.phase := 3;
            l.after_id := 0;
        END IF;
    ELSE
        is_asked := true;
        found_ids := ARRAY(SELECT s.connector_id FROM stale_connectors s WHERE s.connector_id > l.after_id ORDER BY s.connector_id LIMIT page);
        l.after_id := found_ids[cardinality(found_ids)];
        IF coalesce(cardinality(found_ids), 0) < page THEN
            l.phase := 0;
            l.after_id := 0;
            l.next_at := moment + every * CASE WHEN is_wanted THEN 1 ELSE 4 END;
        END IF;
    END IF;
    IF is_wanted THEN
        -- What is known is not written, and nobody waits for a transaction that deletes a connector: its rows are left to it.
        differ := ARRAY(SELECT k.connector_id FROM webhook_faults k LEFT JOIN connectors c ON c.id = k.connector_id CROSS JOIN LATERAL api.webhook_fault(c, moment) f
            WHERE k.connector_id = ANY (found_ids) AND (NOT k.is_told OR (k.place, k.found) IS DISTINCT FROM (f.place, f.found)) ORDER BY k.connector_id FOR UPDATE OF k SKIP LOCKED);
        UPDATE webhook_faults k SET place = f.place, found = f.found, is_told = true FROM connectors c CROSS JOIN LATERAL api.webhook_fault(c, moment) f
        WHERE k.connector_id = ANY (differ) AND c.id = k.connector_id;
        WITH made AS (INSERT INTO webhook_faults (connector_id, place, found, is_told)
            SELECT c.id, f.place, f.found, true FROM unnest(found_ids) i(id) JOIN connectors c ON c.id = i.id CROSS JOIN LATERAL api.webhook_fault(c, moment) f
            WHERE f.found IS NOT NULL AND NOT EXISTS (SELECT FROM webhook_faults k WHERE k.connector_id = c.id) ORDER BY c.id
            ON CONFLICT (connector_id) DO NOTHING RETURNING connector_id)
        SELECT differ || coalesce(array_agg(m.connector_id), '{}') INTO differ FROM made m;
        IF differ <> '{}' THEN
            PERFORM api.call_webhooks_of(differ, ARRAY(SELECT DISTINCT k.place FROM webhook_faults k WHERE k.connector_id = ANY (differ)), many, l);
            DELETE FROM webhook_faults k WHERE k.connector_id = ANY (differ) AND (k.found IS NULL OR NOT EXISTS (SELECT FROM connectors c WHERE c.id = k.connector_id));
        END IF;
    END IF;
    IF is_asked THEN   -- last: it holds connectors, and waits for nobody from here on
        PERFORM api.tell_freshness(found_ids);
    END IF;
    UPDATE webhook_looks SET phase = l.phase, after_type = l.after_type, after_until = l.after_until, after_id = coalesce(l.after_id, 0), next_at = l.next_at, round = l.round, round_after = l.round_after;
    RETURN l.next_at <= moment OR EXISTS (SELECT FROM webhook_rounds);
END $$;
-- +goose StatementEnd

-- Writes down that the command line has dead letters fetched again, or removes them, in the words of the API: one entry for each of the first 100, and one for all others. Each names a document, or ''.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION moves.note_letters(action text, letters bigint[], subjects text[], source_ids text[], connector integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    singly CONSTANT integer := 100;
    of connectors;
BEGIN
    IF action IS NULL OR action NOT IN ('deadletters.replay', 'deadletters.drop') OR cardinality(letters) > 1000 THEN
        RAISE EXCEPTION 'note_letters: action is %, must be deadletters.replay or deadletters.drop, of at most 1000 letters', coalesce(action, 'null') USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT c.* INTO of FROM connectors c WHERE c.id = connector;
    -- Cut only once secrets are hidden: a part of one is not recognised.
    PERFORM moves.note_change(action, l.id::text, jsonb_build_object('subject', left(f.noted ->> 'subject', 512),
        'source_ids', (SELECT coalesce(jsonb_agg(left(s.id, 512)), '[]') FROM jsonb_array_elements_text(f.noted -> 'source_ids') s(id))), NULL, of)
    FROM unnest(letters[:singly], subjects[:singly], source_ids[:singly]) WITH ORDINALITY l(id, subject, source_id, place)
        CROSS JOIN LATERAL (SELECT moves.fingerprinted(jsonb_build_object('subject', left(l.subject, 2048), 'source_ids', array_remove(ARRAY[left(l.source_id, 2048)], ''))) AS noted) f
    ORDER BY l.place;
    IF cardinality(letters) > singly THEN
        PERFORM moves.note_change(action, letters[singly + 1]::text, jsonb_build_object('letters', cardinality(letters) - singly, 'ids', letters[singly + 1:]), NULL, of);
    END IF;
END $$;
-- +goose StatementEnd

-- How many connectors of each type have which status: for superadmins, in the place of the view connector_counts, which releases before this one read. Of connectors it reads 2,000 pages at most, or a sample of 1,000 pages and some 12,000 rows by index,
-- whatever the statistics say, and index entries of rows that are dead and not vacuumed yet. A table of up to 2,000 pages or 2,000 rows is counted exactly. Of a larger one those in flight and at fault are counted where they are few, and the others are an estimate. Each type has its row of ACTIVE then: of those that
-- are not due no index says whether a type has any, and they may all be missing from the sample.
-- +goose StatementBegin
CREATE FUNCTION api.count_connectors() RETURNS TABLE (type text, status text, connectors bigint, is_estimate boolean)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    pages CONSTANT bigint := pg_relation_size('connectors') / current_setting('block_size')::bigint;
    share CONSTANT double precision := 100 * least(1, 1000.0 / greatest(pages, 1));   -- in per cent
    most  bigint;   -- of one type, of each kind
BEGIN
    IF NOT api.is_superadmin() THEN
        RETURN;
    END IF;
    IF pages <= 2000 THEN   -- a sample of all pages reads each once, as a sequential scan would
        RETURN QUERY SELECT c.type, c.status, count(*), false FROM connectors c TABLESAMPLE SYSTEM (100) GROUP BY c.type, c.status;
        RETURN;
    END IF;
    IF (SELECT count(*) FROM (SELECT FROM connectors c ORDER BY c.id LIMIT 2001) f) <= 2000 THEN
        RETURN QUERY SELECT f.type, f.status, count(*), false FROM (SELECT c.type, c.status FROM connectors c ORDER BY c.id LIMIT 2000) f GROUP BY f.type, f.status;
        RETURN;
    END IF;
    most := (SELECT greatest(10, 5000 / count(*)) FROM connector_types);
    RETURN QUERY
    WITH sampled AS MATERIALIZED (SELECT c.type, c.status, round(count(*) * 100 / share)::bigint AS about, round(count(*) FILTER (WHERE c.due_at IS NULL) * 100 / share)::bigint AS about_idle
            FROM connectors c TABLESAMPLE SYSTEM (share) GROUP BY c.type, c.status),
        flying AS MATERIALIZED (SELECT r.type, CASE WHEN r.picked_up_at IS NULL THEN 'PENDING' ELSE 'SYNCING' END AS status FROM open_runs r LIMIT 100001),
        -- In the order of connectors_at_fault, which no other index has: statistics of an outage choose no other.
        faulty AS MATERIALIZED (SELECT t.name AS type, f.status FROM connector_types t
            CROSS JOIN LATERAL (SELECT c.status FROM connectors c WHERE c.at_fault AND c.type BETWEEN t.name AND t.name ORDER BY c.type, c.id LIMIT most + 1) f),
        counted AS (
            SELECT r.type, r.status, count(*) AS seen, (SELECT count(*) FROM flying) <= 100000 AS is_all FROM flying r GROUP BY r.type, r.status
            UNION ALL
            SELECT f.type, f.status, count(*), (SELECT count(*) FROM faulty n WHERE n.type = f.type) <= most FROM faulty f GROUP BY f.type, f.status),
        due AS (SELECT t.name AS type, 'ACTIVE' AS status, d.seen, d.is_all FROM connector_types t
            CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE n.status = 'ACTIVE') AS seen, count(*) <= most AS is_all
                FROM (SELECT c.status FROM connectors c WHERE c.type = t.name AND c.due_at IS NOT NULL ORDER BY c.due_at LIMIT most + 1) n) d)
    SELECT type, status, CASE WHEN n.is_all THEN n.seen ELSE greatest(s.about, n.seen) END, n.is_all IS NOT TRUE
    FROM (SELECT * FROM sampled WHERE status <> 'ACTIVE') s FULL JOIN counted n USING (type, status)
    UNION ALL
    SELECT d.type, d.status, CASE WHEN d.is_all THEN d.seen + coalesce(s.about_idle, 0) ELSE greatest(s.about, d.seen) END, true
    FROM due d LEFT JOIN sampled s ON s.type = d.type AND s.status = d.status;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION api.count_connectors() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.count_connectors() TO echomind_api;

-- +goose Down
DROP FUNCTION api.count_connectors();
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION moves.note_letters(action text, letters bigint[], subjects text[], source_ids text[], connector integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    of connectors;
BEGIN
    IF action IS NULL OR action NOT IN ('deadletters.replay', 'deadletters.drop') OR cardinality(letters) > 1000 THEN
        RAISE EXCEPTION 'note_letters: action is %, must be deadletters.replay or deadletters.drop, of at most 1000 letters', coalesce(action, 'null') USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT c.* INTO of FROM connectors c WHERE c.id = connector;
    PERFORM moves.note_change(action, l.id::text, moves.fingerprinted(jsonb_build_object('subject', l.subject, 'source_ids', array_remove(ARRAY[l.source_id], ''))), NULL, of)
    FROM unnest(letters, subjects, source_ids) WITH ORDINALITY l(id, subject, source_id, place) ORDER BY l.place;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.note_faults(every interval, page integer) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s'
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    l      webhook_looks;
    found_ids integer[];
    last_type text;
    last_until timestamptz;
    differ   integer[];
    is_asked   boolean := false;   -- whether events may have to tell of found_ids
    is_wanted  boolean := EXISTS (SELECT FROM webhook_turns t WHERE t.look_at IS NOT NULL);   -- else only events tell of anything
BEGIN
    SELECT * INTO l FROM webhook_looks WHERE one AND (next_at <= moment OR next_at > moment + interval '1 hour') FOR UPDATE SKIP LOCKED;   -- or the clock has stepped back
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF l.phase = 0 AND l.after_id = 0 THEN   -- the clock has stepped back
        UPDATE webhook_turns t SET look_at = moment
        WHERE t.webhook_id IN (SELECT n.webhook_id FROM webhook_turns n WHERE n.look_at > moment + interval '1 hour' FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
    IF l.phase = 0 AND NOT is_wanted THEN
        l.phase := 1;
        l.after_type := coalesce((SELECT min(t.name) FROM connector_types t), '');
        l.after_until := '-infinity';
        l.after_id := 0;
    END IF;
    IF l.phase = 0 THEN
        SELECT array_agg(f.id ORDER BY f.type, f.id), max(f.type) INTO found_ids, last_type
        FROM (SELECT c.id, c.type FROM connectors c WHERE c.at_fault AND (c.type, c.id) > (l.after_type, l.after_id) ORDER BY c.type, c.id LIMIT page) f;
        l.after_type := coalesce(last_type, '');
        l.after_id := found_ids[cardinality(found_ids)];
        IF coalesce(cardinality(found_ids), 0) < page THEN
            l.phase := 1;
            l.after_type := coalesce((SELECT min(t.name) FROM connector_types t), '');
            l.after_until := '-infinity';
            l.after_id := 0;
        END IF;
    ELSIF l.phase = 1 THEN
        is_asked := true;
        SELECT array_agg(f.connector_id ORDER BY f.fresh_until, f.connector_id), max(f.fresh_until) INTO found_ids, last_until
        FROM (SELECT n.connector_id, n.fresh_until FROM connector_freshness n WHERE n.type = l.after_type AND n.fresh_until >= l.after_until AND n.fresh_until < moment
            AND (n.fresh_until, n.connector_id) > (l.after_until, l.after_id) ORDER BY n.fresh_until, n.connector_id LIMIT page) f;
        l.after_until := coalesce(last_until, '-infinity');
        l.after_id := coalesce(found_ids[cardinality(found_ids)], 0);
        IF coalesce(cardinality(found_ids), 0) < page THEN
            l.after_type := (SELECT min(t.name) FROM connector_types t WHERE t.name > l.after_type);
            l.after_until := '-infinity';
            l.after_id := 0;
            IF l.after_type IS NULL THEN
                l.phase := CASE WHEN is_wanted THEN 2 ELSE 3 END;
                l.after_type := '';
            END IF;
        END IF;
    ELSIF l.phase = 2 THEN
        found_ids := ARRAY(SELECT f.connector_id FROM webhook_faults f WHERE f.connector_id > l.after_id ORDER BY f.connector_id LIMIT page);
        l.after_id := found_ids[cardinality(found_ids)];
        IF coalesce(cardinality(found_ids), 0) < page THEN
            l.phase := 3;
            l.after_id := 0;
        END IF;
    ELSE
        is_asked := true;
        found_ids := ARRAY(SELECT s.connector_id FROM stale_connectors s WHERE s.connector_id > l.after_id ORDER BY s.connector_id LIMIT page);
        l.after_id := found_ids[cardinality(found_ids)];
        IF coalesce(cardinality(found_ids), 0) < page THEN
            l.phase := 0;
            l.after_id := 0;
            l.next_at := moment + every * CASE WHEN is_wanted THEN 1 ELSE 4 END;
        END IF;
    END IF;
    IF is_wanted THEN
        -- What is known is not written, and nobody waits for a transaction that deletes a connector: its rows are left to it.
        differ := ARRAY(SELECT k.connector_id FROM webhook_faults k LEFT JOIN connectors c ON c.id = k.connector_id CROSS JOIN LATERAL api.webhook_fault(c, moment) f
            WHERE k.connector_id = ANY (found_ids) AND (NOT k.is_told OR (k.place, k.found) IS DISTINCT FROM (f.place, f.found)) ORDER BY k.connector_id FOR UPDATE OF k SKIP LOCKED);
        UPDATE webhook_faults k SET place = f.place, found = f.found, is_told = false FROM connectors c CROSS JOIN LATERAL api.webhook_fault(c, moment) f
        WHERE k.connector_id = ANY (differ) AND c.id = k.connector_id;
        WITH made AS (INSERT INTO webhook_faults (connector_id, place, found)
            SELECT c.id, f.place, f.found FROM unnest(found_ids) i(id) JOIN connectors c ON c.id = i.id CROSS JOIN LATERAL api.webhook_fault(c, moment) f
            WHERE f.found IS NOT NULL AND NOT EXISTS (SELECT FROM webhook_faults k WHERE k.connector_id = c.id) ORDER BY c.id
            ON CONFLICT (connector_id) DO NOTHING RETURNING connector_id)
        SELECT differ || coalesce(array_agg(m.connector_id), '{}') INTO differ FROM made m;
        -- Those that are well are forgotten once all are called that may have to say so.
        IF differ <> '{}' AND api.call_webhooks(ARRAY(SELECT api.webhooks_of(differ, ARRAY(SELECT DISTINCT k.place FROM webhook_faults k WHERE k.connector_id = ANY (differ))))) THEN
            DELETE FROM webhook_faults k WHERE k.connector_id = ANY (differ) AND (k.found IS NULL OR NOT EXISTS (SELECT FROM connectors c WHERE c.id = k.connector_id));
            UPDATE webhook_faults k SET is_told = true WHERE k.connector_id = ANY (differ);
        END IF;
    END IF;
    IF is_asked THEN   -- last: it holds connectors, and waits for nobody from here on
        PERFORM api.tell_freshness(found_ids);
    END IF;
    UPDATE webhook_looks SET phase = l.phase, after_type = l.after_type, after_until = l.after_until, after_id = coalesce(l.after_id, 0), next_at = l.next_at;
    RETURN l.next_at <= moment;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION webhooks_turn() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO webhook_turns (webhook_id, look_at) VALUES (NEW.id, CASE WHEN NEW.enabled THEN moment END);
        RETURN NULL;
    END IF;
    UPDATE webhook_turns t SET look_at = CASE WHEN NEW.enabled THEN moment END, after_state = 0, after_fault = 0, rest_until = '-infinity',
        failed_turns = 0, failing_since = NULL, is_changed = t.sending_until > moment,
        send_at = CASE WHEN NEW.enabled AND t.send_at IS NOT NULL THEN greatest(moment, t.sending_until) END
    WHERE t.webhook_id = NEW.id;
    IF NOT NEW.enabled THEN
        UPDATE webhook_deliveries d SET state = 'dropped', next_at = NULL, ended_at = moment, last_error = coalesce(d.last_error, 'the webhook was switched off') WHERE d.webhook_id = NEW.id AND d.next_at IS NOT NULL;
        DELETE FROM webhook_states s WHERE s.webhook_id = NEW.id;
    ELSE
        UPDATE webhook_deliveries d SET state = 'dropped', next_at = NULL, ended_at = moment, last_error = coalesce(d.last_error, 'the webhook is not told of this any more')
        WHERE d.webhook_id = NEW.id AND d.next_at IS NOT NULL AND d.type <> 'webhook.test' AND (NOT substr(d.type, length('connector.') + 1) = ANY (NEW.events) OR d.connector_id <> NEW.connector_id);
        IF NEW.url <> OLD.url THEN   -- it was told already how its connectors stand, and would hear of it again with the next try of the old one
            UPDATE webhook_deliveries d SET next_at = moment WHERE d.webhook_id = NEW.id AND d.next_at > moment;
        END IF;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
DROP FUNCTION api.call_round(webhook_looks, integer);
DROP FUNCTION api.call_webhooks_of(integer[], text[], integer, webhook_looks);
DROP FUNCTION api.webhooks_in(text, integer);
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.call_webhooks(webhooks integer[]) RETURNS boolean
    LANGUAGE sql AS $$
    WITH held AS (SELECT n.webhook_id FROM webhook_turns n WHERE n.webhook_id = ANY (webhooks) AND n.look_at IS NOT NULL ORDER BY n.webhook_id FOR NO KEY UPDATE SKIP LOCKED),
        called AS (UPDATE webhook_turns n SET look_at = least(n.look_at, clock_timestamp() - interval '1 day'), is_called = true FROM held h WHERE n.webhook_id = h.webhook_id RETURNING n.webhook_id)
    SELECT (SELECT count(*) FROM called) = (SELECT count(*) FROM webhook_turns n WHERE n.webhook_id = ANY (webhooks) AND n.look_at IS NOT NULL)
$$;
-- +goose StatementEnd
DROP FUNCTION api.call_webhooks(integer[], interval);
DROP INDEX webhooks_of_all;
ALTER TABLE webhook_looks DROP COLUMN round, DROP COLUMN round_after;
DROP TABLE webhook_rounds;
DROP TABLE webhook_calls;
