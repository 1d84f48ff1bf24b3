-- +goose Up
-- expand
-- Bulk operations: one action on all connectors that match a filter, which any services/api works off in batches. See docs/adr/0043.

CREATE TABLE operations (
    id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    action      text NOT NULL
        CONSTRAINT operations_action_known CHECK (action IN ('sync', 'enable', 'disable', 'delete')),
    -- As it was asked. A connector that does not match it any more when its turn comes is left out.
    filter      jsonb NOT NULL
        CONSTRAINT operations_filter_form CHECK (jsonb_typeof(filter) = 'object' AND octet_length(filter::text) <= 8192),
    user_id     integer NOT NULL
        CONSTRAINT operations_user_id_positive CHECK (user_id > 0),
    -- With which token it was asked for, and which must count while it goes on: of a browser's session the one that it was begun with.
    token_id    integer,
    by_token    integer,
    -- Who has said that it is this user, and by which name; null: a token has.
    issuer      text,
    subject     text,
    -- What its user was then. Its changes are made with that, or with less where they are less by now.
    role        text NOT NULL
        CONSTRAINT operations_role_known CHECK (role IN ('user', 'admin', 'superadmin')),
    -- The groups that the issuer has said; those of group_members are looked up.
    said_groups text[] NOT NULL DEFAULT '{}',
    said_leads  text[] NOT NULL DEFAULT '{}',
    note        text
        CONSTRAINT operations_note_length CHECK (length(note) <= 2000),
    state       text NOT NULL DEFAULT 'waiting'
        CONSTRAINT operations_state_known CHECK (state IN ('waiting', 'running', 'completed', 'cancelled', 'failed')),
    error       text
        CONSTRAINT operations_error_length CHECK (length(error) <= 2000),
    -- The connectors that it is to change, and those that matched and that its user might not change.
    matched     integer NOT NULL
        CONSTRAINT operations_matched_range CHECK (matched BETWEEN 1 AND 1000000),
    left_out    integer NOT NULL,
    -- What came of them so far.
    changed     integer NOT NULL DEFAULT 0,
    unchanged   integer NOT NULL DEFAULT 0,
    skipped     integer NOT NULL DEFAULT 0,
    failed      integer NOT NULL DEFAULT 0,
    -- Of a sync: those that it has triggered and that were not claimed at the last look. Of an enable: those that are due by it.
    unbegun   integer[] NOT NULL DEFAULT '{}',
    -- When its last batch was done.
    batch_at    timestamptz,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    began_at    timestamptz,
    ended_at    timestamptz,
    -- When its next batch may be taken.
    next_at     timestamptz DEFAULT clock_timestamp()
        CONSTRAINT operations_ended_has_no_next CHECK ((ended_at IS NULL) = (next_at IS NOT NULL))
);
-- take_batch: whose turn it is.
CREATE INDEX operations_next ON operations (next_at) WHERE next_at IS NOT NULL;
-- Operations: those of a user, the latest first.
CREATE INDEX operations_user ON operations (user_id, id);
-- forget_operations: those that ended long ago.
CREATE INDEX operations_ended ON operations (ended_at) WHERE ended_at IS NOT NULL;

-- The connectors that an operation has not come to yet.
CREATE TABLE operation_batches (
    operation_id integer,
    no           integer,
    connectors   integer[] NOT NULL,
    -- How often somebody else has held them, and when they are tried again.
    tries        integer NOT NULL DEFAULT 0,
    after        timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (operation_id, no)
);

-- Connectors that an operation has not changed, with the reason. Those that stood so already are only counted, and so are those behind the first 10,000.
CREATE TABLE operation_results (
    operation_id integer,
    connector_id integer,
    result       text NOT NULL
        CONSTRAINT operation_results_known CHECK (result IN ('skipped', 'failed')),
    reason       text NOT NULL
        CONSTRAINT operation_results_reason_length CHECK (length(reason) <= 1000),
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (operation_id, connector_id)
);

-- Everybody sees their own operations.
CREATE VIEW api.operations AS
SELECT o.id, o.action, o.filter, o.user_id, o.state, o.error, o.matched, o.left_out, o.changed, o.unchanged, o.skipped, o.failed, cardinality(o.unbegun) AS unbegun,
    o.created_at, o.began_at, o.ended_at
FROM operations o WHERE o.user_id = api.viewer_id() OR api.is_superadmin();

CREATE VIEW api.operation_results AS
SELECT r.operation_id, r.connector_id, r.result, r.reason, r.at FROM operation_results r
WHERE EXISTS (SELECT FROM api.operations o WHERE o.id = r.operation_id);

-- Removes an operation that has ended, with its results.
-- +goose StatementBegin
CREATE FUNCTION api.drop_operation(operation integer) RETURNS void
    LANGUAGE sql AS $$
    DELETE FROM operation_results r WHERE r.operation_id = operation;
    DELETE FROM operations o WHERE o.id = operation AND o.ended_at IS NOT NULL
$$;
-- +goose StatementEnd

-- Ends an operation; the next one of its user that waits need wait no longer.
-- +goose StatementBegin
CREATE FUNCTION api.end_operation(operation integer, becomes text, why text) RETURNS void
    LANGUAGE sql AS $$
    UPDATE operations o SET state = becomes, error = left(why, 2000), ended_at = clock_timestamp(), next_at = NULL, unbegun = '{}'
    WHERE o.id = operation AND o.ended_at IS NULL;
    DELETE FROM operation_batches b WHERE b.operation_id = operation;
    UPDATE operations o SET next_at = clock_timestamp() WHERE o.id = (SELECT n.id FROM operations n
        WHERE n.user_id = (SELECT p.user_id FROM operations p WHERE p.id = operation) AND n.state = 'waiting' ORDER BY n.id LIMIT 1 FOR UPDATE SKIP LOCKED)
$$;
-- +goose StatementEnd

-- Begins an operation of the viewer on connectors that they may change, in batches. What they may is looked at again with each batch. A user has at most 12 that have not
-- ended, and of those that have the latest 100.
-- +goose StatementBegin
CREATE FUNCTION api.create_operation(of_action text, of_filter jsonb, connectors integer[], not_theirs integer, groups text[], leads text[], size integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    viewer jsonb := api.viewer();
    owner  integer := api.viewer_id();
    parent access_tokens;
    made   integer;
BEGIN
    IF owner IS NULL THEN
        RAISE EXCEPTION 'an operation is somebody''s' USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('echomind.operations'), owner);   -- two at once would count the same
    IF (SELECT count(*) FROM operations o WHERE o.user_id = owner AND o.ended_at IS NULL) >= 12 THEN
        RAISE EXCEPTION 'user % has 12 operations that have not ended', owner USING ERRCODE = 'check_violation', CONSTRAINT = 'operations_most';
    END IF;
    PERFORM api.drop_operation(l.id) FROM (SELECT o.id FROM operations o WHERE o.user_id = owner AND o.ended_at IS NOT NULL ORDER BY o.id DESC OFFSET 99 LIMIT 10) l;
    SELECT * INTO parent FROM access_tokens t WHERE t.id = (viewer ->> 'token_id')::integer;
    INSERT INTO operations (action, filter, user_id, token_id, by_token, issuer, subject, role, said_groups, said_leads, note, matched, left_out)
    VALUES (of_action, of_filter, owner, parent.id, CASE WHEN parent.name = 'browser' THEN coalesce(parent.made_through[cardinality(parent.made_through)], parent.id) ELSE parent.id END,
        viewer ->> 'issuer', viewer ->> 'subject', viewer ->> 'role', groups, leads, left(viewer ->> 'note', 2000), cardinality(connectors), not_theirs) RETURNING id INTO made;
    INSERT INTO operation_batches (operation_id, no, connectors)
    SELECT made, (c.place - 1) / size, array_agg(c.id ORDER BY c.place) FROM unnest(connectors) WITH ORDINALITY c(id, place) GROUP BY 2;
    PERFORM moves.note_change('operations.create', made::text, NULL, jsonb_build_object('action', of_action, 'filter', of_filter, 'matched', cardinality(connectors), 'left_out', not_theirs));
    RETURN made;
END $$;
-- +goose StatementEnd

-- What the user of an operation may now: the lesser of what they were and of what is written down. No role: nothing, and why.
-- +goose StatementBegin
CREATE FUNCTION api.operation_rights(o operations, OUT role text, OUT groups text[], OUT leads text[], OUT why text)
    LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    stands integer := api.rank(o.role);
    now_   integer;
BEGIN
    IF o.by_token IS NOT NULL THEN
        now_ := api.rank(api.role_now(o.by_token));
        IF now_ IS NULL THEN
            why := format('token %s, with which it was asked for, does not count any more', o.by_token);
            RETURN;
        END IF;
    ELSIF EXISTS (SELECT FROM removed_users r WHERE r.user_id = o.user_id)
        OR EXISTS (SELECT FROM identities i WHERE i.issuer = o.issuer AND i.subject = o.subject AND i.user_id IS DISTINCT FROM o.user_id) THEN
        why := format('whom %s calls %s is not user %s any more', o.issuer, o.subject, o.user_id);
        RETURN;
    ELSE
        now_ := (SELECT api.rank(u.role) FROM users u WHERE u.user_id = o.user_id);
    END IF;
    role := (ARRAY['user', 'admin', 'superadmin'])[least(stands, now_)];
    SELECT coalesce(array_agg(g.group_id), '{}') || o.said_groups, coalesce(array_agg(g.group_id) FILTER (WHERE g.leads), '{}') || o.said_leads INTO groups, leads
        FROM (SELECT * FROM group_members m WHERE m.user_id = o.user_id ORDER BY m.group_id LIMIT 1000) g;
END $$;
-- +goose StatementEnd

-- Whether a sync, or an enable, is to wait: 100 connectors that are due by it have not begun. It writes down which. An enable does not wait longer than 5 seconds for those that nobody claims:
-- a cap, or a window, keeps them, and there each owner has their turn. Nor longer than a minute for a worker: that of one type may be away, and what is of others would fail with the day.
-- +goose StatementBegin
CREATE FUNCTION api.operation_waits(o operations) RETURNS boolean
    LANGUAGE plpgsql AS $$
DECLARE
    left_ integer[];
    is_recent boolean := o.action = 'sync' OR o.batch_at > clock_timestamp() - interval '5 seconds';
BEGIN
    IF o.unbegun = '{}' THEN
        RETURN false;
    END IF;
    left_ := ARRAY(SELECT c.id FROM unnest(o.unbegun) u(id), LATERAL (SELECT k.id FROM connectors k
        WHERE k.id = u.id AND (o.action = 'enable' OR k.trigger_requested_at IS NOT NULL) AND ((k.status = 'PENDING' AND (o.action = 'sync' OR o.batch_at > clock_timestamp() - interval '1 minute')) OR (is_recent AND k.due_at <= clock_timestamp())) OFFSET 0) c);
    UPDATE operations p SET unbegun = left_ WHERE p.id = o.id;
    RETURN cardinality(left_) >= 100;
END $$;
-- +goose StatementEnd

-- Takes the next batch that may be taken, for this transaction: a batch whose transaction is not committed was not taken. It has whom the transaction is to serve. A user has
-- two syncs at work and two of the others, which never wait for a sync that waits; the rest wait. No row: there is nothing to do now.
-- +goose StatementBegin
CREATE FUNCTION api.take_batch() RETURNS TABLE (operation integer, batch integer, action text, filter jsonb, connectors integer[], tries integer, user_id integer, token_id integer,
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

-- Writes down what came of a batch, in the transaction that took it. rest: those that it has not come to; again: those that somebody else holds; triggered: who is due by it.
-- The next batch may be taken after a pause.
-- +goose StatementBegin
CREATE FUNCTION api.note_batch(of_operation integer, of_batch integer, n_changed integer, n_unchanged integer, ids integer[], results text[], reasons text[],
    rest integer[], again integer[], triggered integer[], pause interval) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    o      operations;
    b      operation_batches;
    moment timestamptz := clock_timestamp();
BEGIN
    SELECT p.* INTO o FROM operations p WHERE p.id = of_operation AND p.state = 'running' FOR UPDATE;
    SELECT n.* INTO b FROM operation_batches n WHERE n.operation_id = of_operation AND n.no = of_batch FOR UPDATE;
    IF o.id IS NULL OR b.no IS NULL THEN
        RAISE EXCEPTION 'batch % of operation % is not at work', of_batch, of_operation USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    INSERT INTO operation_results (operation_id, connector_id, result, reason)
    SELECT o.id, r.id, r.result, left(r.reason, 1000) FROM unnest(ids, results, reasons) r(id, result, reason)
    LIMIT greatest(0, 10000 - o.skipped - o.failed) ON CONFLICT DO NOTHING;
    IF rest = '{}' THEN
        DELETE FROM operation_batches n WHERE n.operation_id = o.id AND n.no = b.no;
    ELSE
        UPDATE operation_batches n SET connectors = rest WHERE n.operation_id = o.id AND n.no = b.no;
    END IF;
    IF again <> '{}' THEN
        INSERT INTO operation_batches (operation_id, no, connectors, tries, after)
        SELECT o.id, greatest(b.no, max(n.no)) + 1, again, b.tries + 1, moment + (b.tries + 1) * interval '2 seconds' FROM operation_batches n WHERE n.operation_id = o.id;
    END IF;
    UPDATE operations p SET changed = p.changed + n_changed, unchanged = p.unchanged + n_unchanged, unbegun = p.unbegun || triggered, batch_at = moment, next_at = moment + pause,
        skipped = p.skipped + (SELECT count(*) FROM unnest(results) r WHERE r = 'skipped'), failed = p.failed + (SELECT count(*) FROM unnest(results) r WHERE r = 'failed')
    WHERE p.id = o.id;
    IF NOT EXISTS (SELECT FROM operation_batches n WHERE n.operation_id = o.id) THEN
        PERFORM api.end_operation(o.id, 'completed', NULL);
    END IF;
END $$;
-- +goose StatementEnd

-- Says that the transaction of a batch was lost, or took too long: other operations come first. A batch is tried in halves, so that one connector does not stop the others; one that
-- is alone has failed after so many tries.
-- +goose StatementBegin
CREATE FUNCTION api.put_off_batch(of_operation integer, of_batch integer, most integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    o      operations;
    b      operation_batches;
    moment timestamptz := clock_timestamp();
    half   integer;
BEGIN
    SELECT p.* INTO o FROM operations p WHERE p.id = of_operation AND p.ended_at IS NULL FOR UPDATE;
    SELECT n.* INTO b FROM operation_batches n WHERE n.operation_id = o.id AND n.no = of_batch FOR UPDATE;
    IF b.no IS NULL THEN
        RETURN;
    END IF;
    half := cardinality(b.connectors) / 2;
    UPDATE operation_batches n SET connectors = b.connectors[half + 1:], tries = b.tries + (half = 0)::integer, after = moment + interval '2 seconds'
        WHERE n.operation_id = o.id AND n.no = b.no;
    IF half > 0 THEN
        INSERT INTO operation_batches (operation_id, no, connectors, tries)
        SELECT o.id, max(n.no) + 1, b.connectors[:half], b.tries FROM operation_batches n WHERE n.operation_id = o.id;
    ELSIF b.tries + 1 >= most THEN
        DELETE FROM operation_batches n WHERE n.operation_id = o.id AND n.no = b.no;
        INSERT INTO operation_results (operation_id, connector_id, result, reason)
        SELECT o.id, b.connectors[1], 'failed', format('It could not be changed, at each of %s tries.', most) WHERE o.skipped + o.failed < 10000 ON CONFLICT DO NOTHING;
    END IF;
    UPDATE operations p SET next_at = moment + interval '1 second', failed = p.failed + (half = 0 AND b.tries + 1 >= most)::integer WHERE p.id = o.id;
    IF NOT EXISTS (SELECT FROM operation_batches n WHERE n.operation_id = o.id) THEN
        PERFORM api.end_operation(o.id, 'completed', NULL);
    END IF;
END $$;
-- +goose StatementEnd

-- Ends an operation that the viewer sees; what it has done stays done. False: it has ended already. Null: they see none.
-- +goose StatementBegin
CREATE FUNCTION api.cancel_operation(operation integer) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '4s' AS $$
DECLARE
    o operations;
BEGIN
    SELECT p.* INTO o FROM operations p WHERE p.id = operation AND (p.user_id = api.viewer_id() OR api.is_superadmin()) FOR UPDATE;
    IF o.id IS NULL THEN
        RETURN NULL;
    ELSIF o.ended_at IS NOT NULL THEN
        RETURN false;
    END IF;
    PERFORM api.end_operation(o.id, 'cancelled', NULL);
    PERFORM moves.note_change('operations.cancel', o.id::text, NULL, jsonb_build_object('changed', o.changed, 'matched', o.matched));
    RETURN true;
END $$;
-- +goose StatementEnd

-- Removes an operation that ended so long ago, with its results. False: there is none.
-- +goose StatementBegin
CREATE FUNCTION api.forget_operation(retention interval) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    old integer := (SELECT l.id FROM (SELECT o.id FROM operations o WHERE o.ended_at < clock_timestamp() - greatest(retention, '1 day')
        ORDER BY o.ended_at LIMIT 1 FOR UPDATE SKIP LOCKED) l);
BEGIN
    PERFORM api.drop_operation(old) WHERE old IS NOT NULL;
    RETURN old IS NOT NULL;
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION api.drop_operation(integer), api.end_operation(integer, text, text), api.create_operation(text, jsonb, integer[], integer, text[], text[], integer),
    api.operation_rights(operations), api.operation_waits(operations), api.take_batch(),
    api.note_batch(integer, integer, integer, integer, integer[], text[], text[], integer[], integer[], integer[], interval), api.put_off_batch(integer, integer, integer), api.cancel_operation(integer), api.forget_operation(interval) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.create_operation(text, jsonb, integer[], integer, text[], text[], integer), api.take_batch(),
    api.note_batch(integer, integer, integer, integer, integer[], text[], text[], integer[], integer[], integer[], interval), api.put_off_batch(integer, integer, integer), api.cancel_operation(integer), api.forget_operation(interval) TO echomind_api;
GRANT SELECT ON api.operations, api.operation_results TO echomind_api;

-- +goose Down
DROP FUNCTION api.forget_operation(interval);
DROP FUNCTION api.cancel_operation(integer);
DROP FUNCTION api.put_off_batch(integer, integer, integer);
DROP FUNCTION api.note_batch(integer, integer, integer, integer, integer[], text[], text[], integer[], integer[], integer[], interval);
DROP FUNCTION api.take_batch();
DROP FUNCTION api.operation_waits(operations);
DROP FUNCTION api.operation_rights(operations);
DROP FUNCTION api.create_operation(text, jsonb, integer[], integer, text[], text[], integer);
DROP FUNCTION api.end_operation(integer, text, text);
DROP FUNCTION api.drop_operation(integer);
DROP VIEW api.operation_results;
DROP VIEW api.operations;
DROP TABLE operation_results;
DROP TABLE operation_batches;
DROP TABLE operations;
