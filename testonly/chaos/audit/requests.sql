-- What requests to the API change of connectors, and what the audit says of it, each with its transaction: neither may be there without the other.
CREATE TABLE chaos.changes (
    seq          bigint PRIMARY KEY DEFAULT nextval('chaos.events'),
    txid         bigint NOT NULL DEFAULT txid_current(),
    request      text NOT NULL,
    connector_id integer NOT NULL,
    action       text NOT NULL
);

CREATE TABLE chaos.entries (
    audit_id     bigint PRIMARY KEY,
    txid         bigint NOT NULL DEFAULT txid_current(),
    request      text NOT NULL,
    connector_id integer NOT NULL,
    action       text NOT NULL
);

-- Which connectors an operation on many is for.
CREATE TABLE chaos.members (
    operation_id integer,
    connector_id integer,
    PRIMARY KEY (operation_id, connector_id)
);

CREATE FUNCTION chaos.on_request() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    request text := coalesce(current_setting('echomind.request')::jsonb ->> 'request_id', '');
BEGIN
    INSERT INTO chaos.changes (request, connector_id, action)
    SELECT request, coalesce(NEW.id, OLD.id), 'connectors.' || w.what FROM unnest(CASE TG_OP WHEN 'INSERT' THEN ARRAY['create'] WHEN 'DELETE' THEN ARRAY['delete'] ELSE
        array_remove(ARRAY[
            CASE WHEN moves.written(OLD) <> moves.written(NEW) THEN 'update' END,
            CASE WHEN OLD.status <> 'DISABLED' AND NEW.status = 'DISABLED' THEN 'disable' END,
            CASE WHEN OLD.status = 'DISABLED' AND NEW.status <> 'DISABLED' THEN 'enable' END,
            CASE WHEN NEW.trigger_requested_at IS NOT NULL AND NEW.trigger_requested_at IS DISTINCT FROM OLD.trigger_requested_at THEN 'sync' END], NULL) END) w(what);
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_request AFTER INSERT OR UPDATE OR DELETE ON connectors FOR EACH ROW
    WHEN (coalesce(current_setting('echomind.request', true), '') <> '') EXECUTE FUNCTION chaos.on_request();

CREATE FUNCTION chaos.on_entry() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO chaos.entries (audit_id, request, connector_id, action) VALUES (NEW.id, coalesce(NEW.request_id, ''), NEW.connector_id, NEW.action);
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_entry AFTER INSERT ON audit FOR EACH ROW
    WHEN (NEW.source = 'api' AND NEW.action IN ('connectors.create', 'connectors.update', 'connectors.delete', 'connectors.sync', 'connectors.enable', 'connectors.disable'))
    EXECUTE FUNCTION chaos.on_entry();

CREATE FUNCTION chaos.on_batch() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    INSERT INTO chaos.members SELECT NEW.operation_id, k.id FROM unnest(NEW.connectors) k(id) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER chaos_batch AFTER INSERT ON operation_batches FOR EACH ROW EXECUTE FUNCTION chaos.on_batch();
