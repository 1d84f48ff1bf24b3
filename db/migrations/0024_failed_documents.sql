-- +goose NO TRANSACTION
-- +goose Up
-- expand
-- A try that ended half-way leaves an index that is not valid.
DROP INDEX CONCURRENTLY IF EXISTS documents_failed;
-- documents_of: those that failed, among millions that did not.
CREATE INDEX CONCURRENTLY documents_failed ON documents (connector_id, source_id) WHERE status = 'failed';

-- +goose Down
DROP INDEX CONCURRENTLY documents_failed;
