-- +goose Up
-- expand
-- Events of connectors that become stale, and fresh again. What finds late connectors for webhooks finds them for events too: api.note_faults. And the audit of what the command line does with
-- dead letters.

-- What a freshness event says beside where its connector stands, which did not move: a publisher that does not know these columns yet says its status once more.
ALTER TABLE status_events ADD COLUMN freshness text CONSTRAINT status_events_freshness_known CHECK (freshness IN ('stale', 'recovered')), ADD COLUMN fresh_until timestamptz;

-- The connectors of which events have said that they are stale, and not yet that they are fresh again.
CREATE TABLE stale_connectors (
    connector_id integer PRIMARY KEY,
    since        timestamptz NOT NULL   -- until when it was fresh
);

ALTER TABLE webhook_looks DROP CONSTRAINT webhook_looks_phase_known;
-- 3: those of which events have said that they are stale.
ALTER TABLE webhook_looks ADD CONSTRAINT webhook_looks_phase_known CHECK (phase IN (0, 1, 2, 3));

-- Writes the events of those of a page that have become stale, or fresh again, since events told of them. It holds each of these connectors, so that its events have the order of its moves,
-- and leaves those that somebody else holds to the next look. A connector that is switched off stays what it was said to be. While 20,000 events wait it tells nothing: a million that
-- become stale at once do not drive out other events. Only note_faults calls it, of which there is one at a time.
-- +goose StatementBegin
CREATE FUNCTION api.tell_freshness(ids integer[]) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    noted  bigint;
BEGIN
    IF (SELECT w.events FROM moves.events_waiting() w) >= 20000 THEN
        RETURN;
    END IF;
    WITH held AS MATERIALIZED (
        SELECT c.id, c.type, c.status, c.run_id, c.due_reason, u.fresh_until, coalesce(u.fresh_until < moment, false) AS late
        FROM unnest(ids) i(id) JOIN connectors c ON c.id = i.id CROSS JOIN LATERAL (SELECT coalesce(c.last_sync_at, c.created_at) + make_interval(mins => c.fresh_within_minutes) AS fresh_until) u
        WHERE c.status <> 'DISABLED' AND coalesce(u.fresh_until < moment, false) <> EXISTS (SELECT FROM stale_connectors s WHERE s.connector_id = c.id)
        ORDER BY c.id FOR NO KEY UPDATE OF c SKIP LOCKED),
    said AS (INSERT INTO stale_connectors (connector_id, since) SELECT h.id, h.fresh_until FROM held h WHERE h.late),
    unsaid AS (DELETE FROM stale_connectors s USING held h WHERE s.connector_id = h.id AND NOT h.late)
    INSERT INTO status_events (connector_id, type, was, status, run_id, due_reason, freshness, fresh_until)
    SELECT h.id, h.type, h.status, h.status, h.run_id, h.due_reason, CASE WHEN h.late THEN 'stale' ELSE 'recovered' END, h.fresh_until FROM held h;
    GET DIAGNOSTICS noted = ROW_COUNT;
    IF noted > 0 AND currval('event_numbers') & 1023 < noted THEN
        PERFORM moves.bound_events();
    END IF;
END $$;
-- +goose StatementEnd

-- As before; it finds late connectors for events as well, also where there is no webhook.
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

-- The oldest events behind a number and up to another, as before. Of one of freshness reason is what it says, and slot until when its connector is fresh, or was.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION moves.unpublished_events(page integer, after bigint DEFAULT 0, until bigint DEFAULT 9223372036854775807) RETURNS TABLE (no bigint, at timestamptz, connector_id integer, type text, was text, status text, due_reason text,
        run_id uuid, verdict text, trigger text, reason text, slot timestamptz, slot_last timestamptz, slots integer, due_at timestamptz, started_at timestamptz,
        documents_processed bigint, documents_failed bigint, documents_deleted bigint, documents_unchanged bigint, chunks_stored bigint, is_verdict boolean)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    IF page IS NULL OR page NOT BETWEEN 1 AND 10000 THEN
        RAISE EXCEPTION 'unpublished_events: page is %, must be from 1 to 10000', coalesce(page::text, 'null') USING ERRCODE = 'invalid_parameter_value';
    END IF;
    after := greatest(after, (SELECT p.empty_below - 1 FROM event_publisher p WHERE p.one));
    RETURN QUERY SELECT * FROM (
        (SELECT s.no, s.at, s.connector_id, s.type, s.was, s.status, s.due_reason, s.run_id, NULL::text, NULL::text, s.freshness, s.fresh_until, NULL::timestamptz,
            NULL::integer, NULL::timestamptz, NULL::timestamptz, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, false
        FROM status_events s WHERE s.no > after AND s.no <= until ORDER BY s.no LIMIT page)
        UNION ALL
        SELECT v.no, v.completed_at, r.connector_id, r.type, NULL, NULL, NULL, v.run_id, r.status, r.trigger, r.reason, r.slot, r.slot_last,
            coalesce(r.missed_count, CASE WHEN r.slot IS NOT NULL THEN 1 END), r.due_at, r.started_at,
            r.documents_processed, r.documents_failed, r.documents_deleted, r.documents_unchanged, r.chunks_stored, true
        FROM (SELECT e.no, e.run_id, e.completed_at FROM verdict_events e WHERE e.no > after AND e.no <= until ORDER BY e.no LIMIT page) v
        LEFT JOIN LATERAL (SELECT l.* FROM runs l WHERE l.id = v.run_id AND l.completed_at = v.completed_at LIMIT 1) r ON true) e
    ORDER BY 1 LIMIT page;
END $$;
-- +goose StatementEnd

-- Writes down that the command line has dead letters fetched again, or removes them, in the words of the API: one entry for each. Each names a document, or ''.
-- +goose StatementBegin
CREATE FUNCTION moves.note_letters(action text, letters bigint[], subjects text[], source_ids text[], connector integer) RETURNS void
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

-- One that is deleted is nobody's staleness: another may be added with its number.
-- +goose StatementBegin
CREATE FUNCTION connectors_forget_staleness() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    DELETE FROM stale_connectors s WHERE TG_OP = 'TRUNCATE' OR s.connector_id = OLD.id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER connectors_staleness_gone AFTER DELETE ON connectors FOR EACH ROW EXECUTE FUNCTION connectors_forget_staleness();
CREATE TRIGGER connectors_staleness_none AFTER TRUNCATE ON connectors FOR EACH STATEMENT EXECUTE FUNCTION connectors_forget_staleness();

REVOKE ALL ON FUNCTION connectors_forget_staleness(), api.tell_freshness(integer[]), moves.note_letters(text, bigint[], text[], text[], integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION moves.note_letters(text, bigint[], text[], text[], integer) TO echomind_console;

-- +goose Down
DROP FUNCTION moves.note_letters(text, bigint[], text[], text[], integer);
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION moves.unpublished_events(page integer, after bigint DEFAULT 0, until bigint DEFAULT 9223372036854775807) RETURNS TABLE (no bigint, at timestamptz, connector_id integer, type text, was text, status text, due_reason text,
        run_id uuid, verdict text, trigger text, reason text, slot timestamptz, slot_last timestamptz, slots integer, due_at timestamptz, started_at timestamptz,
        documents_processed bigint, documents_failed bigint, documents_deleted bigint, documents_unchanged bigint, chunks_stored bigint, is_verdict boolean)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    IF page IS NULL OR page NOT BETWEEN 1 AND 10000 THEN
        RAISE EXCEPTION 'unpublished_events: page is %, must be from 1 to 10000', coalesce(page::text, 'null') USING ERRCODE = 'invalid_parameter_value';
    END IF;
    after := greatest(after, (SELECT p.empty_below - 1 FROM event_publisher p WHERE p.one));
    RETURN QUERY SELECT * FROM (
        (SELECT s.no, s.at, s.connector_id, s.type, s.was, s.status, s.due_reason, s.run_id, NULL::text, NULL::text, NULL::text, NULL::timestamptz, NULL::timestamptz,
            NULL::integer, NULL::timestamptz, NULL::timestamptz, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, false
        FROM status_events s WHERE s.no > after AND s.no <= until ORDER BY s.no LIMIT page)
        UNION ALL
        SELECT v.no, v.completed_at, r.connector_id, r.type, NULL, NULL, NULL, v.run_id, r.status, r.trigger, r.reason, r.slot, r.slot_last,
            coalesce(r.missed_count, CASE WHEN r.slot IS NOT NULL THEN 1 END), r.due_at, r.started_at,
            r.documents_processed, r.documents_failed, r.documents_deleted, r.documents_unchanged, r.chunks_stored, true
        FROM (SELECT e.no, e.run_id, e.completed_at FROM verdict_events e WHERE e.no > after AND e.no <= until ORDER BY e.no LIMIT page) v
        LEFT JOIN LATERAL (SELECT l.* FROM runs l WHERE l.id = v.run_id AND l.completed_at = v.completed_at LIMIT 1) r ON true) e
    ORDER BY 1 LIMIT page;
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
BEGIN
    SELECT * INTO l FROM webhook_looks WHERE one AND (next_at <= moment OR next_at > moment + interval '1 hour') FOR UPDATE SKIP LOCKED;   -- or the clock has stepped back
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF l.phase = 0 AND l.after_id = 0 AND NOT EXISTS (SELECT FROM webhook_turns t WHERE t.look_at IS NOT NULL) THEN   -- nobody is to be told of anything
        UPDATE webhook_looks SET next_at = moment + every;
        RETURN false;
    END IF;
    IF l.phase = 0 AND l.after_id = 0 THEN   -- the clock has stepped back
        UPDATE webhook_turns t SET look_at = moment
        WHERE t.webhook_id IN (SELECT n.webhook_id FROM webhook_turns n WHERE n.look_at > moment + interval '1 hour' FOR NO KEY UPDATE SKIP LOCKED);
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
                l.phase := 2;
                l.after_type := '';
            END IF;
        END IF;
    ELSE
        found_ids := ARRAY(SELECT f.connector_id FROM webhook_faults f WHERE f.connector_id > l.after_id ORDER BY f.connector_id LIMIT page);
        l.after_id := found_ids[cardinality(found_ids)];
        IF coalesce(cardinality(found_ids), 0) < page THEN
            l.phase := 0;
            l.after_id := 0;
            l.next_at := moment + every;
        END IF;
    END IF;
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
    UPDATE webhook_looks SET phase = l.phase, after_type = l.after_type, after_until = l.after_until, after_id = coalesce(l.after_id, 0), next_at = l.next_at;
    RETURN l.next_at <= moment;
END $$;
-- +goose StatementEnd
DROP FUNCTION api.tell_freshness(integer[]);
UPDATE webhook_looks SET phase = 0, after_id = 0 WHERE phase = 3;
ALTER TABLE webhook_looks DROP CONSTRAINT webhook_looks_phase_known;
ALTER TABLE webhook_looks ADD CONSTRAINT webhook_looks_phase_known CHECK (phase IN (0, 1, 2));
DROP TRIGGER connectors_staleness_none ON connectors;
DROP TRIGGER connectors_staleness_gone ON connectors;
DROP FUNCTION connectors_forget_staleness();
DROP TABLE stale_connectors;
-- What nobody has published yet would be taken for a move.
DELETE FROM status_events WHERE freshness IS NOT NULL;
ALTER TABLE status_events DROP COLUMN freshness, DROP COLUMN fresh_until;
