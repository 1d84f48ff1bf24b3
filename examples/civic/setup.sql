-- The civic day's own tables and its six schedules. It may be run again.
CREATE SCHEMA IF NOT EXISTS civic;

-- How the fake providers answer. Change it while they run: UPDATE civic.providers SET status = 200 WHERE name = 'openai'.
CREATE TABLE IF NOT EXISTS civic.providers (
    name   text PRIMARY KEY,
    status integer NOT NULL,               -- 429 = it throttles
    busy   boolean NOT NULL DEFAULT false  -- it answers no question as long as this is true
);
INSERT INTO civic.providers (name, status) VALUES
('ollama', 200), ('openai', 429), ('claude', 429), ('mistral', 429), ('gemini', 200) ON CONFLICT DO NOTHING;

INSERT INTO connector_types (name, kind) VALUES
('prompt_sync', 'job'), ('civic_crawl', 'job'), ('experiment', 'job'), ('contributions_analysis', 'job'), ('evaluation', 'job'), ('civic_documents', 'job')
ON CONFLICT DO NOTHING;

-- Documents begin five minutes before the half hour, so that they meet an evaluation.
INSERT INTO connectors (name, type, user_id, schedule_cron, once_per)
SELECT type, type, 1, cron, once_per
FROM (VALUES
    ('prompt_sync', '0 0 * * *', NULL),
    ('civic_crawl', '0 3 * * *', NULL),
    ('experiment', '0 5 * * *', NULL),
    ('contributions_analysis', '15 6-22 * * *', 'day'),
    ('evaluation', '*/30 7-21 * * *', NULL),
    ('civic_documents', '25 */2 * * *', NULL)) AS v (type, cron, once_per)
WHERE NOT EXISTS (SELECT FROM connectors c WHERE c.type = v.type);
