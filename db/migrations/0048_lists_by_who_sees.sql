-- +goose NO TRANSACTION
-- +goose Up
-- expand
-- Who sees a connector stands beside until when it is fresh: api.webhook_place, as org, job, user:7 or group:eng. A list reads the first of each that its viewer belongs to, in its order, and
-- stops at a page, where it read all that the viewer sees. A table of its own, so that no move of connectors writes a further index.
ALTER TABLE connector_freshness ADD COLUMN IF NOT EXISTS seen_by text;
-- Those that have failed or are off, in the same way: few of a million are, and who looks for them reads no others. A table of its own again, so that a sync that fails writes a row here and none of the other's index entries.
CREATE TABLE IF NOT EXISTS connector_faults (
    connector_id integer PRIMARY KEY,
    status       text NOT NULL,
    seen_by      text NOT NULL,
    fresh_until  timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS connector_faults_status ON connector_faults (status, connector_id);
CREATE INDEX IF NOT EXISTS connector_faults_status_order ON connector_faults (status, fresh_until, connector_id);
CREATE INDEX IF NOT EXISTS connector_faults_seen ON connector_faults ((status || ' ' || seen_by), connector_id);
CREATE INDEX IF NOT EXISTS connector_faults_seen_order ON connector_faults ((status || ' ' || seen_by), fresh_until, connector_id);
-- Until when a connector is fresh: one of which nobody has said how old it may be comes behind all others, the one first that was added first. No later than a connector may be from, which JSON can say.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION connector_fresh_until(within_minutes integer, synced_at timestamptz, created_at timestamptz) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT least('9999-01-01 00:00+00', CASE WHEN within_minutes IS NULL THEN created_at + make_interval(mins => 52560000) ELSE coalesce(synced_at, created_at) + make_interval(mins => within_minutes) END)
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION connector_fresh_until(integer, timestamptz, timestamptz) FROM PUBLIC;
-- The function and the trigger are one statement, and so one transaction: no change of who sees a connector comes between the first that writes it down and those that are noted.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION connectors_note_freshness() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    place text;   -- none: it stays; a sync that completes does not pay for it
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        DELETE FROM connector_freshness;
    ELSIF TG_OP = 'DELETE' THEN
        DELETE FROM connector_freshness f WHERE f.connector_id = OLD.id;
    ELSE
        IF TG_OP = 'INSERT' OR (NEW.type, NEW.user_id, NEW.scope, NEW.scope_id) IS DISTINCT FROM (OLD.type, OLD.user_id, OLD.scope, OLD.scope_id) THEN
            place := api.webhook_place(NEW.type, NEW.user_id, NEW.scope, NEW.scope_id);
        END IF;
        INSERT INTO connector_freshness AS f (connector_id, type, fresh_until, seen_by) VALUES (NEW.id, NEW.type, connector_fresh_until(NEW.fresh_within_minutes, NEW.last_sync_at, NEW.created_at), place)
        ON CONFLICT (connector_id) DO UPDATE SET type = EXCLUDED.type, fresh_until = EXCLUDED.fresh_until, seen_by = coalesce(EXCLUDED.seen_by, f.seen_by);
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER connectors_freshness_changed AFTER UPDATE OF type, user_id, scope, scope_id, fresh_within_minutes, last_sync_at ON connectors FOR EACH ROW
    WHEN ((NEW.type, NEW.user_id, NEW.scope, NEW.scope_id, NEW.fresh_within_minutes) IS DISTINCT FROM (OLD.type, OLD.user_id, OLD.scope, OLD.scope_id, OLD.fresh_within_minutes)
        OR NEW.fresh_within_minutes IS NOT NULL AND NEW.last_sync_at IS DISTINCT FROM OLD.last_sync_at)
    EXECUTE FUNCTION connectors_note_freshness();
CREATE OR REPLACE TRIGGER connectors_freshness_none AFTER TRUNCATE ON connectors FOR EACH STATEMENT EXECUTE FUNCTION connectors_note_freshness();
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION connectors_note_fault() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        DELETE FROM connector_faults;
    ELSIF TG_OP = 'DELETE' OR NOT NEW.at_fault THEN
        DELETE FROM connector_faults f WHERE f.connector_id = OLD.id;
        IF NOT FOUND THEN   -- It is not noted yet. Or a serializable transaction, which began before that, does not see it: it fails here, and its client repeats it.
            INSERT INTO connector_faults (connector_id, status, seen_by, fresh_until) VALUES (OLD.id, OLD.status, '', clock_timestamp()) ON CONFLICT DO NOTHING;
            DELETE FROM connector_faults f WHERE f.connector_id = OLD.id;
        END IF;
    ELSE
        INSERT INTO connector_faults (connector_id, status, seen_by, fresh_until)
        VALUES (NEW.id, NEW.status, api.webhook_place(NEW.type, NEW.user_id, NEW.scope, NEW.scope_id), connector_fresh_until(NEW.fresh_within_minutes, NEW.last_sync_at, NEW.created_at))
        ON CONFLICT (connector_id) DO UPDATE SET status = EXCLUDED.status, seen_by = EXCLUDED.seen_by, fresh_until = EXCLUDED.fresh_until;
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER connectors_fault_added AFTER INSERT ON connectors FOR EACH ROW WHEN (NEW.at_fault) EXECUTE FUNCTION connectors_note_fault();
CREATE OR REPLACE TRIGGER connectors_fault_changed AFTER UPDATE ON connectors FOR EACH ROW
    WHEN ((NEW.at_fault OR OLD.at_fault) AND (NEW.status, NEW.type, NEW.user_id, NEW.scope, NEW.scope_id, NEW.fresh_within_minutes, NEW.last_sync_at)
        IS DISTINCT FROM (OLD.status, OLD.type, OLD.user_id, OLD.scope, OLD.scope_id, OLD.fresh_within_minutes, OLD.last_sync_at))
    EXECUTE FUNCTION connectors_note_fault();
CREATE OR REPLACE TRIGGER connectors_fault_deleted AFTER DELETE ON connectors FOR EACH ROW WHEN (OLD.at_fault) EXECUTE FUNCTION connectors_note_fault();
CREATE OR REPLACE TRIGGER connectors_fault_none AFTER TRUNCATE ON connectors FOR EACH STATEMENT EXECUTE FUNCTION connectors_note_fault();
-- +goose StatementEnd
REVOKE ALL ON FUNCTION connectors_note_fault() FROM PUBLIC;
-- Those that are at fault, each held while it is noted. First a thousand to a transaction, but those that somebody holds; then these, one alone, so that nobody waits for another. A place is read before its row is held: who waits for one
-- may find it with another type, which comes before or behind many.
-- +goose StatementBegin
DO $$
DECLARE
    of_type text := '';
    after   integer := 0;
    to_type text;
    through integer;
BEGIN
    LOOP
        PERFORM set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true);
        SELECT p.type, p.id INTO to_type, through
        FROM (SELECT k.type, k.id FROM connectors k WHERE k.at_fault AND (k.type, k.id) > (of_type, after) ORDER BY k.type, k.id LIMIT 1000) p ORDER BY p.type DESC, p.id DESC LIMIT 1;
        EXIT WHEN NOT FOUND;
        INSERT INTO connector_faults (connector_id, status, seen_by, fresh_until)
        SELECT c.id, c.status, api.webhook_place(c.type, c.user_id, c.scope, c.scope_id), connector_fresh_until(c.fresh_within_minutes, c.last_sync_at, c.created_at)
        FROM connectors c WHERE c.at_fault AND (c.type, c.id) > (of_type, after) AND (c.type, c.id) <= (to_type, through) AND NOT EXISTS (SELECT FROM connector_faults f WHERE f.connector_id = c.id)
        FOR NO KEY UPDATE SKIP LOCKED ON CONFLICT DO NOTHING;
        COMMIT;
        of_type := to_type;
        after := through;
    END LOOP;
    of_type := '';
    after := 0;
    LOOP
        PERFORM set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true);
        SELECT k.type, k.id INTO of_type, after FROM connectors k
        WHERE k.at_fault AND (k.type, k.id) > (of_type, after) AND NOT EXISTS (SELECT FROM connector_faults f WHERE f.connector_id = k.id) ORDER BY k.type, k.id LIMIT 1;
        EXIT WHEN NOT FOUND;
        INSERT INTO connector_faults (connector_id, status, seen_by, fresh_until)
        SELECT c.id, c.status, api.webhook_place(c.type, c.user_id, c.scope, c.scope_id), connector_fresh_until(c.fresh_within_minutes, c.last_sync_at, c.created_at)
        FROM connectors c WHERE c.id = after AND c.at_fault FOR NO KEY UPDATE ON CONFLICT DO NOTHING;
        COMMIT;
    END LOOP;
END $$;
-- +goose StatementEnd
-- Those that are there, in the same way. A change of one meanwhile writes its own, which is left alone.
-- +goose StatementBegin
DO $$
DECLARE
    after integer := 0;
    through integer;
BEGIN
    LOOP
        SELECT max(p.connector_id) INTO through FROM (SELECT f.connector_id FROM connector_freshness f WHERE f.connector_id > after ORDER BY f.connector_id LIMIT 1000) p;
        EXIT WHEN through IS NULL;
        UPDATE connector_freshness f SET seen_by = api.webhook_place(c.type, c.user_id, c.scope, c.scope_id) FROM connectors c
        WHERE f.connector_id = ANY (ARRAY(SELECT n.connector_id FROM connector_freshness n WHERE n.connector_id > after AND n.connector_id <= through AND n.seen_by IS NULL FOR NO KEY UPDATE SKIP LOCKED))
            AND c.id = f.connector_id;
        COMMIT;
        after := through;
    END LOOP;
    after := 0;
    LOOP
        SELECT f.connector_id INTO after FROM connector_freshness f WHERE f.connector_id > after AND f.seen_by IS NULL ORDER BY f.connector_id LIMIT 1;
        EXIT WHEN NOT FOUND;
        UPDATE connector_freshness f SET seen_by = api.webhook_place(c.type, c.user_id, c.scope, c.scope_id) FROM connectors c WHERE f.connector_id = after AND f.seen_by IS NULL AND c.id = f.connector_id;
        COMMIT;
    END LOOP;
END $$;
-- +goose StatementEnd
-- A try that ended half-way leaves an index that is not valid.
DROP INDEX CONCURRENTLY IF EXISTS connector_freshness_seen;
CREATE INDEX CONCURRENTLY connector_freshness_seen ON connector_freshness (seen_by, connector_id);
DROP INDEX CONCURRENTLY IF EXISTS connector_freshness_seen_order;
CREATE INDEX CONCURRENTLY connector_freshness_seen_order ON connector_freshness (seen_by, fresh_until, connector_id);

-- Who sees a connector is by its type's kind, too. Only a database's owner can change that, by hand, and while nobody adds any of it.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION connector_types_note_kind() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE connector_freshness f SET seen_by = api.webhook_place(c.type, c.user_id, c.scope, c.scope_id) FROM connectors c WHERE c.type = NEW.name AND f.connector_id = c.id;
    UPDATE connector_faults f SET seen_by = api.webhook_place(c.type, c.user_id, c.scope, c.scope_id) FROM connectors c WHERE c.type = NEW.name AND f.connector_id = c.id;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER connector_types_kind_changed AFTER UPDATE OF kind ON connector_types FOR EACH ROW WHEN (NEW.kind <> OLD.kind) EXECUTE FUNCTION connector_types_note_kind();
-- +goose StatementEnd
REVOKE ALL ON FUNCTION connector_types_note_kind() FROM PUBLIC;

-- Of a time when only what everybody sees was not well statistics would say that each place has all: for each group of an owner a look would read what is not well of all others.
ALTER TABLE webhook_faults ALTER COLUMN place SET (n_distinct = 1000);
ANALYZE webhook_faults;

-- As whom the viewer sees connectors, superadmins apart, who see all.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.sees_as() RETURNS text[]
    LANGUAGE plpgsql STABLE AS $$   -- which keeps its plan
BEGIN
    RETURN CASE WHEN api.viewer_id() IS NULL THEN '{}'
        ELSE api.open_scopes() || ('user:' || api.viewer_id()) || ARRAY(SELECT DISTINCT 'group:' || g FROM unnest(api.groups('groups')) g) || CASE WHEN api.is_admin() THEN '{job}'::text[] END END;
END $$;
-- +goose StatementEnd

-- A page of connectors that the viewer sees, behind a place: by number or, by_freshness, the one that is late for longest first. With a filter, or in very many groups, it looks at so many of them at most: where there
-- may be more, its last row says from where on (is_end). Who reads them asks api.connectors for these numbers. Planned for each call: it is short, and what is not asked for is not in it.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.list_connectors(by_freshness boolean, after timestamptz, after_id integer, page integer, look integer,
    of_type text, named text, of_status text, owner integer, of_scope text, of_scope_id text, is_late boolean) RETURNS TABLE (connector_id integer, fresh_until timestamptz, is_end boolean)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    moment     timestamptz := clock_timestamp();
    sees_all   boolean := api.is_superadmin();
    -- Who sees what the filter asks for: all, where it does not say.
    narrow     text[] := CASE WHEN of_scope = 'system' THEN '{job}' WHEN of_scope = 'org' THEN '{org,job}' WHEN of_scope = 'group' THEN ARRAY['group:' || of_scope_id, 'job']
        WHEN of_scope = 'user' THEN ARRAY['user:' || owner, 'job'] END;
    ways       text[];
    is_noted   boolean := of_status IN ('ERROR', 'DISABLED');   -- null: no status is asked for
    places     text := CASE WHEN is_noted THEN 'connector_faults' ELSE 'connector_freshness' END;
    conditions text := concat(CASE WHEN of_type IS NOT NULL THEN ' AND c.type = $8' END, CASE WHEN named IS NOT NULL THEN ' AND strpos(lower(c.name), lower($9)) > 0' END,
        CASE WHEN NOT is_noted THEN ' AND c.status = $10' END, CASE WHEN owner IS NOT NULL THEN ' AND c.user_id = $11' END,
        CASE WHEN of_scope IS NOT NULL THEN ' AND c.scope = $12' END, CASE WHEN of_scope_id IS NOT NULL THEN ' AND c.scope_id = $13' END);
    -- Each by its key, behind a fence: where statistics are older than a group, the planner would read all of the group for each of its connectors.
    found      text := CASE WHEN conditions <> '' THEN 'CROSS JOIN LATERAL (SELECT c.type, c.name, c.status, c.user_id, c.scope, c.scope_id FROM connectors c WHERE c.id = f.connector_id OFFSET 0) c' END;
    is_bound   boolean := conditions <> '' OR (is_late AND NOT by_freshness);
    few        integer := least(look, 100000) / CASE WHEN by_freshness THEN 10 ELSE 1 END;
    each       integer;
    through    timestamptz;
    through_id integer;
    -- By number it is of no account, and not in the index.
    until      text := CASE WHEN by_freshness THEN 'f.fresh_until' ELSE '$2 AS fresh_until' END;
    place      text := CASE WHEN by_freshness THEN 'f.fresh_until, f.connector_id' ELSE 'f.connector_id' END;
    behind     text := CASE WHEN by_freshness THEN '(f.fresh_until, f.connector_id) > ($2, $3)' ELSE 'f.connector_id > $3' END;
    wanted     text := concat(conditions, CASE WHEN is_late THEN ' AND f.fresh_until < $7' END);
    -- Who sees them, and which status they have, is in the order, too, and no plain equality, which the planner takes out of it: another index has them in the order of the rest, with all others between them.
    ordered    text := place;
    found_rows integer;
BEGIN
    IF array_position(narrow, NULL) IS NOT NULL THEN   -- of which group, or whose, is not said
        narrow := NULL;
    END IF;
    IF sees_all THEN
        ways := narrow;
    ELSE
        ways := ARRAY(SELECT w FROM unnest(api.sees_as()) w WHERE narrow IS NULL OR w = ANY (narrow));
    END IF;
    CASE
        WHEN is_noted AND ways IS NOT NULL THEN
            behind := format('f.status || %L || f.seen_by = ANY (ARRAY[%L || w.seen_by]) AND %s', ' ', of_status || ' ', behind);
            ordered := format('f.status || %L || f.seen_by, %s', ' ', place);
        WHEN is_noted THEN
            behind := format('f.status = ANY (ARRAY[%L]) AND %s', of_status, behind);
            ordered := 'f.status, ' || place;
        WHEN ways IS NOT NULL THEN
            behind := 'f.seen_by = ANY (ARRAY[w.seen_by]) AND ' || behind;
            ordered := 'f.seen_by, ' || place;
        ELSE   -- all of them
    END CASE;
    each := greatest(least(look, 100000) / greatest(cardinality(ways), 1), 1);   -- all together no more than that
    is_bound := is_bound OR cardinality(ways)::bigint * page > 2 * least(look, 100000);   -- a page of somebody in very many groups
    IF is_bound THEN
        EXECUTE format('SELECT n.fresh_until, n.connector_id FROM unnest($1) w(seen_by) CROSS JOIN LATERAL (
            SELECT %s, f.connector_id FROM %I f WHERE %s ORDER BY %s OFFSET $4 LIMIT 1) n ORDER BY %s LIMIT 1', until, places, behind, ordered, replace(place, 'f.', 'n.'))
        INTO through, through_id USING coalesce(ways, '{all}'), after, after_id, each;
    END IF;
    -- Few are in flight: it looks at these, by number at no more than it takes to find a page. By freshness each is read by its keys, and of many a page is sooner found among all.
    IF through_id IS NOT NULL AND of_status IN ('PENDING', 'SYNCING') AND (SELECT count(*) FROM (SELECT FROM open_runs LIMIT few + 1) r) <= few THEN
        RETURN QUERY EXECUTE format('SELECT f.connector_id, %s, false FROM (SELECT o.connector_id FROM open_runs o %s OFFSET 0) r
                CROSS JOIN LATERAL (SELECT * FROM connector_freshness n WHERE n.connector_id = r.connector_id OFFSET 0) f %s WHERE %s%s ORDER BY %s LIMIT $6',
                until, CASE WHEN NOT by_freshness THEN 'WHERE o.connector_id > $3 ORDER BY o.connector_id' END, found, replace(behind, 'ARRAY[w.seen_by]', '$1'), wanted,
                CASE WHEN by_freshness THEN place ELSE 'r.connector_id' END)
            USING ways, after, after_id, through, through_id, page, moment, of_type, named, of_status, owner, of_scope, of_scope_id;
        RETURN;
    END IF;
    IF through_id IS NOT NULL THEN
        behind := behind || CASE WHEN by_freshness THEN ' AND (f.fresh_until, f.connector_id) <= ($4, $5)' ELSE ' AND f.connector_id <= $5' END;
    END IF;
    RETURN QUERY EXECUTE format('SELECT n.connector_id, n.fresh_until, false FROM unnest($1) w(seen_by) CROSS JOIN LATERAL (
            SELECT f.connector_id, %s FROM %I f %s WHERE %s%s ORDER BY %s LIMIT $6) n ORDER BY %s LIMIT $6',
            until, places, found, behind, wanted, ordered, replace(place, 'f.', 'n.'))
        USING coalesce(ways, '{all}'), after, after_id, through, through_id, page, moment, of_type, named, of_status, owner, of_scope, of_scope_id;
    GET DIAGNOSTICS found_rows = ROW_COUNT;
    IF found_rows < page AND through_id IS NOT NULL AND NOT (is_late AND by_freshness AND through >= moment) THEN   -- none is late behind that
        RETURN QUERY SELECT through_id, through, true;
    END IF;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION api.list_connectors(boolean, timestamptz, integer, integer, integer, text, text, text, integer, text, text, boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.list_connectors(boolean, timestamptz, integer, integer, integer, text, text, text, integer, text, text, boolean) TO echomind_api;
REVOKE ALL ON FUNCTION api.sees_as() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.sees_as() TO echomind_api;

-- As migration 44 has it, but who deletes a connector holds what was told of it until they end: that one is left to a later look, and the others wait for nobody.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.tell_webhook(webhook integer, connectors integer[], states text[], message_ids text[], types text[], bodies text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    free integer[] := ARRAY(SELECT s.connector_id FROM webhook_states s WHERE s.webhook_id = webhook AND s.connector_id = ANY (connectors) FOR UPDATE SKIP LOCKED);
    held integer[] := ARRAY(SELECT s.connector_id FROM webhook_states s WHERE s.webhook_id = webhook AND s.connector_id = ANY (connectors) AND s.connector_id <> ALL (free));
BEGIN
    DELETE FROM webhook_states s USING unnest(connectors, states) n(id, state) WHERE s.webhook_id = webhook AND s.connector_id = n.id AND n.state = 'ok' AND n.id <> ALL (held);
    INSERT INTO webhook_states (webhook_id, connector_id, state) SELECT webhook, n.id, n.state FROM unnest(connectors, states) n(id, state) WHERE n.state <> 'ok' AND n.id <> ALL (held)
    ON CONFLICT (webhook_id, connector_id) DO UPDATE SET state = EXCLUDED.state;
    PERFORM api.add_deliveries(webhook, message_ids, connectors,
        ARRAY(SELECT CASE WHEN n.id = ANY (held) THEN '' ELSE n.type END FROM unnest(connectors, types) WITH ORDINALITY n(id, type, place) ORDER BY n.place), bodies);
    IF held <> '{}' THEN   -- in the middle of a comparison it stays its turn
        UPDATE webhook_turns t SET look_at = least(t.look_at, clock_timestamp() + interval '15 seconds') WHERE t.webhook_id = webhook AND t.look_at IS NOT NULL;
    END IF;
EXCEPTION WHEN lock_not_available THEN
    -- Somebody deletes the connector of a delivery that gives way: this page is told in the next look, and nobody else waits for it.
    UPDATE webhook_turns t SET look_at = least(t.look_at, clock_timestamp() + interval '15 seconds'), is_called = true WHERE t.webhook_id = webhook AND t.look_at IS NOT NULL;
END $$;
-- +goose StatementEnd

-- As migration 44 has it, but no key of a request and no link that still counts is read, and a token that somebody holds is left to a later sweep.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION moves.keep_audit(retention interval, batch integer, OUT removed integer)
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
    SELECT array_agg(o.id) INTO over FROM (SELECT k.id FROM access_tokens k WHERE least(k.revoked_at, k.expires_at) < oldest ORDER BY least(k.revoked_at, k.expires_at) LIMIT batch FOR UPDATE SKIP LOCKED) o;
    DELETE FROM access_tokens t WHERE t.id IN (SELECT m.id FROM access_tokens m WHERE m.made_through && over LIMIT batch FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS more = ROW_COUNT;
    removed := removed + more;
    DELETE FROM access_tokens t WHERE t.id = ANY (over) AND NOT EXISTS (SELECT FROM access_tokens m WHERE m.made_through @> ARRAY[t.id]);
    GET DIAGNOSTICS more = ROW_COUNT;
    removed := removed + more;
    DELETE FROM sign_in_links l WHERE l.code_sha256 IN (SELECT o.code_sha256 FROM sign_in_links o
        WHERE o.expires_at < (SELECT clock_timestamp()) ORDER BY o.expires_at LIMIT batch FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS more = ROW_COUNT;
    removed := removed + more;
    DELETE FROM request_keys k WHERE (k.user_id, k.key) IN (SELECT o.user_id, o.key FROM request_keys o
        WHERE o.at < (SELECT clock_timestamp() - interval '24 hours') ORDER BY o.at LIMIT batch FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS more = ROW_COUNT;
    removed := removed + more;
    DELETE FROM consents c WHERE c.id IN (SELECT o.id FROM consents o WHERE o.until < (SELECT clock_timestamp() - interval '1 day') ORDER BY o.until LIMIT batch FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS more = ROW_COUNT;
    removed := removed + more;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION moves.keep_audit(retention interval, batch integer, OUT removed integer)
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
    DELETE FROM consents c WHERE c.id IN (SELECT o.id FROM consents o WHERE o.until < (SELECT clock_timestamp() - interval '1 day') ORDER BY o.until LIMIT batch FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS more = ROW_COUNT;
    removed := removed + more;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.tell_webhook(webhook integer, connectors integer[], states text[], message_ids text[], types text[], bodies text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s' AS $$
BEGIN
    DELETE FROM webhook_states s USING unnest(connectors, states, types) n(id, state, type) WHERE s.webhook_id = webhook AND s.connector_id = n.id AND n.state = 'ok' AND n.type <> '';
    -- Who deletes a connector that is only forgotten deletes its row too.
    DELETE FROM webhook_states s WHERE s.webhook_id = webhook AND s.connector_id IN (SELECT k.connector_id FROM webhook_states k JOIN unnest(connectors, states, types) n(id, state, type) ON n.id = k.connector_id
        WHERE k.webhook_id = webhook AND n.state = 'ok' AND n.type = '' FOR UPDATE OF k SKIP LOCKED);
    INSERT INTO webhook_states (webhook_id, connector_id, state) SELECT webhook, n.id, n.state FROM unnest(connectors, states) n(id, state) WHERE n.state <> 'ok'
    ON CONFLICT (webhook_id, connector_id) DO UPDATE SET state = EXCLUDED.state;
    PERFORM api.add_deliveries(webhook, message_ids, connectors, types, bodies);
EXCEPTION WHEN lock_not_available THEN
    -- Somebody deletes one of them: this page is told in the next look, and nobody else waits for it.
    UPDATE webhook_turns t SET look_at = least(t.look_at, clock_timestamp() + interval '15 seconds'), is_called = true WHERE t.webhook_id = webhook AND t.look_at IS NOT NULL;
END $$;
-- +goose StatementEnd
ALTER TABLE webhook_faults ALTER COLUMN place RESET (n_distinct);
DROP TRIGGER IF EXISTS connector_types_kind_changed ON connector_types;
DROP FUNCTION IF EXISTS connector_types_note_kind();
DROP FUNCTION IF EXISTS api.list_connectors(boolean, timestamptz, integer, integer, integer, text, text, text, integer, text, text, boolean);
DROP FUNCTION IF EXISTS api.sees_as();
DROP INDEX CONCURRENTLY IF EXISTS connector_freshness_seen_order;
DROP INDEX CONCURRENTLY IF EXISTS connector_freshness_seen;
DROP TRIGGER IF EXISTS connectors_freshness_none ON connectors;
DROP TRIGGER IF EXISTS connectors_fault_added ON connectors;
DROP TRIGGER IF EXISTS connectors_fault_changed ON connectors;
DROP TRIGGER IF EXISTS connectors_fault_deleted ON connectors;
DROP TRIGGER IF EXISTS connectors_fault_none ON connectors;
DROP FUNCTION IF EXISTS connectors_note_fault();
DROP TABLE IF EXISTS connector_faults;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION connectors_note_freshness() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM connector_freshness f WHERE f.connector_id = OLD.id;
    ELSE
        INSERT INTO connector_freshness AS f (connector_id, type, fresh_until)
        VALUES (NEW.id, NEW.type, CASE WHEN NEW.fresh_within_minutes IS NULL THEN NEW.created_at + make_interval(mins => 52560000)
            ELSE coalesce(NEW.last_sync_at, NEW.created_at) + make_interval(mins => NEW.fresh_within_minutes) END)
        ON CONFLICT (connector_id) DO UPDATE SET type = EXCLUDED.type, fresh_until = EXCLUDED.fresh_until;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER connectors_freshness_changed AFTER UPDATE OF type, fresh_within_minutes, last_sync_at ON connectors FOR EACH ROW
    WHEN ((NEW.type, NEW.fresh_within_minutes) IS DISTINCT FROM (OLD.type, OLD.fresh_within_minutes)
        OR NEW.fresh_within_minutes IS NOT NULL AND NEW.last_sync_at IS DISTINCT FROM OLD.last_sync_at)
    EXECUTE FUNCTION connectors_note_freshness();
ALTER TABLE connector_freshness DROP COLUMN IF EXISTS seen_by;
DROP FUNCTION IF EXISTS connector_fresh_until(integer, timestamptz, timestamptz);
