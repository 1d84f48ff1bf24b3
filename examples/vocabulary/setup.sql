-- The vocabulary's own tables, what is in them on the first day, and the three schedules. It may be run again.
CREATE SCHEMA IF NOT EXISTS vocabulary;

CREATE TABLE IF NOT EXISTS vocabulary.categories (
    name          text PRIMARY KEY,
    llm_generated boolean NOT NULL -- a model has made it, and nobody has refreshed it yet
);
CREATE TABLE IF NOT EXISTS vocabulary.types (
    id     integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    active boolean NOT NULL DEFAULT true
);
CREATE TABLE IF NOT EXISTS vocabulary.changes (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    measured boolean NOT NULL DEFAULT false
);
CREATE INDEX IF NOT EXISTS changes_to_measure ON vocabulary.changes (id) WHERE NOT measured;

-- The memory of the consolidation, one row: it goes on until few types are inactive, and then rests until many are.
CREATE TABLE IF NOT EXISTS vocabulary.consolidation (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    goes_on boolean NOT NULL DEFAULT false
);

INSERT INTO vocabulary.categories VALUES ('people', false), ('places', true) ON CONFLICT DO NOTHING;
INSERT INTO vocabulary.types (active) SELECT i <= 80 FROM generate_series(1, 95) i WHERE NOT EXISTS (SELECT FROM vocabulary.types);
INSERT INTO vocabulary.consolidation DEFAULT VALUES ON CONFLICT DO NOTHING;

-- Conditions read what this role may read, and nothing else.
GRANT USAGE ON SCHEMA vocabulary TO echomind_conditions;
GRANT SELECT ON ALL TABLES IN SCHEMA vocabulary TO echomind_conditions;

INSERT INTO conditions (name, query) VALUES
('vocabulary_generated', 'SELECT EXISTS (SELECT FROM vocabulary.categories WHERE llm_generated)'),
('vocabulary_inactive', $$
    SELECT count(*) FILTER (WHERE active) > ($1->>'active_above')::int
       AND count(*) FILTER (WHERE NOT active) > count(*) *
           (SELECT CASE WHEN goes_on THEN ($1->>'stop_at')::numeric ELSE ($1->>'begin_above')::numeric END FROM vocabulary.consolidation)
    FROM vocabulary.types$$),
('vocabulary_changes', $$
    SELECT count(*) >= ($1->>'least')::int
    FROM (SELECT FROM vocabulary.changes WHERE NOT measured LIMIT ($1->>'least')::int) c$$)
ON CONFLICT DO NOTHING;

INSERT INTO connector_types (name, kind) VALUES
('category_refresh', 'job'), ('vocab_consolidation', 'job'), ('epistemic_remeasurement', 'job') ON CONFLICT DO NOTHING;

INSERT INTO connectors (name, type, user_id, schedule_cron, condition, config)
SELECT name, name, 1, cron, condition, config::json
FROM (VALUES
    ('category_refresh', '0 */6 * * *', 'vocabulary_generated', '{}'),
    ('vocab_consolidation', '0 */12 * * *', 'vocabulary_inactive',
        '{"active_above": 50, "begin_above": 0.20, "stop_at": 0.10, "at_most": 8}'),
    ('epistemic_remeasurement', '0 * * * *', 'vocabulary_changes', '{"least": 20}')) AS v (name, cron, condition, config)
WHERE NOT EXISTS (SELECT FROM connectors c WHERE c.type = v.name);
