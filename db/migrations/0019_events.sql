-- +goose Up
-- Events for other services: what moves connectors and what ends runs writes a row in its own transaction, and semantic publishes the rows to the stream EVENTS and
-- removes those that the broker has acknowledged. ADR 0040 says why so. Each kind has a ring of sixteen leaves, by the event's number: a leaf that everything
-- has left is emptied as a whole, so that no old snapshot keeps the dead rows of a busy hour. moves.bound_events keeps the rest bounded, whoever publishes or does not.

-- Both kinds take their numbers from it: in this order a connector's events are published. Whoever writes one holds its connector, so that a later number is a later move;
-- but for slots that passed before their connector was changed or deleted, whose verdict comes when they are counted.
-- Who draws one has a transaction's id before: note_empty_events relies on it.
CREATE SEQUENCE event_numbers;

CREATE TABLE status_events (
    no           bigint NOT NULL DEFAULT CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval('event_numbers') END,
    connector_id integer NOT NULL,
    type         text NOT NULL,
    -- Null: it was added.
    was          text,
    -- Null: it was deleted.
    status       text,
    -- The run that it is in, or was in before.
    run_id       uuid,
    -- Why it is due next.
    due_reason   text,
    at           timestamptz NOT NULL DEFAULT clock_timestamp()
) PARTITION BY LIST (((no >> 16) & 15));

-- What is said of a verdict stands in the ledger, which nobody edits.
CREATE TABLE verdict_events (
    no           bigint NOT NULL DEFAULT CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval('event_numbers') END,
    run_id       uuid NOT NULL,
    completed_at timestamptz NOT NULL
) PARTITION BY LIST (((no >> 16) & 15));

-- unpublished_events, bound_events: the oldest first.
CREATE INDEX status_events_no ON status_events (no);
CREATE INDEX verdict_events_no ON verdict_events (no);
-- +goose StatementBegin
DO $$
BEGIN
    FOR leaf IN 0..15 LOOP
        EXECUTE format('CREATE TABLE %I PARTITION OF status_events FOR VALUES IN (%s)', 'status_events_' || leaf, leaf);
        EXECUTE format('CREATE TABLE %I PARTITION OF verdict_events FOR VALUES IN (%s)', 'verdict_events_' || leaf, leaf);
    END LOOP;
END $$;
-- +goose StatementEnd

-- How many numbers back an event may lie before it is dropped: those of status first. All leaves together have 1,048,576.
CREATE TABLE event_bounds (
    one           boolean PRIMARY KEY DEFAULT true CONSTRAINT event_bounds_one CHECK (one),
    most_status   bigint NOT NULL DEFAULT 250000,
    most_verdicts bigint NOT NULL DEFAULT 1000000,
    CONSTRAINT event_bounds_status_first CHECK (0 <= most_status AND most_status <= most_verdicts AND most_verdicts <= 1000000)
);
INSERT INTO event_bounds DEFAULT VALUES;

-- What was dropped: a row for each time, which dropped_events adds up.
CREATE TABLE event_drops (
    status   bigint NOT NULL,
    verdicts bigint NOT NULL
);

-- Whose turn it is to publish. It saves work: two that publish at once break no promise.
CREATE TABLE event_publisher (
    one         boolean PRIMARY KEY DEFAULT true CONSTRAINT event_publisher_one CHECK (one),
    publisher   uuid,
    until       timestamptz NOT NULL DEFAULT '-infinity',
    -- No event with a smaller number is there or will ever come.
    empty_below bigint NOT NULL DEFAULT 0,
    -- The newest number at a moment, and a transaction that had no id before it: who drew the number or one before it has a smaller id.
    noted_no    bigint,
    noted_xid   xid8,
    noted_at    timestamptz,
    CONSTRAINT event_publisher_noted CHECK (empty_below >= 0 AND num_nulls(noted_no, noted_xid, noted_at) IN (0, 3))
) WITH (fillfactor = 60);
INSERT INTO event_publisher DEFAULT VALUES;

-- Removes events, leaf by leaf: of others no index is read. Those that somebody else is removing are left to that one.
-- +goose StatementBegin
CREATE FUNCTION moves.remove_events(nos bigint[], OUT status bigint, OUT verdicts bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '200ms' SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    leaf bigint;
    mine bigint[];
    n    bigint;
BEGIN
    status := 0;
    verdicts := 0;
    FOR leaf, mine IN SELECT (k.no >> 16) & 15, array_agg(k.no ORDER BY k.no) FROM unnest(nos) k(no) GROUP BY 1 LOOP
        WITH held AS (SELECT e.no FROM status_events e WHERE ((e.no >> 16) & 15) = leaf AND e.no = ANY (mine) FOR UPDATE SKIP LOCKED)
        DELETE FROM status_events e USING held h WHERE ((e.no >> 16) & 15) = leaf AND e.no = h.no;
        GET DIAGNOSTICS n = ROW_COUNT;
        status := status + n;
        WITH held AS (SELECT e.no FROM verdict_events e WHERE ((e.no >> 16) & 15) = leaf AND e.no = ANY (mine) FOR UPDATE SKIP LOCKED)
        DELETE FROM verdict_events e USING held h WHERE ((e.no >> 16) & 15) = leaf AND e.no = h.no;
        GET DIAGNOSTICS n = ROW_COUNT;
        verdicts := verdicts + n;
    END LOOP;
END $$;
-- +goose StatementEnd

-- Drops what lies too far back, up to 2,048 of each kind: twice as many as are written between two calls. It goes on behind events that somebody holds. It is called within
-- moves, and fails none: what it cannot drop is left to the next call.
-- +goose StatementBegin
CREATE FUNCTION moves.bound_events() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '200ms' SET enable_seqscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    newest bigint := (SELECT s.last_value FROM event_numbers s);
    below  bigint := (SELECT p.empty_below FROM event_publisher p WHERE p.one);
    b      event_bounds;
    gone   record;
BEGIN
    SELECT * INTO b FROM event_bounds;
    SELECT * INTO gone FROM moves.remove_events(
        ARRAY(SELECT e.no FROM status_events e WHERE e.no >= below AND e.no <= newest - b.most_status ORDER BY e.no LIMIT 2048 FOR UPDATE SKIP LOCKED)
        || ARRAY(SELECT e.no FROM verdict_events e WHERE e.no >= below AND e.no <= newest - b.most_verdicts ORDER BY e.no LIMIT 2048 FOR UPDATE SKIP LOCKED));
    IF gone.status > 0 OR gone.verdicts > 0 THEN
        INSERT INTO event_drops (status, verdicts) VALUES (gone.status, gone.verdicts);
    END IF;
EXCEPTION WHEN lock_not_available OR serialization_failure OR deadlock_detected THEN
    NULL;
END $$;
-- +goose StatementEnd

-- How many events were ever dropped.
-- +goose StatementBegin
CREATE FUNCTION moves.dropped_events(OUT status bigint, OUT verdicts bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s' AS $$
BEGIN
    IF (SELECT count(*) FROM (SELECT FROM event_drops LIMIT 100) d) = 100 THEN
        WITH gone AS (DELETE FROM event_drops d WHERE d.ctid IN (SELECT o.ctid FROM event_drops o LIMIT 10000 FOR UPDATE SKIP LOCKED) RETURNING d.*)
        INSERT INTO event_drops (status, verdicts) SELECT sum(g.status), sum(g.verdicts) FROM gone g HAVING count(*) > 0;
    END IF;
    SELECT coalesce(sum(d.status), 0), coalesce(sum(d.verdicts), 0) INTO status, verdicts FROM event_drops d;
END $$;
-- +goose StatementEnd

-- Each status that a connector comes to, also where it is added or deleted.
-- +goose StatementBegin
CREATE FUNCTION connectors_note_status() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    number bigint;
BEGIN
    IF TG_OP = 'DELETE' THEN
        INSERT INTO status_events (connector_id, type, was, run_id) VALUES (OLD.id, OLD.type, OLD.status, OLD.run_id) RETURNING no INTO number;
    ELSE
        INSERT INTO status_events (connector_id, type, was, status, run_id, due_reason)
        VALUES (NEW.id, NEW.type, CASE TG_OP WHEN 'UPDATE' THEN OLD.status END, NEW.status, coalesce(NEW.run_id, CASE TG_OP WHEN 'UPDATE' THEN OLD.run_id END), NEW.due_reason)
        RETURNING no INTO number;
    END IF;
    IF number & 1023 = 0 THEN
        PERFORM moves.bound_events();
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER connectors_status_noted AFTER UPDATE ON connectors FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION connectors_note_status();
CREATE TRIGGER connectors_status_added AFTER INSERT OR DELETE ON connectors FOR EACH ROW EXECUTE FUNCTION connectors_note_status();

-- Each verdict that comes into the ledger, by whatever move.
-- +goose StatementBegin
CREATE FUNCTION runs_note_verdicts() RETURNS trigger
    LANGUAGE plpgsql AS $$
DECLARE
    noted bigint;
BEGIN
    INSERT INTO verdict_events (run_id, completed_at) SELECT e.id, e.completed_at FROM ended e;
    GET DIAGNOSTICS noted = ROW_COUNT;
    IF noted > 0 AND currval('event_numbers') & 1023 < noted THEN
        PERFORM moves.bound_events();
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER runs_verdicts_noted AFTER INSERT ON runs REFERENCING NEW TABLE AS ended FOR EACH STATEMENT EXECUTE FUNCTION runs_note_verdicts();

-- Whether it is a publisher's turn: it is while nobody else has said so within its lease. A lease of 0 gives the turn back. It returns the newest number so far;
-- null: it is not.
-- +goose StatementBegin
CREATE FUNCTION moves.take_turn_to_publish(publisher uuid, lease interval) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    -- It is read under the sequence's lock: a SELECT may see it 32 too high while somebody draws one.
    newest bigint := coalesce(pg_sequence_last_value('event_numbers'), 1);
BEGIN
    IF publisher IS NULL OR lease IS NULL OR lease NOT BETWEEN '0' AND '1 hour' THEN
        RAISE EXCEPTION 'take_turn_to_publish: publisher and lease (0 to 1 h) are needed' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF EXISTS (SELECT FROM event_publisher p WHERE p.publisher = take_turn_to_publish.publisher AND p.until > moment + lease / 2 AND lease > '0') THEN
        RETURN newest;
    END IF;
    UPDATE event_publisher p SET publisher = take_turn_to_publish.publisher, until = moment + lease
    WHERE p.publisher IS NOT DISTINCT FROM take_turn_to_publish.publisher OR p.until <= moment OR p.until > moment + interval '1 hour';   -- the clock has stepped back
    RETURN CASE WHEN FOUND THEN newest END;
END $$;
-- +goose StatementEnd

-- The oldest events behind a number and up to another, in the order of theirs. In one statement: who sees a connector's move sees those before it. A page behind another does
-- not look before it, where a move may have been committed meanwhile; so that it sees no later one of that connector, until is a number of before the first page was read.
-- Of a verdict whose week the ledger has dropped connector_id is null.
-- +goose StatementBegin
CREATE FUNCTION moves.unpublished_events(page integer, after bigint DEFAULT 0, until bigint DEFAULT 9223372036854775807) RETURNS TABLE (no bigint, at timestamptz, connector_id integer, type text, was text, status text, due_reason text,
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

-- How far the outbox reaches back: from its oldest event to the newest number, at most so many events wait; and when the oldest was written, null where nothing waits.
-- +goose StatementBegin
CREATE FUNCTION moves.events_waiting(OUT events bigint, OUT since timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    first bigint;
    below bigint := (SELECT p.empty_below FROM event_publisher p WHERE p.one);
BEGIN
    SELECT o.no, o.at INTO first, since FROM (
        (SELECT s.no, s.at FROM status_events s WHERE s.no >= below ORDER BY s.no LIMIT 1)
        UNION ALL (SELECT v.no, v.completed_at FROM verdict_events v WHERE v.no >= below ORDER BY v.no LIMIT 1)) o ORDER BY o.no LIMIT 1;
    events := CASE WHEN first IS NULL THEN 0 ELSE greatest(1, (SELECT s.last_value FROM event_numbers s) - first + 1) END;
END $$;
-- +goose StatementEnd

-- Notes below which number no event is there or will ever come, and returns it. Who reads the oldest begins there: else it would pass by all dead rows, as long as an old snapshot
-- keeps them. One call notes the newest number, and its own transaction's id, which it gets after that. A number is drawn by who has an id already, so who has drawn that number or
-- one before has a smaller id. Once all smaller ids are over, all these events are committed or will never be; a later call finds the oldest that is left.
-- It does nothing in a transaction that has an id already, or with one snapshot. It writes after 16,384 numbers or 5 s, so that its row does not leave many dead ones, and waits for nobody.
-- +goose StatementBegin
CREATE FUNCTION moves.note_empty_events() RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    p      event_publisher;
    newest bigint;
    below  bigint;
BEGIN
    SELECT * INTO p FROM event_publisher e WHERE e.one;
    -- It is read under the sequence's lock: a SELECT may see it 32 too high while somebody draws one.
    newest := coalesce(pg_sequence_last_value('event_numbers'), 0);
    IF current_setting('transaction_isolation') <> 'read committed' OR pg_current_xact_id_if_assigned() IS NOT NULL THEN
        RETURN p.empty_below;
    END IF;
    below := p.empty_below;
    IF below > newest + 1 THEN   -- the sequence was set back
        below := 0;
    ELSIF p.noted_no <= newest AND p.noted_xid < pg_snapshot_xmax(pg_current_snapshot()) THEN   -- else it was noted in another life of this database, or never
        IF p.noted_xid > pg_snapshot_xmin(pg_current_snapshot()) THEN
            RETURN below;
        END IF;
        IF greatest(newest - p.noted_no, p.noted_no - below) < 16384 AND p.noted_at BETWEEN moment - interval '5 s' AND moment THEN
            RETURN below;
        END IF;
        below := greatest(below, least(p.noted_no + 1,
            (SELECT e.no FROM status_events e WHERE e.no >= p.empty_below ORDER BY e.no LIMIT 1),
            (SELECT e.no FROM verdict_events e WHERE e.no >= p.empty_below ORDER BY e.no LIMIT 1)));
        IF greatest(newest - p.noted_no, below - p.empty_below) < 16384 AND p.noted_at BETWEEN moment - interval '5 s' AND moment
            OR newest = p.noted_no AND below = p.empty_below THEN
            RETURN p.empty_below;
        END IF;
    END IF;
    UPDATE event_publisher e SET empty_below = below, noted_no = newest, noted_xid = pg_current_xact_id(), noted_at = moment
    WHERE e.one AND e.one IN (SELECT f.one FROM event_publisher f WHERE f.one AND f.noted_xid IS NOT DISTINCT FROM p.noted_xid FOR UPDATE SKIP LOCKED);
    RETURN CASE WHEN FOUND THEN below ELSE p.empty_below END;
END $$;
-- +goose StatementEnd

-- Empties up to four leaves that everything has left, but for those that are written next. It waits for nobody: a leaf that somebody writes or reads is left to the next call.
-- It does nothing in a transaction with one snapshot, which does not see what has come into a leaf since.
-- +goose StatementBegin
CREATE FUNCTION moves.clear_events() RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    newest  bigint := (SELECT (s.last_value >> 16) & 15 FROM event_numbers s);
    leaf    text;
    busy    boolean;
    cleared integer := 0;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RETURN 0;
    END IF;
    FOR leaf IN SELECT l.name FROM (SELECT kind || '_events_' || n AS name FROM unnest(ARRAY['status', 'verdict']) kind, generate_series(0, 15) n
        WHERE n NOT IN (newest, (newest + 1) & 15) OFFSET 0) l WHERE pg_relation_size(l.name::regclass) > 0 LOOP
        BEGIN
            EXECUTE format('SELECT EXISTS (SELECT FROM %I)', leaf) INTO busy;
            CONTINUE WHEN busy;
            EXECUTE format('LOCK TABLE ONLY %I IN ACCESS EXCLUSIVE MODE NOWAIT', leaf);
            EXECUTE format('SELECT EXISTS (SELECT FROM %I)', leaf) INTO busy;   -- sees what was committed before the lock
            CONTINUE WHEN busy;
            EXECUTE format('TRUNCATE ONLY %I', leaf);
            cleared := cleared + 1;
            EXIT WHEN cleared = 4;
        EXCEPTION WHEN lock_not_available THEN
            NULL;
        END;
    END LOOP;
    RETURN cleared;
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION moves.remove_events(bigint[]), moves.bound_events(), moves.dropped_events(), moves.take_turn_to_publish(uuid, interval), moves.unpublished_events(integer, bigint, bigint),
    moves.events_waiting(), moves.note_empty_events(), moves.clear_events(), connectors_note_status(), runs_note_verdicts() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION moves.remove_events(bigint[]), moves.dropped_events(), moves.take_turn_to_publish(uuid, interval), moves.unpublished_events(integer, bigint, bigint),
    moves.events_waiting(), moves.note_empty_events(), moves.clear_events() TO echomind_semantic;
GRANT EXECUTE ON FUNCTION moves.events_waiting(), moves.dropped_events() TO echomind_console;

-- +goose Down
DROP TRIGGER runs_verdicts_noted ON runs;
DROP TRIGGER connectors_status_added ON connectors;
DROP TRIGGER connectors_status_noted ON connectors;
DROP FUNCTION moves.clear_events();
DROP FUNCTION moves.note_empty_events();
DROP FUNCTION moves.events_waiting();
DROP FUNCTION moves.unpublished_events(integer, bigint, bigint);
DROP FUNCTION moves.take_turn_to_publish(uuid, interval);
DROP FUNCTION runs_note_verdicts();
DROP FUNCTION connectors_note_status();
DROP FUNCTION moves.dropped_events();
DROP FUNCTION moves.bound_events();
DROP FUNCTION moves.remove_events(bigint[]);
DROP TABLE event_publisher;
DROP TABLE event_drops;
DROP TABLE event_bounds;
DROP TABLE verdict_events;
DROP TABLE status_events;
DROP SEQUENCE event_numbers;
