-- +goose Up
-- expand
-- Very many dead letters are replayed or removed by an operation: one that goes on by itself, where requests would be sent one after the other.
ALTER TABLE operations DROP CONSTRAINT operations_action_known;
ALTER TABLE operations ADD CONSTRAINT operations_action_known CHECK (action IN ('sync', 'enable', 'disable', 'delete', 'replay', 'drop'));
ALTER TABLE operations DROP CONSTRAINT operations_matched_range;
ALTER TABLE operations ADD CONSTRAINT operations_matched_range CHECK (matched >= 1 AND (matched <= 1000000 OR action IN ('replay', 'drop')));
-- Of replay and drop: how far it has come, sealed by the service, and how often its letters were taken.
ALTER TABLE operations ADD COLUMN place text
    CONSTRAINT operations_place_length CHECK (length(place) <= 1000);
ALTER TABLE operations ADD COLUMN turn integer NOT NULL DEFAULT 0;

-- Begins an operation of the viewer on the dead letters of a filter, of which there are so many in the stream. A user has at most 12 operations that have not ended, and of those that have the
-- latest 100.
-- +goose StatementBegin
CREATE FUNCTION api.create_letters_operation(of_action text, of_filter jsonb, of_place text, letters integer, groups text[], leads text[]) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    viewer jsonb := api.viewer();
    owner  integer := api.viewer_id();
    parent access_tokens;
    made   integer;
BEGIN
    IF owner IS NULL OR NOT api.is_superadmin() THEN
        RAISE EXCEPTION 'dead letters are for superadmins' USING ERRCODE = 'insufficient_privilege';
    ELSIF of_action NOT IN ('replay', 'drop') THEN
        RAISE EXCEPTION 'action % is none of dead letters', of_action USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('echomind.operations'), owner);   -- two at once would count the same
    IF (SELECT count(*) FROM operations o WHERE o.user_id = owner AND o.ended_at IS NULL) >= 12 THEN
        RAISE EXCEPTION 'user % has 12 operations that have not ended', owner USING ERRCODE = 'check_violation', CONSTRAINT = 'operations_most';
    END IF;
    PERFORM api.drop_operation(l.id) FROM (SELECT o.id FROM operations o WHERE o.user_id = owner AND o.ended_at IS NOT NULL ORDER BY o.id DESC OFFSET 99 LIMIT 10) l;
    SELECT * INTO parent FROM access_tokens t WHERE t.id = (viewer ->> 'token_id')::integer;
    INSERT INTO operations (action, filter, user_id, token_id, by_token, issuer, subject, role, said_groups, said_leads, note, matched, left_out, place)
    VALUES (of_action, of_filter, owner, parent.id, CASE WHEN parent.name = 'browser' THEN coalesce(parent.made_through[cardinality(parent.made_through)], parent.id) ELSE parent.id END,
        viewer ->> 'issuer', viewer ->> 'subject', viewer ->> 'role', groups, leads, left(viewer ->> 'note', 2000), letters, 0, of_place) RETURNING id INTO made;
    PERFORM moves.note_change('operations.create', made::text, NULL, jsonb_build_object('action', of_action, 'filter', of_filter, 'matched', letters));
    RETURN made;
END $$;
-- +goose StatementEnd

-- Takes an operation on dead letters whose turn it is, for so long: where nobody writes down by then what came of it, the next one takes it, at the same place. One of all is at work; the others
-- wait. No row: there is nothing to do now.
-- +goose StatementBegin
CREATE FUNCTION api.take_letters(lease interval) RETURNS TABLE (operation integer, turn integer, action text, filter jsonb, place text, user_id integer, token_id integer,
        issuer text, subject text, role text, groups text[], leads text[], note text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '2s' AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
    o      operations;
    rights record;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtext('echomind.letters_operations')) THEN   -- two at once would each take one
        RETURN;
    END IF;
    FOR looked IN 1 .. 60 LOOP
        SELECT p.* INTO o FROM operations p WHERE p.next_at <= moment AND p.action IN ('replay', 'drop') ORDER BY p.next_at LIMIT 1 FOR UPDATE SKIP LOCKED;
        EXIT WHEN NOT FOUND;
        SELECT * INTO rights FROM api.operation_rights(o);
        IF rights.role IS DISTINCT FROM 'superadmin' THEN
            PERFORM api.end_operation(o.id, 'failed', coalesce(rights.why, format('dead letters are for superadmins, and user %s is none any more', o.user_id)));
        ELSIF o.began_at < moment - interval '1 day' THEN   -- those that wait for it have their own day
            PERFORM api.end_operation(o.id, 'failed', 'it has not come to its end within a day');
        ELSIF o.state = 'waiting' AND EXISTS (SELECT FROM operations p WHERE p.next_at IS NOT NULL AND p.state = 'running' AND p.action IN ('replay', 'drop')) THEN
            UPDATE operations p SET next_at = moment + interval '5 seconds' WHERE p.id = o.id;
        ELSE
            UPDATE operations p SET state = 'running', began_at = coalesce(p.began_at, moment), turn = o.turn + 1, next_at = moment + least(lease, '5 minutes') WHERE p.id = o.id;
            RETURN QUERY SELECT o.id, o.turn + 1, o.action, o.filter, o.place, o.user_id, o.token_id, o.issuer, o.subject, rights.role, rights.groups, rights.leads, o.note;
            RETURN;
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd

-- Writes down what came of the letters of a turn, and where the next one goes on: next_place null: it has come to its end; fails: why it ends before that. connectors have letters that stay, with
-- the reason. False: somebody else has taken it since, or it is gone. Of one that was cancelled meanwhile it is counted what was done.
-- +goose StatementBegin
CREATE FUNCTION api.note_letters(of_operation integer, of_turn integer, next_place text, n_done integer, n_others integer, n_left integer, connectors integer[], reasons text[], pause interval,
        fails text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    o      operations;
    moment timestamptz := clock_timestamp();
BEGIN
    SELECT p.* INTO o FROM operations p WHERE p.id = of_operation AND p.turn = of_turn AND p.action IN ('replay', 'drop') AND p.state IN ('running', 'cancelled') FOR UPDATE;
    IF o.id IS NULL THEN
        RETURN false;
    END IF;
    INSERT INTO operation_results (operation_id, connector_id, result, reason)
    SELECT o.id, r.id, 'failed', left(r.reason, 1000) FROM unnest(connectors, reasons) r(id, reason)
    LIMIT greatest(0, 10000 - (SELECT count(*) FROM operation_results n WHERE n.operation_id = o.id)) ON CONFLICT DO NOTHING;
    UPDATE operations p SET changed = p.changed + n_done, failed = p.failed + n_left, skipped = least(p.skipped + n_others, greatest(p.skipped, p.matched - p.changed - p.failed - n_done - n_left)),
        place = coalesce(next_place, p.place), batch_at = moment, next_at = CASE WHEN p.ended_at IS NULL THEN moment + pause END
    WHERE p.id = o.id;
    IF fails IS NOT NULL THEN
        PERFORM api.end_operation(o.id, 'failed', fails);
    ELSIF next_place IS NULL THEN
        PERFORM api.end_operation(o.id, 'completed', NULL);
    END IF;
    RETURN true;
END $$;
-- +goose StatementEnd

-- The functions of operations on connectors leave those on letters alone: also those of a service of before.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.put_off_operations() RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    o      operations;
BEGIN
    FOR looked IN 1 .. 60 LOOP
        SELECT p.* INTO o FROM operations p WHERE p.next_at <= moment AND p.action NOT IN ('replay', 'drop') ORDER BY p.next_at LIMIT 1 FOR UPDATE SKIP LOCKED;
        EXIT WHEN NOT FOUND OR api.may_take_batch(o, moment);
    END LOOP;
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
BEGIN
    SELECT p.* INTO o FROM operations p WHERE p.next_at <= moment AND p.action NOT IN ('replay', 'drop') ORDER BY p.next_at LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF o.id IS NULL OR NOT api.may_take_batch(o, moment) THEN
        RETURN;
    END IF;
    UPDATE operations p SET state = 'running', began_at = coalesce(p.began_at, moment) WHERE p.id = o.id;
    RETURN QUERY SELECT o.id, b.no, o.action, o.filter, b.connectors, b.tries, o.user_id, o.token_id, o.issuer, o.subject, r.role, r.groups, r.leads, o.note
        FROM (SELECT n.* FROM operation_batches n WHERE n.operation_id = o.id ORDER BY n.after > moment, n.no LIMIT 1) b CROSS JOIN api.operation_rights(o) r;
END $$;
-- +goose StatementEnd

REVOKE ALL ON FUNCTION api.create_letters_operation(text, jsonb, text, integer, text[], text[]), api.take_letters(interval),
    api.note_letters(integer, integer, text, integer, integer, integer, integer[], text[], interval, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.create_letters_operation(text, jsonb, text, integer, text[], text[]), api.take_letters(interval),
    api.note_letters(integer, integer, text, integer, integer, integer, integer[], text[], interval, text) TO echomind_api;

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.put_off_operations() RETURNS void
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
DROP FUNCTION api.note_letters(integer, integer, text, integer, integer, integer, integer[], text[], interval, text);
DROP FUNCTION api.take_letters(interval);
DROP FUNCTION api.create_letters_operation(text, jsonb, text, integer, text[], text[]);
DELETE FROM operation_results r USING operations o WHERE o.id = r.operation_id AND o.action IN ('replay', 'drop');
DELETE FROM operations WHERE action IN ('replay', 'drop');
ALTER TABLE operations DROP COLUMN turn;
ALTER TABLE operations DROP COLUMN place;
ALTER TABLE operations DROP CONSTRAINT operations_matched_range;
ALTER TABLE operations ADD CONSTRAINT operations_matched_range CHECK (matched BETWEEN 1 AND 1000000);
ALTER TABLE operations DROP CONSTRAINT operations_action_known;
ALTER TABLE operations ADD CONSTRAINT operations_action_known CHECK (action IN ('sync', 'enable', 'disable', 'delete'));
