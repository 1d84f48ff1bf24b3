-- name: GetCalendar :one
SELECT * FROM calendars WHERE name = @name;

-- name: ListCalendars :many
-- Each with how many connectors name it, not counted beyond 10,000.
SELECT c.*, (SELECT count(*) FROM (SELECT FROM calendar_users u WHERE u.calendar = c.name LIMIT 10000) n) AS connectors FROM calendars c ORDER BY c.name LIMIT @page::integer;

-- name: PutCalendar :one
-- Adds a calendar, or replaces what one has.
INSERT INTO calendars AS c (name, time_zone, entries, created_by, updated_by) VALUES (@name, @time_zone, @entries, @by, @by)
ON CONFLICT (name) DO UPDATE SET time_zone = EXCLUDED.time_zone, entries = EXCLUDED.entries, updated_by = EXCLUDED.updated_by
RETURNING *;

-- name: CalendarUsers :one
-- How many connectors name a calendar, not counted beyond 10,000.
SELECT count(*) FROM (SELECT FROM calendar_users WHERE calendar = @calendar::text LIMIT 10000) n;

-- name: DeleteCalendar :execrows
DELETE FROM calendars WHERE name = @name;
