-- name: CalendarVersions :many
SELECT k.name, k.version FROM calendars k WHERE k.name = ANY (@names::text[]);

-- name: Calendars :many
-- Calendars by their versions, those that were replaced as well.
SELECT k.version, k.time_zone, k.entries FROM calendars k WHERE k.version = ANY (@versions::bigint[])
UNION ALL
SELECT v.version, v.time_zone, v.entries FROM calendar_versions v WHERE v.version = ANY (@versions::bigint[]);

-- name: ReplanCalendars :one
SELECT moves.replan_calendars(@batch::integer)::integer;
