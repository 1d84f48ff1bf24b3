-- name: Kind :one
-- What a type is: source or job; empty where it is not known yet.
SELECT coalesce((SELECT t.kind FROM connector_types t WHERE t.name = @name), '')::text;
