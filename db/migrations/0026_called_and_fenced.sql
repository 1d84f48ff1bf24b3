-- +goose Up
-- expand
-- Nobody holds, ends or reads more than what is theirs and due: webhooks are looked at when one of their connectors stands otherwise than before, claims of them are fenced, and a batch of an
-- operation holds no other operation.

-- Webhooks. Who has claimed one, so that who wakes late ends nobody else's lease; and whether it was called since its comparison began, which then begins again.
ALTER TABLE webhook_turns ADD COLUMN sender uuid, ADD COLUMN is_called boolean NOT NULL DEFAULT false;
-- What was found of a connector last, null where it was well; and whether every webhook that may have to say something of it was called since.
ALTER TABLE webhook_faults ADD COLUMN found text, ADD COLUMN is_told boolean NOT NULL DEFAULT false;
-- webhooks_of: those that may see more than their owner's, and the members of a group.
CREATE INDEX webhooks_above_user ON webhooks (role, id) WHERE role <> 'user';
CREATE INDEX group_members_group ON group_members (group_id, user_id);

-- All that webhook_state makes of a connector, whatever was told of it. Null: it is well, whatever was told.
-- +goose StatementBegin
CREATE FUNCTION api.webhook_found(status text, failures integer, late boolean) RETURNS text
    LANGUAGE sql IMMUTABLE AS $$   -- without concat_ws, which is not: it would not be inlined
    SELECT CASE WHEN status IN ('ERROR', 'DISABLED') THEN status WHEN status <> 'ACTIVE' OR failures > 0 OR late
        THEN ltrim(CASE WHEN status <> 'ACTIVE' THEN 'in flight' ELSE '' END || CASE WHEN failures > 0 THEN ' failing' ELSE '' END || CASE WHEN late THEN ' late' ELSE '' END) END
$$;
-- +goose StatementEnd

-- The webhooks that may have to say something of connectors in some places: who was told of one, who is about one, and who may see a place.
-- +goose StatementBegin
CREATE FUNCTION api.webhooks_of(connectors integer[], places text[]) RETURNS SETOF integer
    LANGUAGE sql STABLE AS $$
    SELECT s.webhook_id FROM webhook_states s WHERE s.connector_id = ANY (connectors)
    UNION SELECT w.id FROM webhooks w WHERE w.connector_id = ANY (connectors)
    UNION SELECT w.id FROM webhooks w WHERE w.role = 'superadmin' AND w.connector_id IS NULL
    UNION SELECT w.id FROM webhooks w WHERE w.role = 'admin' AND w.connector_id IS NULL AND 'job' = ANY (places)
    UNION SELECT w.id FROM webhooks w WHERE w.connector_id IS NULL AND 'org' = ANY (places)
    UNION SELECT w.id FROM webhooks w WHERE w.connector_id IS NULL AND w.user_id IN (SELECT substr(p, 6)::integer FROM unnest(places) p WHERE starts_with(p, 'user:')
        UNION SELECT m.user_id FROM group_members m WHERE m.group_id IN (SELECT substr(g, 7) FROM unnest(places) g WHERE starts_with(g, 'group:')))
$$;
-- +goose StatementEnd

-- Has webhooks looked at, before those that are only reviewed. False: somebody else holds one of them, and it is to be called again.
-- +goose StatementBegin
CREATE FUNCTION api.call_webhooks(webhooks integer[]) RETURNS boolean
    LANGUAGE sql AS $$
    WITH held AS (SELECT n.webhook_id FROM webhook_turns n WHERE n.webhook_id = ANY (webhooks) AND n.look_at IS NOT NULL ORDER BY n.webhook_id FOR NO KEY UPDATE SKIP LOCKED),
        called AS (UPDATE webhook_turns n SET look_at = least(n.look_at, clock_timestamp() - interval '1 day'), is_called = true FROM held h WHERE n.webhook_id = h.webhook_id RETURNING n.webhook_id)
    SELECT (SELECT count(*) FROM called) = (SELECT count(*) FROM webhook_turns n WHERE n.webhook_id = ANY (webhooks) AND n.look_at IS NOT NULL)
$$;
-- +goose StatementEnd

-- How a connector stands, and who sees it, as webhook_faults has it.
-- +goose StatementBegin
CREATE FUNCTION api.webhook_fault(c connectors, moment timestamptz) RETURNS TABLE (place text, found text)   -- one row, but inlined only as a table
    LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN c.id IS NOT NULL THEN api.webhook_place(c.type, c.user_id, c.scope, c.scope_id) END,
        CASE WHEN c.id IS NOT NULL THEN api.webhook_found(c.status, c.failure_count, coalesce(coalesce(c.last_sync_at, c.created_at) + make_interval(mins => c.fresh_within_minutes) < moment, false)) END
$$;
-- +goose StatementEnd

-- Notes a page of connectors that are failed, switched off or late, has those webhooks looked at that may have to say that one stands otherwise than before, and forgets those that are
-- well. False: it is not time for a look, or somebody else is at it. A look that is over begins again after every.
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

-- Takes the webhook whose turn it is to be looked at; the transaction holds it. Null: it is nobody's.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.next_look() RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    taken  integer;
BEGIN
    SELECT k.id INTO taken FROM webhook_turns n JOIN webhooks k ON k.id = n.webhook_id WHERE n.look_at <= moment ORDER BY n.look_at LIMIT 1 FOR NO KEY UPDATE OF k, n SKIP LOCKED;
    RETURN taken;
END $$;
-- +goose StatementEnd

-- Has a webhook whose look has failed looked at again later, or it would stand before all others. One that somebody holds is nobody's turn, and is left as it is.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.postpone_look(webhook integer, every interval) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s' AS $$
    UPDATE webhook_turns n SET look_at = clock_timestamp() + every WHERE n.webhook_id =
        (SELECT h.webhook_id FROM webhook_turns h WHERE h.webhook_id = webhook AND h.look_at IS NOT NULL FOR NO KEY UPDATE SKIP LOCKED)
$$;
-- +goose StatementEnd

-- Compares a page of how connectors stand with what one webhook was told, which next_look has taken. The rows are what is to be told: tell_webhook writes it in the same transaction. Of what
-- its owner does not see any more nothing is told, and it is forgotten. While 800 deliveries wait there is no look: what is told later is how connectors stand then. One that is not called meanwhile is
-- looked at again after about every: what its owner sees may have changed.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.look_webhook(webhook integer, every interval, page integer) RETURNS TABLE (connector_id integer, was text, state text, stands text, tells text,
        name text, type text, message text, reason text, since timestamptz, last_sync_at timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s'
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
    w      webhooks;
    t      webhook_turns;
    told   integer[];
    faults integer[];
    places text[];
BEGIN
    SELECT k.* INTO w FROM webhooks k WHERE k.id = webhook;
    SELECT n.* INTO t FROM webhook_turns n WHERE n.webhook_id = webhook AND n.look_at <= moment FOR UPDATE;
    IF NOT FOUND THEN   -- somebody else has looked meanwhile
        RETURN;
    END IF;
    IF (SELECT count(*) FROM (SELECT FROM webhook_deliveries d WHERE d.webhook_id = webhook AND d.next_at IS NOT NULL LIMIT 800) n) = 800 THEN
        UPDATE webhook_turns n SET look_at = moment + least(every, interval '15 seconds') WHERE n.webhook_id = webhook;
        RETURN;
    END IF;
    IF NOT api.serve_webhook(w) THEN
        DELETE FROM webhook_states s WHERE s.webhook_id = w.id;
        UPDATE webhook_turns n SET look_at = moment + every, after_state = 0, after_fault = 0 WHERE n.webhook_id = w.id;
        RETURN;
    END IF;
    t.is_called := t.is_called AND (t.after_state IS DISTINCT FROM 0 OR t.after_fault IS DISTINCT FROM 0);   -- it was called before it begins
    told := ARRAY(SELECT s.connector_id FROM webhook_states s WHERE s.webhook_id = w.id AND s.connector_id > t.after_state ORDER BY s.connector_id LIMIT page);
    DELETE FROM webhook_states s WHERE s.webhook_id = w.id AND s.connector_id IN (SELECT k.connector_id FROM webhook_states k WHERE k.webhook_id = w.id AND k.connector_id = ANY (told)
        AND (k.connector_id <> w.connector_id OR NOT EXISTS (SELECT FROM api.connectors c WHERE c.id = k.connector_id)) FOR UPDATE SKIP LOCKED);
    IF t.after_fault IS NULL THEN
        faults := '{}';
    ELSIF w.connector_id IS NOT NULL THEN
        faults := ARRAY[w.connector_id];
    ELSIF api.is_superadmin() THEN
        faults := ARRAY(SELECT f.connector_id FROM webhook_faults f WHERE f.connector_id > t.after_fault ORDER BY f.connector_id LIMIT page);
    ELSE
        places := ARRAY['user:' || w.user_id, 'org'] || ARRAY(SELECT 'group:' || g.id FROM unnest(api.groups('groups')) g(id) WHERE g.id <> '')
            || CASE WHEN api.is_admin() THEN ARRAY['job'] ELSE '{}' END;
        faults := ARRAY(SELECT f.connector_id FROM unnest(places) p(place) CROSS JOIN LATERAL (SELECT n.connector_id FROM webhook_faults n
            WHERE n.place = p.place AND n.connector_id > t.after_fault ORDER BY n.connector_id LIMIT page) f ORDER BY f.connector_id LIMIT page);
    END IF;
    RETURN QUERY SELECT d.id, d.was, d.state, d.stands,
            CASE WHEN d.state <> 'ok' THEN 'connector.' || d.state WHEN 'recovered' = ANY (w.events) THEN 'connector.recovered' END,
            d.name, d.type, d.status_message, r.reason, coalesce(r.completed_at, CASE WHEN d.stands = 'stale' THEN d.fresh_until END, moment), d.last_sync_at
        -- What it is not told of is no recovery: what was told stays until the connector is well.
        FROM (SELECT h.*, CASE WHEN h.stands = ANY (w.events) THEN h.stands WHEN h.stands <> 'ok' THEN coalesce(h.was, 'ok') ELSE 'ok' END AS state
            FROM (SELECT c.id, c.name, c.type, c.status_message, c.last_sync_at, u.was, n.fresh_until, api.webhook_state(c.status, c.failure_count, coalesce(n.fresh_until < moment, false), u.was) AS stands
                FROM (SELECT s.connector_id AS id, s.state AS was FROM webhook_states s WHERE s.webhook_id = w.id AND s.connector_id = ANY (told)
                    UNION ALL
                    SELECT f.id, NULL FROM unnest(faults) f(id) WHERE NOT EXISTS (SELECT FROM webhook_states s WHERE s.webhook_id = w.id AND s.connector_id = f.id)) u
                JOIN api.connectors c ON c.id = u.id
                CROSS JOIN LATERAL (SELECT coalesce(c.last_sync_at, c.created_at) + make_interval(mins => c.fresh_within_minutes) AS fresh_until) n) h) d
        LEFT JOIN LATERAL (SELECT l.reason, l.completed_at FROM api.latest_runs(ARRAY[d.id], 3) l WHERE d.stands = 'failed' AND l.status = 'failed' ORDER BY l.started_at DESC LIMIT 1) r ON true
        WHERE d.state <> coalesce(d.was, 'ok')
        ORDER BY d.id;
    t.after_state := told[page];   -- null where there were fewer
    t.after_fault := CASE WHEN w.connector_id IS NULL THEN faults[page] END;
    IF t.after_state IS NULL AND t.after_fault IS NULL THEN
        UPDATE webhook_turns n SET look_at = CASE WHEN t.is_called THEN moment ELSE moment + every * (0.75 + random() / 2) END, after_state = 0, after_fault = 0, is_called = t.is_called WHERE n.webhook_id = w.id;
    ELSE
        UPDATE webhook_turns n SET look_at = moment, after_state = t.after_state, after_fault = t.after_fault, is_called = t.is_called WHERE n.webhook_id = w.id;
    END IF;
END $$;
-- +goose StatementEnd

-- Writes what one webhook is told, and that it was: states are what connectors are now, ok of those that are well again; of those whose type is empty nothing is sent.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.tell_webhook(webhook integer, connectors integer[], states text[], message_ids text[], types text[], bodies text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s' AS $$
BEGIN
    DELETE FROM webhook_states s USING unnest(connectors, states) n(id, state) WHERE s.webhook_id = webhook AND s.connector_id = n.id AND n.state = 'ok';
    INSERT INTO webhook_states (webhook_id, connector_id, state) SELECT webhook, n.id, n.state FROM unnest(connectors, states) n(id, state) WHERE n.state <> 'ok'
    ON CONFLICT (webhook_id, connector_id) DO UPDATE SET state = EXCLUDED.state;
    PERFORM api.add_deliveries(webhook, message_ids, connectors, types, bodies);
EXCEPTION WHEN lock_not_available THEN
    -- Somebody deletes one of them: this page is told in the next look, and nobody else waits for it.
    UPDATE webhook_turns t SET look_at = least(t.look_at, clock_timestamp() + interval '15 seconds'), is_called = true WHERE t.webhook_id = webhook AND t.look_at IS NOT NULL;
END $$;
-- +goose StatementEnd

-- Takes the webhook whose turn it is to be sent to; the transaction holds it. Null: it is nobody's.
-- +goose StatementBegin
CREATE FUNCTION api.next_send() RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    taken  integer;
BEGIN
    SELECT k.id INTO taken FROM webhook_turns n JOIN webhooks k ON k.id = n.webhook_id WHERE n.send_at <= moment ORDER BY n.send_at LIMIT 1 FOR NO KEY UPDATE OF k, n SKIP LOCKED;
    RETURN taken;
END $$;
-- +goose StatementEnd

-- Has a webhook that could not be claimed sent to later, or it would stand before all others. One that somebody holds, or sends to, is left as it is.
-- +goose StatementBegin
CREATE FUNCTION api.postpone_send(webhook integer, every interval) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s' AS $$
    UPDATE webhook_turns n SET send_at = clock_timestamp() + every WHERE n.webhook_id =
        (SELECT h.webhook_id FROM webhook_turns h WHERE h.webhook_id = webhook AND h.send_at <= clock_timestamp() FOR NO KEY UPDATE SKIP LOCKED)
$$;
-- +goose StatementEnd

-- Claims the webhook that next_send has taken for one sender, with up to so many deliveries that are due; nobody else sends to it within the lease. The first row names it alone; no row: it is
-- not to be claimed. What is about a connector that its owner does not see any more is not sent.
-- +goose StatementBegin
CREATE FUNCTION api.claim_webhook(webhook integer, claimed_by uuid, lease interval, most integer) RETURNS TABLE (webhook_id integer, url text, secret text, old_secret text, failed_turns integer,
        delivery_id bigint, message_id text, body text, tries integer)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s' AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
    w      webhooks;
    due    bigint[];
    is_served boolean;
BEGIN
    SELECT k.* INTO w FROM webhooks k WHERE k.id = webhook;
    PERFORM FROM webhook_turns n WHERE n.webhook_id = webhook AND n.send_at <= moment FOR UPDATE;
    IF NOT FOUND THEN   -- it is nobody's turn, or somebody else has taken it meanwhile
        RETURN;
    END IF;
    RETURN QUERY SELECT w.id, w.url, w.secret, CASE WHEN w.old_secret_until > moment THEN w.old_secret END, n.failed_turns, NULL::bigint, NULL::text, NULL::text, NULL::integer
        FROM webhook_turns n WHERE n.webhook_id = w.id;
    is_served := api.serve_webhook(w);
    -- Chosen once: of those that were not asked about nothing is sent.
    due := ARRAY(SELECT o.id FROM webhook_deliveries o WHERE o.webhook_id = w.id AND o.next_at <= moment ORDER BY o.next_at, o.id LIMIT most FOR UPDATE SKIP LOCKED);
    UPDATE webhook_deliveries d SET state = 'dropped', next_at = NULL, ended_at = moment, last_error = 'the owner of the webhook does not see the connector any more'
    WHERE d.id = ANY (due)
        AND (NOT is_served OR (d.connector_id IS NOT NULL AND NOT api.sees_connector(d.connector_id)));
    UPDATE webhook_turns n SET rest_until = moment + lease, send_at = moment + lease, sending_until = moment + lease, is_changed = false, sender = claimed_by WHERE n.webhook_id = w.id;
    RETURN QUERY SELECT w.id, NULL::text, NULL::text, NULL::text, NULL::integer, d.id, d.message_id, d.body, d.tries FROM webhook_deliveries d
        WHERE d.id = ANY (due) AND d.state = 'pending' ORDER BY d.next_at, d.id;
END $$;
-- +goose StatementEnd

-- The same for programs that name no sender.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.claim_webhook(lease interval, most integer) RETURNS TABLE (webhook_id integer, url text, secret text, old_secret text, failed_turns integer,
        delivery_id bigint, message_id text, body text, tries integer)
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s' AS $$
    SELECT c.* FROM api.claim_webhook(api.next_send(), gen_random_uuid(), lease, most) c
$$;
-- +goose StatementEnd

-- Writes what has come of deliveries that one sender has sent, while nobody has claimed the webhook after it, and has the next ones sent. No delivery: the sender gives it back. retries: after
-- how many seconds each is tried again; less than 0: it is not. A status of 0: there was no answer. rest is how long its receiver is left alone. gone: it wants no more. ours: nothing was sent,
-- for a reason of ours, and it is no failure. A webhook of which everything has failed for so long is switched off.
-- +goose StatementBegin
CREATE FUNCTION api.note_deliveries(webhook integer, claimed_by uuid, deliveries bigint[], tries integer[], delivered boolean[], retries double precision[], statuses integer[], errors text[],
        rest interval, gone boolean, ours boolean, most_failing interval) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
DECLARE
    moment  timestamptz := clock_timestamp();
    arrived boolean := coalesce((SELECT bool_or(d.ok) FROM unnest(delivered) d(ok)), false);
    t       webhook_turns;
    problem text;
BEGIN
    PERFORM FROM webhooks w WHERE w.id = webhook FOR NO KEY UPDATE;
    SELECT * INTO t FROM webhook_turns n WHERE n.webhook_id = webhook FOR UPDATE;
    IF NOT FOUND OR t.sender IS DISTINCT FROM coalesce(claimed_by, t.sender) THEN   -- it was deleted meanwhile, or is another sender's
        RETURN NULL;
    END IF;
    IF t.is_changed THEN   -- it was another receiver that failed, or wants no more
        retries := ARRAY(SELECT 0::double precision FROM unnest(retries));
        gone := false;
        rest := '0';
    END IF;
    UPDATE webhook_deliveries d SET tries = d.tries + CASE WHEN ours THEN 0 ELSE 1 END, last_try_at = moment, last_status = nullif(r.status, 0), last_error = CASE WHEN NOT r.ok THEN left(r.error, 500) END,
        state = CASE WHEN r.ok THEN 'delivered' WHEN r.retry < 0 THEN 'failed' ELSE 'pending' END,
        next_at = CASE WHEN NOT r.ok AND r.retry >= 0 THEN moment + make_interval(secs => r.retry) END, ended_at = CASE WHEN r.ok OR r.retry < 0 THEN moment END
    FROM unnest(deliveries, note_deliveries.tries, delivered, retries, statuses, errors) r(id, tries, ok, retry, status, error)
    WHERE d.id = r.id AND d.webhook_id = webhook AND d.state = 'pending' AND d.tries = r.tries;
    IF arrived THEN
        t.failed_turns := 0;
        t.failing_since := NULL;
        rest := '0';
    ELSIF cardinality(deliveries) > 0 AND NOT t.is_changed AND NOT ours THEN
        t.failed_turns := least(t.failed_turns + 1, 1000);
        -- Failures that lie far apart are no long failure.
        t.failing_since := CASE WHEN t.last_failed_at > moment - interval '2 days' THEN coalesce(t.failing_since, moment) ELSE moment END;
        t.last_failed_at := moment;
    END IF;
    UPDATE webhook_turns n SET failed_turns = t.failed_turns, failing_since = t.failing_since, last_failed_at = t.last_failed_at, rest_until = moment + rest, sending_until = '-infinity', sender = NULL, is_changed = false,
        send_at = (SELECT CASE WHEN min(d.next_at) IS NOT NULL THEN greatest(min(d.next_at), moment + rest) END FROM webhook_deliveries d WHERE d.webhook_id = webhook AND d.next_at IS NOT NULL)
    WHERE n.webhook_id = webhook;
    IF gone THEN
        problem := 'its receiver answered 410 Gone: it wants no more';
    ELSIF t.failing_since <= moment - most_failing AND NOT ours AND cardinality(deliveries) > 0 THEN
        problem := format('nothing has arrived since %s; the last error: %s', to_char(t.failing_since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), coalesce(errors[1], 'none'));
    END IF;
    IF problem IS NOT NULL THEN
        UPDATE webhooks w SET enabled = false, disabled_reason = left(problem, 700) WHERE w.id = webhook AND w.enabled;
    END IF;
    RETURN problem;
END $$;
-- +goose StatementEnd

-- The same for programs that name no sender.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.note_deliveries(webhook integer, deliveries bigint[], tries integer[], delivered boolean[], retries double precision[], statuses integer[], errors text[],
        rest interval, gone boolean, ours boolean, most_failing interval) RETURNS text
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
    SELECT api.note_deliveries(webhook, NULL, deliveries, tries, delivered, retries, statuses, errors, rest, gone, ours, most_failing)
$$;
-- +goose StatementEnd

-- Operations. Whether the next batch of an operation may be taken, which the transaction holds; where not, it is ended or put off. A user has two syncs at work and two of the others, which never
-- wait for a sync that waits; the rest wait.
-- +goose StatementBegin
CREATE FUNCTION api.may_take_batch(o operations, moment timestamptz) RETURNS boolean
    LANGUAGE plpgsql AS $$
DECLARE
    b      operation_batches;
    rights record;
BEGIN
    SELECT * INTO rights FROM api.operation_rights(o);
    SELECT n.* INTO b FROM operation_batches n WHERE n.operation_id = o.id ORDER BY n.after > moment, n.no LIMIT 1;
    IF rights.role IS NULL THEN
        PERFORM api.end_operation(o.id, 'failed', rights.why);
    ELSIF o.created_at < moment - interval '1 day' THEN
        PERFORM api.end_operation(o.id, 'failed', 'it has not come to its end within a day');
    ELSIF b.no IS NULL THEN
        PERFORM api.end_operation(o.id, 'completed', NULL);
    ELSIF b.after > moment THEN
        UPDATE operations p SET next_at = b.after WHERE p.id = o.id;
    ELSIF (o.state = 'waiting' AND NOT (pg_try_advisory_xact_lock(hashtext('echomind.operations'), o.user_id)
            AND (SELECT count(*) FROM operations p WHERE p.user_id = o.user_id AND p.state = 'running' AND (p.action IN ('sync', 'enable')) = (o.action IN ('sync', 'enable'))) < 2))
        OR api.operation_waits(o) THEN
        UPDATE operations p SET next_at = moment + CASE WHEN o.state = 'waiting' OR moment - o.next_at > '1 s' THEN interval '5 seconds' ELSE interval '1 second' END WHERE p.id = o.id;
    ELSE
        RETURN true;
    END IF;
    RETURN false;
END $$;
-- +goose StatementEnd

-- Ends, or puts off, up to 60 operations whose turn it is and whose next batch may not be taken: before take_batch, in a transaction of its own, so that none holds them while a batch is done.
-- +goose StatementBegin
CREATE FUNCTION api.put_off_operations() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    o      operations;
BEGIN
    FOR looked IN 1 .. 60 LOOP
        SELECT p.* INTO o FROM operations p WHERE p.next_at <= moment ORDER BY p.next_at LIMIT 1 FOR UPDATE SKIP LOCKED;
        EXIT WHEN NOT FOUND OR api.may_take_batch(o, moment);
    END LOOP;
END $$;
-- +goose StatementEnd

-- Takes the next batch, if it may be taken, for this transaction, which holds its operation alone: a batch whose transaction is not committed was not taken. It has whom the transaction is to
-- serve. No row: there is nothing to do now.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.take_batch() RETURNS TABLE (operation integer, batch integer, action text, filter jsonb, connectors integer[], tries integer, user_id integer, token_id integer,
        issuer text, subject text, role text, groups text[], leads text[], note text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '2s' AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
    o      operations;
BEGIN
    SELECT p.* INTO o FROM operations p WHERE p.next_at <= moment ORDER BY p.next_at LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF o.id IS NULL OR NOT api.may_take_batch(o, moment) THEN
        RETURN;
    END IF;
    UPDATE operations p SET state = 'running', began_at = coalesce(p.began_at, moment) WHERE p.id = o.id;
    RETURN QUERY SELECT o.id, b.no, o.action, o.filter, b.connectors, b.tries, o.user_id, o.token_id, o.issuer, o.subject, r.role, r.groups, r.leads, o.note
        FROM (SELECT n.* FROM operation_batches n WHERE n.operation_id = o.id ORDER BY n.after > moment, n.no LIMIT 1) b CROSS JOIN api.operation_rights(o) r;
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION api.webhook_found(text, integer, boolean), api.webhook_fault(connectors, timestamptz), api.webhooks_of(integer[], text[]), api.call_webhooks(integer[]), api.next_send(), api.postpone_send(integer, interval), api.claim_webhook(integer, uuid, interval, integer), api.note_deliveries(integer, uuid, bigint[], integer[], boolean[], double precision[], integer[], text[], interval, boolean, boolean, interval), api.may_take_batch(operations, timestamptz), api.put_off_operations() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.next_send(), api.postpone_send(integer, interval), api.claim_webhook(integer, uuid, interval, integer), api.note_deliveries(integer, uuid, bigint[], integer[], boolean[], double precision[], integer[], text[], interval, boolean, boolean, interval), api.put_off_operations() TO echomind_api;

-- +goose Down
-- The functions as they were.
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
        DELETE FROM webhook_faults f WHERE f.connector_id IN (SELECT k.connector_id FROM webhook_faults k WHERE k.connector_id = ANY (found_ids) AND NOT EXISTS (SELECT FROM connectors c
            WHERE c.id = k.connector_id AND (c.at_fault OR coalesce(c.last_sync_at, c.created_at) + make_interval(mins => c.fresh_within_minutes) < moment)) FOR UPDATE SKIP LOCKED);
        l.after_id := found_ids[cardinality(found_ids)];
        IF coalesce(cardinality(found_ids), 0) < page THEN
            l.phase := 0;
            l.after_id := 0;
            l.next_at := moment + every;
        END IF;
    END IF;
    -- What is known is not written: a conflict locks its row, in each look, and waits for who deletes it.
    INSERT INTO webhook_faults AS f (connector_id, place)
    SELECT c.id, p.place FROM unnest(found_ids) i(id) JOIN connectors c ON c.id = i.id CROSS JOIN LATERAL api.webhook_place(c.type, c.user_id, c.scope, c.scope_id) p(place)
    WHERE (c.at_fault OR coalesce(c.last_sync_at, c.created_at) + make_interval(mins => c.fresh_within_minutes) < moment)
        AND NOT EXISTS (SELECT FROM webhook_faults k WHERE k.connector_id = c.id AND k.place = p.place) ORDER BY c.id
    ON CONFLICT (connector_id) DO UPDATE SET place = EXCLUDED.place WHERE f.place <> EXCLUDED.place;
    UPDATE webhook_looks SET phase = l.phase, after_type = l.after_type, after_until = l.after_until, after_id = coalesce(l.after_id, 0), next_at = l.next_at;
    RETURN l.next_at <= moment;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.next_look() RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    taken  integer;
BEGIN
    SELECT k.id INTO taken FROM webhook_turns n JOIN webhooks k ON k.id = n.webhook_id WHERE n.look_at <= moment ORDER BY n.look_at LIMIT 1 FOR NO KEY UPDATE OF k SKIP LOCKED;
    RETURN taken;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.postpone_look(webhook integer, every interval) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s' AS $$
    UPDATE webhook_turns n SET look_at = clock_timestamp() + every WHERE n.webhook_id = webhook AND n.look_at IS NOT NULL
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.look_webhook(webhook integer, every interval, page integer) RETURNS TABLE (connector_id integer, was text, state text, stands text, tells text,
        name text, type text, message text, reason text, since timestamptz, last_sync_at timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s'
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
    w      webhooks;
    t      webhook_turns;
    told   integer[];
    faults integer[];
    places text[];
BEGIN
    SELECT k.* INTO w FROM webhooks k WHERE k.id = webhook;
    SELECT n.* INTO t FROM webhook_turns n WHERE n.webhook_id = webhook AND n.look_at <= moment FOR UPDATE;
    IF NOT FOUND THEN   -- somebody else has looked meanwhile
        RETURN;
    END IF;
    IF (SELECT count(*) FROM (SELECT FROM webhook_deliveries d WHERE d.webhook_id = webhook AND d.next_at IS NOT NULL LIMIT 800) n) = 800 THEN
        UPDATE webhook_turns n SET look_at = moment + every WHERE n.webhook_id = webhook;
        RETURN;
    END IF;
    IF NOT api.serve_webhook(w) THEN
        DELETE FROM webhook_states s WHERE s.webhook_id = w.id;
        UPDATE webhook_turns n SET look_at = moment + every, after_state = 0, after_fault = 0 WHERE n.webhook_id = w.id;
        RETURN;
    END IF;
    told := ARRAY(SELECT s.connector_id FROM webhook_states s WHERE s.webhook_id = w.id AND s.connector_id > t.after_state ORDER BY s.connector_id LIMIT page);
    DELETE FROM webhook_states s WHERE s.webhook_id = w.id AND s.connector_id IN (SELECT k.connector_id FROM webhook_states k WHERE k.webhook_id = w.id AND k.connector_id = ANY (told)
        AND (k.connector_id <> w.connector_id OR NOT EXISTS (SELECT FROM api.connectors c WHERE c.id = k.connector_id)) FOR UPDATE SKIP LOCKED);
    IF t.after_fault IS NULL THEN
        faults := '{}';
    ELSIF w.connector_id IS NOT NULL THEN
        faults := ARRAY[w.connector_id];
    ELSIF api.is_superadmin() THEN
        faults := ARRAY(SELECT f.connector_id FROM webhook_faults f WHERE f.connector_id > t.after_fault ORDER BY f.connector_id LIMIT page);
    ELSE
        places := ARRAY['user:' || w.user_id, 'org'] || ARRAY(SELECT 'group:' || g.id FROM unnest(api.groups('groups')) g(id) WHERE g.id <> '')
            || CASE WHEN api.is_admin() THEN ARRAY['job'] ELSE '{}' END;
        faults := ARRAY(SELECT f.connector_id FROM unnest(places) p(place) CROSS JOIN LATERAL (SELECT n.connector_id FROM webhook_faults n
            WHERE n.place = p.place AND n.connector_id > t.after_fault ORDER BY n.connector_id LIMIT page) f ORDER BY f.connector_id LIMIT page);
    END IF;
    RETURN QUERY SELECT d.id, d.was, d.state, d.stands,
            CASE WHEN d.state <> 'ok' THEN 'connector.' || d.state WHEN 'recovered' = ANY (w.events) THEN 'connector.recovered' END,
            d.name, d.type, d.status_message, r.reason, coalesce(r.completed_at, CASE WHEN d.stands = 'stale' THEN d.fresh_until END, moment), d.last_sync_at
        -- What it is not told of is no recovery: what was told stays until the connector is well.
        FROM (SELECT h.*, CASE WHEN h.stands = ANY (w.events) THEN h.stands WHEN h.stands <> 'ok' THEN coalesce(h.was, 'ok') ELSE 'ok' END AS state
            FROM (SELECT c.id, c.name, c.type, c.status_message, c.last_sync_at, u.was, n.fresh_until, api.webhook_state(c.status, c.failure_count, coalesce(n.fresh_until < moment, false), u.was) AS stands
                FROM (SELECT s.connector_id AS id, s.state AS was FROM webhook_states s WHERE s.webhook_id = w.id AND s.connector_id = ANY (told)
                    UNION ALL
                    SELECT f.id, NULL FROM unnest(faults) f(id) WHERE NOT EXISTS (SELECT FROM webhook_states s WHERE s.webhook_id = w.id AND s.connector_id = f.id)) u
                JOIN api.connectors c ON c.id = u.id
                CROSS JOIN LATERAL (SELECT coalesce(c.last_sync_at, c.created_at) + make_interval(mins => c.fresh_within_minutes) AS fresh_until) n) h) d
        LEFT JOIN LATERAL (SELECT l.reason, l.completed_at FROM api.latest_runs(ARRAY[d.id], 3) l WHERE d.stands = 'failed' AND l.status = 'failed' ORDER BY l.started_at DESC LIMIT 1) r ON true
        WHERE d.state <> coalesce(d.was, 'ok')
        ORDER BY d.id;
    t.after_state := told[page];   -- null where there were fewer
    t.after_fault := CASE WHEN w.connector_id IS NULL THEN faults[page] END;
    IF t.after_state IS NULL AND t.after_fault IS NULL THEN
        UPDATE webhook_turns n SET look_at = moment + every, after_state = 0, after_fault = 0 WHERE n.webhook_id = w.id;
    ELSE
        UPDATE webhook_turns n SET look_at = moment, after_state = t.after_state, after_fault = t.after_fault WHERE n.webhook_id = w.id;
    END IF;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.tell_webhook(webhook integer, connectors integer[], states text[], message_ids text[], types text[], bodies text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s' AS $$
BEGIN
    DELETE FROM webhook_states s USING unnest(connectors, states) n(id, state) WHERE s.webhook_id = webhook AND s.connector_id = n.id AND n.state = 'ok';
    INSERT INTO webhook_states (webhook_id, connector_id, state) SELECT webhook, n.id, n.state FROM unnest(connectors, states) n(id, state) WHERE n.state <> 'ok'
    ON CONFLICT (webhook_id, connector_id) DO UPDATE SET state = EXCLUDED.state;
    PERFORM api.add_deliveries(webhook, message_ids, connectors, types, bodies);
EXCEPTION WHEN lock_not_available THEN
    NULL;   -- somebody deletes one of them: this page is told in the next look, and nobody else waits for it
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.claim_webhook(lease interval, most integer) RETURNS TABLE (webhook_id integer, url text, secret text, old_secret text, failed_turns integer,
        delivery_id bigint, message_id text, body text, tries integer)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '1s' AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
    w      webhooks;
    due    bigint[];
    is_served boolean;
BEGIN
    SELECT k.* INTO w FROM webhook_turns n JOIN webhooks k ON k.id = n.webhook_id WHERE n.send_at <= moment ORDER BY n.send_at LIMIT 1 FOR NO KEY UPDATE OF k SKIP LOCKED;
    IF w.id IS NULL THEN
        RETURN;
    END IF;
    PERFORM FROM webhook_turns n WHERE n.webhook_id = w.id AND n.send_at <= moment FOR UPDATE;
    IF NOT FOUND THEN   -- somebody else has taken it meanwhile: who named it would end their lease
        RETURN;
    END IF;
    RETURN QUERY SELECT w.id, w.url, w.secret, CASE WHEN w.old_secret_until > moment THEN w.old_secret END, n.failed_turns, NULL::bigint, NULL::text, NULL::text, NULL::integer
        FROM webhook_turns n WHERE n.webhook_id = w.id;
    is_served := api.serve_webhook(w);
    -- Chosen once: of those that were not asked about nothing is sent.
    due := ARRAY(SELECT o.id FROM webhook_deliveries o WHERE o.webhook_id = w.id AND o.next_at <= moment ORDER BY o.next_at, o.id LIMIT most FOR UPDATE SKIP LOCKED);
    UPDATE webhook_deliveries d SET state = 'dropped', next_at = NULL, ended_at = moment, last_error = 'the owner of the webhook does not see the connector any more'
    WHERE d.id = ANY (due)
        AND (NOT is_served OR (d.connector_id IS NOT NULL AND NOT api.sees_connector(d.connector_id)));
    UPDATE webhook_turns n SET rest_until = moment + lease, send_at = moment + lease, sending_until = moment + lease, is_changed = false WHERE n.webhook_id = w.id;
    RETURN QUERY SELECT w.id, NULL::text, NULL::text, NULL::text, NULL::integer, d.id, d.message_id, d.body, d.tries FROM webhook_deliveries d
        WHERE d.id = ANY (due) AND d.state = 'pending' ORDER BY d.next_at, d.id;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.note_deliveries(webhook integer, deliveries bigint[], tries integer[], delivered boolean[], retries double precision[], statuses integer[], errors text[],
        rest interval, gone boolean, ours boolean, most_failing interval) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '3s' AS $$
DECLARE
    moment  timestamptz := clock_timestamp();
    arrived boolean := coalesce((SELECT bool_or(d.ok) FROM unnest(delivered) d(ok)), false);
    t       webhook_turns;
    problem text;
BEGIN
    PERFORM FROM webhooks w WHERE w.id = webhook FOR NO KEY UPDATE;
    SELECT * INTO t FROM webhook_turns n WHERE n.webhook_id = webhook FOR UPDATE;
    IF NOT FOUND THEN   -- it was deleted meanwhile
        RETURN NULL;
    END IF;
    IF t.is_changed THEN   -- it was another receiver that failed, or wants no more
        retries := ARRAY(SELECT 0::double precision FROM unnest(retries));
        gone := false;
        rest := '0';
    END IF;
    UPDATE webhook_deliveries d SET tries = d.tries + CASE WHEN ours THEN 0 ELSE 1 END, last_try_at = moment, last_status = nullif(r.status, 0), last_error = CASE WHEN NOT r.ok THEN left(r.error, 500) END,
        state = CASE WHEN r.ok THEN 'delivered' WHEN r.retry < 0 THEN 'failed' ELSE 'pending' END,
        next_at = CASE WHEN NOT r.ok AND r.retry >= 0 THEN moment + make_interval(secs => r.retry) END, ended_at = CASE WHEN r.ok OR r.retry < 0 THEN moment END
    FROM unnest(deliveries, note_deliveries.tries, delivered, retries, statuses, errors) r(id, tries, ok, retry, status, error)
    WHERE d.id = r.id AND d.webhook_id = webhook AND d.state = 'pending' AND d.tries = r.tries;
    IF arrived THEN
        t.failed_turns := 0;
        t.failing_since := NULL;
        rest := '0';
    ELSIF cardinality(deliveries) > 0 AND NOT t.is_changed AND NOT ours THEN
        t.failed_turns := least(t.failed_turns + 1, 1000);
        -- Failures that lie far apart are no long failure.
        t.failing_since := CASE WHEN t.last_failed_at > moment - interval '2 days' THEN coalesce(t.failing_since, moment) ELSE moment END;
        t.last_failed_at := moment;
    END IF;
    UPDATE webhook_turns n SET failed_turns = t.failed_turns, failing_since = t.failing_since, last_failed_at = t.last_failed_at, rest_until = moment + rest, sending_until = '-infinity', is_changed = false,
        send_at = (SELECT CASE WHEN min(d.next_at) IS NOT NULL THEN greatest(min(d.next_at), moment + rest) END FROM webhook_deliveries d WHERE d.webhook_id = webhook AND d.next_at IS NOT NULL)
    WHERE n.webhook_id = webhook;
    IF gone THEN
        problem := 'its receiver answered 410 Gone: it wants no more';
    ELSIF t.failing_since <= moment - most_failing AND NOT ours THEN
        problem := format('nothing has arrived since %s; the last error: %s', to_char(t.failing_since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), coalesce(errors[1], 'none'));
    END IF;
    IF problem IS NOT NULL THEN
        UPDATE webhooks w SET enabled = false, disabled_reason = left(problem, 700) WHERE w.id = webhook AND w.enabled;
    END IF;
    RETURN problem;
END $$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.take_batch() RETURNS TABLE (operation integer, batch integer, action text, filter jsonb, connectors integer[], tries integer, user_id integer, token_id integer,
        issuer text, subject text, role text, groups text[], leads text[], note text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '2s' AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
    o      operations;
    b      operation_batches;
    rights record;
BEGIN
    FOR looked IN 1 .. 60 LOOP
        SELECT p.* INTO o FROM operations p WHERE p.next_at <= moment ORDER BY p.next_at LIMIT 1 FOR UPDATE SKIP LOCKED;
        EXIT WHEN NOT FOUND;
        SELECT * INTO rights FROM api.operation_rights(o);
        SELECT n.* INTO b FROM operation_batches n WHERE n.operation_id = o.id ORDER BY n.after > moment, n.no LIMIT 1;
        IF rights.role IS NULL THEN
            PERFORM api.end_operation(o.id, 'failed', rights.why);
        ELSIF o.created_at < moment - interval '1 day' THEN
            PERFORM api.end_operation(o.id, 'failed', 'it has not come to its end within a day');
        ELSIF b.no IS NULL THEN
            PERFORM api.end_operation(o.id, 'completed', NULL);
        ELSIF b.after > moment THEN
            UPDATE operations p SET next_at = b.after WHERE p.id = o.id;
        ELSIF (o.state = 'waiting' AND NOT (pg_try_advisory_xact_lock(hashtext('echomind.operations'), o.user_id)
                AND (SELECT count(*) FROM operations p WHERE p.user_id = o.user_id AND p.state = 'running' AND (p.action IN ('sync', 'enable')) = (o.action IN ('sync', 'enable'))) < 2))
            OR api.operation_waits(o) THEN
            UPDATE operations p SET next_at = moment + CASE WHEN o.state = 'waiting' OR moment - o.next_at > '1 s' THEN interval '5 seconds' ELSE interval '1 second' END WHERE p.id = o.id;
        ELSE
            UPDATE operations p SET state = 'running', began_at = coalesce(p.began_at, moment) WHERE p.id = o.id;
            RETURN QUERY SELECT o.id, b.no, o.action, o.filter, b.connectors, b.tries, o.user_id, o.token_id, o.issuer, o.subject, rights.role, rights.groups, rights.leads, o.note;
            RETURN;
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd
DROP FUNCTION api.put_off_operations();
DROP FUNCTION api.may_take_batch(operations, timestamptz);
DROP FUNCTION api.note_deliveries(integer, uuid, bigint[], integer[], boolean[], double precision[], integer[], text[], interval, boolean, boolean, interval);
DROP FUNCTION api.claim_webhook(integer, uuid, interval, integer);
DROP FUNCTION api.postpone_send(integer, interval);
DROP FUNCTION api.next_send();
DROP FUNCTION api.call_webhooks(integer[]);
DROP FUNCTION api.webhooks_of(integer[], text[]);
DROP FUNCTION api.webhook_fault(connectors, timestamptz);
DROP FUNCTION api.webhook_found(text, integer, boolean);
DROP INDEX group_members_group;
DROP INDEX webhooks_above_user;
ALTER TABLE webhook_faults DROP COLUMN is_told, DROP COLUMN found;
ALTER TABLE webhook_turns DROP COLUMN is_called, DROP COLUMN sender;
