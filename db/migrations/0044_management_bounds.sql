-- +goose Up
-- expand
-- The management plane: what one transaction, request or sweep of it holds, writes and leaves.

-- Compares a page of how connectors stand with what one webhook was told, which next_look has taken. The rows are what tell_webhook writes in the same transaction: what is to be told; and, with the state ok and no type, what
-- its owner does not see any more, which is forgotten. No connector's row is held before that: the service is at work between the two. While 800 deliveries wait there is no look: what is told later is how connectors stand then.
-- One that is not called meanwhile is looked at again after about every: what its owner sees may have changed.
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
    served boolean;
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
    served := api.serve_webhook(w);
    t.is_called := t.is_called AND (t.after_state IS DISTINCT FROM 0 OR t.after_fault IS DISTINCT FROM 0);   -- it was called before it begins
    told := ARRAY(SELECT s.connector_id FROM webhook_states s WHERE s.webhook_id = w.id AND s.connector_id > t.after_state ORDER BY s.connector_id LIMIT page);
    RETURN QUERY SELECT s.connector_id, s.state, 'ok', 'ok', NULL, NULL, NULL, NULL, NULL, NULL::timestamptz, NULL::timestamptz FROM webhook_states s
        WHERE s.webhook_id = w.id AND s.connector_id = ANY (told)
            AND (NOT served OR s.connector_id <> w.connector_id OR NOT EXISTS (SELECT FROM api.connectors c WHERE c.id = s.connector_id));
    IF t.after_fault IS NULL OR NOT served THEN
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
                FROM (SELECT s.connector_id AS id, s.state AS was FROM webhook_states s WHERE s.webhook_id = w.id AND s.connector_id = ANY (told) AND coalesce(s.connector_id = w.connector_id, true)
                    UNION ALL
                    SELECT f.id, NULL FROM unnest(faults) f(id) WHERE NOT EXISTS (SELECT FROM webhook_states s WHERE s.webhook_id = w.id AND s.connector_id = f.id)) u
                JOIN api.connectors c ON c.id = u.id
                CROSS JOIN LATERAL (SELECT coalesce(c.last_sync_at, c.created_at) + make_interval(mins => c.fresh_within_minutes) AS fresh_until) n) h) d
        LEFT JOIN LATERAL (SELECT l.reason, l.completed_at FROM api.latest_runs(ARRAY[d.id], 3) l WHERE d.stands = 'failed' AND l.status = 'failed' ORDER BY l.started_at DESC LIMIT 1) r ON true
        WHERE served AND d.state <> coalesce(d.was, 'ok')
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

-- Writes what one webhook is told, and that it was: states are what connectors are now, ok of those that are well again, or forgotten; of those whose type is empty nothing is sent.
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

-- Removes a batch each of entries of the audit that are older than the retention, of tokens that are over for as long, and of keys of requests and of consents that are over for a day. Says how many.
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

-- Says which user a subject of an issuer is, behind who removes that user at the same time: a removal unlinks it, or is taken back.
-- +goose StatementBegin
CREATE FUNCTION moves.link_identity(of_issuer text, of_subject text, of_user integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('api.user'), of_user);
    DELETE FROM removed_users r WHERE r.user_id = of_user;   -- also of a link that there is, whose user was removed by another way
    INSERT INTO identities AS i (issuer, subject, user_id) VALUES (of_issuer, of_subject, of_user)
        ON CONFLICT (issuer, subject) DO UPDATE SET user_id = EXCLUDED.user_id, made_at = NULL WHERE i.user_id IS DISTINCT FROM EXCLUDED.user_id;
END $$;
-- +goose StatementEnd

-- Says which user a subject of an issuer is; null: nobody any more, of a subject that is known. It says whether there is such a subject.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.link_identity(of_issuer text, of_subject text, of_user integer) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT api.is_superadmin() THEN
        RAISE EXCEPTION 'superadmins alone say who users are' USING ERRCODE = 'insufficient_privilege';
    ELSIF of_user IS NULL THEN
        UPDATE identities i SET user_id = NULL WHERE i.issuer = of_issuer AND i.subject = of_subject;
        RETURN FOUND;
    END IF;
    PERFORM moves.link_identity(of_issuer, of_subject, of_user);
    RETURN true;
END $$;
-- +goose StatementEnd

-- has_superadmin: those who are written down, and tokens that may write users.
CREATE INDEX users_superadmins ON users (user_id) WHERE role = 'superadmin';
CREATE INDEX access_tokens_superadmins ON access_tokens (id) WHERE role = 'superadmin' AND 'admin' = ANY (scopes) AND revoked_at IS NULL AND name IS DISTINCT FROM 'browser';

-- Whether there is a superadmin who may write users: by a token; or one who is written down, where people sign in. Who takes a role, or removes a user, asks it after that: of two who do so to each other the second sees what the first did.
-- +goose StatementBegin
CREATE FUNCTION moves.has_superadmin(signs_in boolean) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('echomind.superadmins'));
    RETURN EXISTS (SELECT FROM users u WHERE u.role = 'superadmin' AND signs_in AND NOT EXISTS (SELECT FROM removed_users r WHERE r.user_id = u.user_id))
        OR EXISTS (SELECT FROM access_tokens t WHERE t.role = 'superadmin' AND 'admin' = ANY (t.scopes) AND t.revoked_at IS NULL AND t.name IS DISTINCT FROM 'browser'
            AND coalesce(t.expires_at > (SELECT clock_timestamp()), true) AND api.role_now(t.id) = 'superadmin');
END $$;
-- +goose StatementEnd

-- Removes a user, for a superadmin: their tokens are revoked, their role is forgotten, no issuer signs them in, and they leave up to most groups. more: they are in others still. Asked again with goes_on it goes on with these, unless the user is removed
-- no more.
-- +goose StatementBegin
CREATE FUNCTION api.remove_user_part(of_user integer, most integer, goes_on boolean, OUT tokens_revoked bigint, OUT unlinked bigint, OUT more boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    bound text;
BEGIN
    PERFORM api.lock_user(of_user);
    tokens_revoked := 0;
    unlinked := 0;
    more := false;
    IF NOT goes_on THEN
        UPDATE access_tokens t SET revoked_at = clock_timestamp()
            WHERE t.user_id = of_user AND t.revoked_at IS NULL AND coalesce(t.expires_at, 'infinity') > (SELECT clock_timestamp());
        GET DIAGNOSTICS tokens_revoked = ROW_COUNT;
        UPDATE identities i SET user_id = NULL WHERE i.user_id = of_user;
        GET DIAGNOSTICS unlinked = ROW_COUNT;
        DELETE FROM users u WHERE u.user_id = of_user;
        INSERT INTO removed_users VALUES (of_user) ON CONFLICT DO NOTHING;
    ELSIF NOT EXISTS (SELECT FROM removed_users r WHERE r.user_id = of_user) THEN
        RETURN;
    END IF;
    SELECT o.group_id INTO bound FROM group_members o WHERE o.user_id = of_user ORDER BY o.group_id OFFSET most - 1 LIMIT 1;
    more := FOUND;
    DELETE FROM group_members m WHERE m.user_id = of_user AND m.group_id <= coalesce(bound, (SELECT max(o.group_id) FROM group_members o WHERE o.user_id = of_user));
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION moves.link_identity(text, text, integer), moves.has_superadmin(boolean), api.remove_user_part(integer, integer, boolean) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION moves.link_identity(text, text, integer), moves.has_superadmin(boolean) TO echomind_console;
GRANT EXECUTE ON FUNCTION moves.has_superadmin(boolean), api.remove_user_part(integer, integer, boolean) TO echomind_api;

-- +goose Down
DROP FUNCTION api.remove_user_part(integer, integer, boolean);
DROP FUNCTION moves.has_superadmin(boolean);
DROP INDEX access_tokens_superadmins;
DROP INDEX users_superadmins;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.link_identity(of_issuer text, of_subject text, of_user integer) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT api.is_superadmin() THEN
        RAISE EXCEPTION 'superadmins alone say who users are' USING ERRCODE = 'insufficient_privilege';
    ELSIF of_user IS NULL THEN
        UPDATE identities i SET user_id = NULL WHERE i.issuer = of_issuer AND i.subject = of_subject;
        RETURN FOUND;
    END IF;
    PERFORM api.lock_user(of_user);   -- a removal at the same time unlinks it, or is taken back
    DELETE FROM removed_users r WHERE r.user_id = of_user;   -- also of a link that there is, whose user was removed by another way
    INSERT INTO identities AS i (issuer, subject, user_id) VALUES (of_issuer, of_subject, of_user)
        ON CONFLICT (issuer, subject) DO UPDATE SET user_id = EXCLUDED.user_id, made_at = NULL WHERE i.user_id IS DISTINCT FROM EXCLUDED.user_id;
    RETURN true;
END $$;
-- +goose StatementEnd
DROP FUNCTION moves.link_identity(text, text, integer);
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
END $$;
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
