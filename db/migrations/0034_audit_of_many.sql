-- +goose Up
-- expand
-- The audit took most of what it costs to write a new connector: 0.8 ms, in an import or by SQL as for a person who adds one. What comes in one statement is noted in one; and the
-- functions that say what is shown keep their plans: one in SQL that is called by one in PL/pgSQL, and cannot be written into its caller's statement, is planned at each call.

-- Of a connector what users write, as the audit shows it. What only moves write, and who it was that wrote, is said elsewhere.
-- +goose StatementBegin
CREATE FUNCTION moves.written(of connectors) RETURNS jsonb
    LANGUAGE sql STABLE AS $$
    SELECT to_jsonb(of) - ARRAY['status', 'status_message', 'config_version', 'added_version', 'synced_version', 'listed_version', 'state', 'listing',
        'last_sync_at', 'next_sync_at', 'due_reason', 'slot_at', 'slots_through', 'planned_through', 'needs_plan', 'claimed_at', 'claimed_for', 'synced_for',
        'deletions_allowed_at', 'next_parameters', 'parameters_due_at', 'kept_plan', 'due_at', 'run_id', 'failure_count', 'docs_analyzed', 'put_off_since', 'at_fault', 'trigger_requested_at',
        'created_at', 'created_by', 'updated_at', 'updated_by', 'over_at', 'wanted', 'condition_met_at', 'asks_condition', 'waits_for_key', 'follows', 'followed', 'upstreams_met_at',
        'asks_upstreams']
$$;
-- +goose StatementEnd

-- Of two rows the columns that differ, as the audit shows them: all of them where there is no other row, none where there is none of the first.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION moves.differing(of jsonb, from_ jsonb) RETURNS jsonb
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF of IS NULL THEN
        RETURN '{}';
    ELSIF from_ IS NULL THEN
        RETURN CASE WHEN of ? 'config' THEN of || jsonb_build_object('config', moves.kept_config(of -> 'config', NULL)) ELSE of END;
    END IF;
    RETURN (SELECT coalesce(jsonb_object_agg(k.key, CASE k.key WHEN 'config' THEN moves.kept_config(k.value, from_ -> 'config') ELSE k.value END), '{}')
        FROM jsonb_each(of) k
        WHERE k.value IS DISTINCT FROM from_ -> k.key);
END $$;
-- +goose StatementEnd

-- Whether what an object has under a key is a secret: by the key's name, or by the name that stands beside it, as in {"name": "password", "value": …}.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION moves.is_secret_in(of jsonb, key text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN moves.is_secret_name(key) OR (lower(key) IN ('value', 'values') AND EXISTS (SELECT FROM jsonb_each_text(of) n
        WHERE lower(n.key) IN ('name', 'header', 'id', 'field') AND moves.is_secret_name(n.value)));
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION connectors_audit_added() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO audit (source, login, person, user_id, token_id, issuer, subject, request_id, note, action, object_id, connector_id, type, owner_id, scope, scope_id, after)
    SELECT a.source, session_user, a.person, a.user_id, a.token_id, a.issuer, a.subject, a.request_id, a.note, 'connectors.create', c.id::text,
        c.id, c.type, c.user_id, c.scope, c.scope_id, moves.differing(moves.written(c), NULL)
    FROM moves.actor() a CROSS JOIN added c
    ORDER BY c.id;
    RETURN NULL;
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION connectors_audit() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    old_row jsonb := moves.written(OLD);
    new_row jsonb;
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM moves.note_change('connectors.delete', OLD.id::text, moves.differing(old_row, NULL), NULL, OLD);
        RETURN NULL;
    END IF;
    new_row := moves.written(NEW);
    IF TG_NAME = 'connectors_noted_triggered' THEN
        PERFORM moves.note_change('connectors.sync', NEW.id::text, NULL, NULL, NEW);
    ELSIF new_row <> old_row AND current_setting('echomind.resealing', true) IS NOT DISTINCT FROM 'on' AND connector_resealed(OLD, NEW) THEN
        PERFORM moves.note_change('connectors.reseal', NEW.id::text, jsonb_build_object('config', moves.fingerprint(OLD.config::text)),
            jsonb_build_object('config', moves.fingerprint(NEW.config::text)), NEW);
    ELSIF new_row <> old_row THEN
        PERFORM moves.note_change('connectors.update', NEW.id::text, moves.differing(old_row, new_row), moves.differing(new_row, old_row), NEW, OLD);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd

DROP TRIGGER connectors_noted ON connectors;
CREATE TRIGGER connectors_noted AFTER INSERT ON connectors REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION connectors_audit_added();
CREATE TRIGGER connectors_noted_deleted AFTER DELETE ON connectors FOR EACH ROW EXECUTE FUNCTION connectors_audit();

REVOKE ALL ON FUNCTION moves.written(connectors), connectors_audit_added() FROM PUBLIC;

-- +goose Down
DROP TRIGGER connectors_noted_deleted ON connectors;
DROP TRIGGER connectors_noted ON connectors;
DROP FUNCTION connectors_audit_added();
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION connectors_audit() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    -- What only moves write, and who it was that wrote: both are said elsewhere.
    moved CONSTANT text[] := ARRAY['status', 'status_message', 'config_version', 'added_version', 'synced_version', 'listed_version', 'state', 'listing',
        'last_sync_at', 'next_sync_at', 'due_reason', 'slot_at', 'slots_through', 'planned_through', 'needs_plan', 'claimed_at', 'claimed_for', 'synced_for',
        'deletions_allowed_at', 'next_parameters', 'parameters_due_at', 'kept_plan', 'due_at', 'run_id', 'failure_count', 'docs_analyzed', 'put_off_since', 'at_fault', 'trigger_requested_at',
        'created_at', 'created_by', 'updated_at', 'updated_by', 'over_at', 'wanted', 'condition_met_at', 'asks_condition', 'waits_for_key', 'follows', 'followed', 'upstreams_met_at',
        'asks_upstreams'];
    old_row jsonb := CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) - moved END;
    new_row jsonb := CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) - moved END;
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM moves.note_change('connectors.delete', OLD.id::text, moves.differing(old_row, NULL), NULL, OLD);
    ELSIF TG_OP = 'INSERT' THEN
        PERFORM moves.note_change('connectors.create', NEW.id::text, NULL, moves.differing(new_row, NULL), NEW);
    ELSIF TG_NAME = 'connectors_noted_triggered' THEN
        PERFORM moves.note_change('connectors.sync', NEW.id::text, NULL, NULL, NEW);
    ELSIF new_row <> old_row AND current_setting('echomind.resealing', true) IS NOT DISTINCT FROM 'on' AND connector_resealed(OLD, NEW) THEN
        PERFORM moves.note_change('connectors.reseal', NEW.id::text, jsonb_build_object('config', moves.fingerprint(OLD.config::text)),
            jsonb_build_object('config', moves.fingerprint(NEW.config::text)), NEW);
    ELSIF new_row <> old_row THEN
        PERFORM moves.note_change('connectors.update', NEW.id::text, moves.differing(old_row, new_row), moves.differing(new_row, old_row), NEW, OLD);
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER connectors_noted AFTER INSERT OR DELETE ON connectors FOR EACH ROW EXECUTE FUNCTION connectors_audit();
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION moves.is_secret_in(of jsonb, key text) RETURNS boolean
    LANGUAGE sql IMMUTABLE AS $$
    SELECT moves.is_secret_name(key) OR (lower(key) IN ('value', 'values') AND EXISTS (SELECT FROM jsonb_each_text(of) n
        WHERE lower(n.key) IN ('name', 'header', 'id', 'field') AND moves.is_secret_name(n.value)))
$$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION moves.differing(of jsonb, from_ jsonb) RETURNS jsonb
    LANGUAGE sql STABLE AS $$
    SELECT coalesce(jsonb_object_agg(k.key, CASE k.key WHEN 'config' THEN moves.kept_config(k.value, from_ -> 'config') ELSE k.value END), '{}')
    FROM jsonb_each(of) k
    WHERE of IS NOT NULL AND (from_ IS NULL OR k.value IS DISTINCT FROM from_ -> k.key)
$$;
-- +goose StatementEnd
DROP FUNCTION moves.written(connectors);
