-- +goose Up
-- expand
-- ConnectorsByStatus: how many have failed or are switched off, for the metrics. Those in flight have an index, and a
-- sync that succeeds never touches this one.
CREATE INDEX connectors_at_fault ON connectors (type, status) WHERE status IN ('ERROR', 'DISABLED');

-- +goose Down
DROP INDEX connectors_at_fault;
