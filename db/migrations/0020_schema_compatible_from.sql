-- +goose Up
-- The oldest schema whose programs still work on this one. A contract migration replaces it, in its own transaction; an expand
-- migration leaves it as it is. Programs built for a schema before this one know only their own.
CREATE FUNCTION schema_compatible_from() RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT 20::bigint';

-- +goose Down
DROP FUNCTION schema_compatible_from();
