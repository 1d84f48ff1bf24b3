-- +goose NO TRANSACTION
-- +goose Up
-- expand
-- Connectors in the order in which they are, or will be, late: what services/api lists the latest of first. connector_freshness had those that say how old they may be. It has all
-- from now on: one that does not say so is a hundred years away from being late, counted from when it was added, so that these come behind all others, and none is ever late.
-- An index of connectors would cost each statement of each move a page; this table is written when a sync of those completes that say how old they may be, and of no other.
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
CREATE OR REPLACE TRIGGER connectors_freshness_added AFTER INSERT ON connectors FOR EACH ROW EXECUTE FUNCTION connectors_note_freshness();
CREATE OR REPLACE TRIGGER connectors_freshness_changed AFTER UPDATE OF type, fresh_within_minutes, last_sync_at ON connectors FOR EACH ROW
    WHEN ((NEW.type, NEW.fresh_within_minutes) IS DISTINCT FROM (OLD.type, OLD.fresh_within_minutes)
        OR NEW.fresh_within_minutes IS NOT NULL AND NEW.last_sync_at IS DISTINCT FROM OLD.last_sync_at)
    EXECUTE FUNCTION connectors_note_freshness();
CREATE OR REPLACE TRIGGER connectors_freshness_gone AFTER DELETE ON connectors FOR EACH ROW EXECUTE FUNCTION connectors_note_freshness();
-- Those that are there, a thousand to a transaction, so that no move waits for long. The lock keeps one from being deleted between the two.
-- +goose StatementBegin
DO $$
DECLARE
    after integer := 0;
BEGIN
    WHILE after IS NOT NULL LOOP
        WITH part AS MATERIALIZED (SELECT c.id, c.type, c.created_at + make_interval(mins => 52560000) AS fresh_until, c.fresh_within_minutes
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
-- api.waiting: those that wait for a place of a concurrency key, the longest due first.
DROP INDEX CONCURRENTLY IF EXISTS key_waiters_due;
CREATE INDEX CONCURRENTLY key_waiters_due ON key_waiters (due_at, connector_id);

-- What waits of what the viewer sees, the longest first: what is due, for a place of a key or for its turn, since it is due; what waits for a worker, since its message was sent; and a
-- run that waits for a lock, since it asked. It looks at so many of all that wait, and answers with up to page of them. Where it ends before the last, a row with is_end says as far as where.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.waiting(after timestamptz, after_id integer, page integer, look integer)
    RETURNS TABLE (connector_id integer, since timestamptz, is_end boolean)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    most   integer := least(look, 10000) + 1;
    looked integer := 0;
    shown  integer := 0;
    w      record;
BEGIN
    is_end := false;
    FOR w IN SELECT u.id, u.at FROM (
            (SELECT d.id, d.due_at AS at FROM connector_types t CROSS JOIN LATERAL (SELECT c.id, c.due_at FROM connectors c
                WHERE c.type = t.name AND c.due_at <= moment AND c.due_at >= after AND (c.due_at, c.id) > (after, after_id) ORDER BY c.due_at, c.id LIMIT most) d)
            UNION ALL (SELECT k.connector_id, k.due_at FROM key_waiters k
                WHERE k.due_at <= moment AND (k.due_at, k.connector_id) > (after, after_id) ORDER BY k.due_at, k.connector_id LIMIT most)
            UNION ALL (SELECT r.connector_id, r.dispatched_at FROM connector_types t CROSS JOIN LATERAL (SELECT o.connector_id, o.dispatched_at FROM open_runs o
                WHERE o.type = t.name AND o.picked_up_at IS NULL AND o.dispatched_at >= after AND (o.dispatched_at, o.connector_id) > (after, after_id)
                ORDER BY o.dispatched_at, o.connector_id LIMIT most) r)
            UNION ALL (SELECT o.connector_id, min(a.since) FROM lock_waiters a JOIN open_runs o ON o.id = a.run_id AND o.picked_up_at IS NOT NULL
                WHERE a.expires_at > moment GROUP BY o.connector_id HAVING (min(a.since), o.connector_id) > (after, after_id))) u
        ORDER BY u.at, u.id LIMIT most
    LOOP
        IF looked = most - 1 OR shown = page THEN
            is_end := true;
            connector_id := after_id;
            since := after;
            RETURN NEXT;
            RETURN;
        END IF;
        looked := looked + 1;
        after := w.at;
        after_id := w.id;
        IF api.sees_connector(w.id) THEN
            shown := shown + 1;
            connector_id := w.id;
            since := w.at;
            RETURN NEXT;
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION api.freshness_through(timestamptz, integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.freshness_through(timestamptz, integer, integer) TO echomind_api;
GRANT SELECT ON api.by_freshness TO echomind_api;
REVOKE ALL ON FUNCTION api.waiting(timestamptz, integer, integer, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.waiting(timestamptz, integer, integer, integer) TO echomind_api;

-- +goose Down
DROP FUNCTION IF EXISTS api.waiting(timestamptz, integer, integer, integer);
DROP INDEX CONCURRENTLY IF EXISTS key_waiters_due;
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
