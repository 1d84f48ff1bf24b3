-- +goose NO TRANSACTION
-- +goose Up
-- expand
-- Connectors in the order in which they are, or will be, late: what services/api lists the latest of first. connector_freshness had those that say how old they may be. It has all
-- from now on: one that does not say so counts as if it might be 100 years old, so that these come behind all others, the one that was synced longest ago first, and none is ever late.
-- An index of connectors would cost each statement of each move a page; this table is written when a sync completes.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION connectors_note_freshness() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM connector_freshness f WHERE f.connector_id = OLD.id;
    ELSE
        INSERT INTO connector_freshness AS f (connector_id, type, fresh_until)
        VALUES (NEW.id, NEW.type, coalesce(NEW.last_sync_at, NEW.created_at) + make_interval(mins => coalesce(NEW.fresh_within_minutes, 52560000)))
        ON CONFLICT (connector_id) DO UPDATE SET type = EXCLUDED.type, fresh_until = EXCLUDED.fresh_until;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER connectors_freshness_added AFTER INSERT ON connectors FOR EACH ROW EXECUTE FUNCTION connectors_note_freshness();
CREATE OR REPLACE TRIGGER connectors_freshness_changed AFTER UPDATE OF type, fresh_within_minutes, last_sync_at ON connectors FOR EACH ROW
    WHEN ((NEW.type, NEW.fresh_within_minutes, NEW.last_sync_at) IS DISTINCT FROM (OLD.type, OLD.fresh_within_minutes, OLD.last_sync_at)) EXECUTE FUNCTION connectors_note_freshness();
CREATE OR REPLACE TRIGGER connectors_freshness_gone AFTER DELETE ON connectors FOR EACH ROW EXECUTE FUNCTION connectors_note_freshness();
-- Those that are there, a thousand to a transaction, so that no move waits for long. The lock keeps one from being deleted between the two.
-- +goose StatementBegin
DO $$
DECLARE
    after integer := 0;
BEGIN
    WHILE after IS NOT NULL LOOP
        WITH part AS MATERIALIZED (SELECT c.id, c.type, coalesce(c.last_sync_at, c.created_at) + make_interval(mins => 52560000) AS fresh_until, c.fresh_within_minutes
                FROM connectors c WHERE c.id > after ORDER BY c.id LIMIT 1000 FOR KEY SHARE),
            added AS (INSERT INTO connector_freshness SELECT s.id, s.type, s.fresh_until FROM part s WHERE s.fresh_within_minutes IS NULL ON CONFLICT DO NOTHING)
        SELECT max(s.id) INTO after FROM part s;
        COMMIT;
    END LOOP;
END $$;
-- +goose StatementEnd
-- A try that ended half-way leaves an index that is not valid.
DROP INDEX CONCURRENTLY IF EXISTS connector_freshness_order;
-- FreshestLast: a page of connectors, the latest first.
CREATE INDEX CONCURRENTLY connector_freshness_order ON connector_freshness (fresh_until, connector_id);

-- What somebody sees, in that order, with what lists are filtered by.
CREATE OR REPLACE VIEW api.by_freshness AS
SELECT f.fresh_until, f.connector_id AS id, c.name, c.type, c.status, c.user_id, c.scope, c.scope_id FROM connector_freshness f JOIN api.connectors c ON c.id = f.connector_id;

-- The place in that order that is so many behind another, as api.connectors_through is by number. No row: there are not so many.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.freshness_through(after timestamptz, after_id integer, look integer) RETURNS TABLE (fresh_until timestamptz, connector_id integer)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT f.fresh_until, f.connector_id FROM connector_freshness f WHERE (f.fresh_until, f.connector_id) > (after, after_id)
    ORDER BY f.fresh_until, f.connector_id OFFSET least(look, 100000) LIMIT 1
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION api.freshness_through(timestamptz, integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.freshness_through(timestamptz, integer, integer) TO echomind_api;
GRANT SELECT ON api.by_freshness TO echomind_api;

-- +goose Down
DROP FUNCTION IF EXISTS api.freshness_through(timestamptz, integer, integer);
DROP VIEW IF EXISTS api.by_freshness;
DROP INDEX CONCURRENTLY IF EXISTS connector_freshness_order;
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION connectors_note_freshness() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        DELETE FROM connector_freshness f WHERE f.connector_id = OLD.id;
    ELSIF NEW.fresh_within_minutes IS NULL THEN
        DELETE FROM connector_freshness f WHERE f.connector_id = NEW.id;
    ELSE
        INSERT INTO connector_freshness AS f (connector_id, type, fresh_until)
        VALUES (NEW.id, NEW.type, coalesce(NEW.last_sync_at, NEW.created_at) + make_interval(mins => NEW.fresh_within_minutes))
        ON CONFLICT (connector_id) DO UPDATE SET type = EXCLUDED.type, fresh_until = EXCLUDED.fresh_until;
    END IF;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE OR REPLACE TRIGGER connectors_freshness_added AFTER INSERT ON connectors
    FOR EACH ROW WHEN (NEW.fresh_within_minutes IS NOT NULL) EXECUTE FUNCTION connectors_note_freshness();
CREATE OR REPLACE TRIGGER connectors_freshness_changed AFTER UPDATE OF type, fresh_within_minutes, last_sync_at ON connectors FOR EACH ROW
    WHEN (coalesce(NEW.fresh_within_minutes, OLD.fresh_within_minutes) IS NOT NULL
        AND (NEW.type, NEW.fresh_within_minutes, NEW.last_sync_at) IS DISTINCT FROM (OLD.type, OLD.fresh_within_minutes, OLD.last_sync_at))
    EXECUTE FUNCTION connectors_note_freshness();
CREATE OR REPLACE TRIGGER connectors_freshness_gone AFTER DELETE ON connectors
    FOR EACH ROW WHEN (OLD.fresh_within_minutes IS NOT NULL) EXECUTE FUNCTION connectors_note_freshness();
DELETE FROM connector_freshness f USING connectors c WHERE c.id = f.connector_id AND c.fresh_within_minutes IS NULL;
