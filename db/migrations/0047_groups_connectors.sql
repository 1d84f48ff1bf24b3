-- +goose NO TRANSACTION
-- +goose Up
-- expand
-- The connectors of a user's groups: connectors_reader has the owner before the group, so that each list read what it has of all groups.
-- A try that ended half-way leaves an index that is not valid.
DROP INDEX CONCURRENTLY IF EXISTS connectors_of_groups;
CREATE INDEX CONCURRENTLY connectors_of_groups ON connectors (scope_id) WHERE scope = 'group';

-- Whether the viewer sees more connectors than that; jobs, which not everybody sees, count. It reads indexes alone.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION api.sees_more_than(most integer) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = public, pg_temp
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
    RETURN EXISTS (SELECT FROM (
        SELECT FROM connectors c WHERE c.scope = ANY (api.open_scopes())
        UNION ALL SELECT FROM connectors c WHERE c.scope = 'user' AND c.user_id = api.viewer_id()
        UNION ALL SELECT FROM connectors c WHERE c.scope = 'group' AND c.scope_id = ANY (api.groups('groups'))) seen OFFSET least(most, 100000));
END $$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION api.sees_more_than(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api.sees_more_than(integer) TO echomind_api;

-- +goose Down
DROP FUNCTION IF EXISTS api.sees_more_than(integer);
DROP INDEX CONCURRENTLY IF EXISTS connectors_of_groups;
