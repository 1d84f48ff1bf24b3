package fault

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// meddled is how often a user changes something at the worst moment while it is their turn.
const meddled = 40

// atWork selects connectors whose run is being read or stored, or that are due, those of large documents first.
const atWork = `SELECT c.id FROM connectors c LEFT JOIN open_runs r ON r.connector_id = c.id
	WHERE c.type = 'synthetic' AND coalesce(c.config->>'trouble', '') IN ('', 'document')
		AND (r.stored > 0 OR r.try_id IS NOT NULL OR c.next_sync_at <= clock_timestamp() OR c.slot_at < clock_timestamp())
	ORDER BY (c.config ? 'big') DESC, random() LIMIT 1`

// meddle is what users do to one connector.
var meddle = []string{
	`UPDATE connectors SET schedule_cron = CASE WHEN schedule_cron IS NULL THEN '* * * * *' END, refresh_freq_minutes = NULL WHERE id = $1`,
	`UPDATE connectors SET refresh_freq_minutes = CASE WHEN refresh_freq_minutes = 1 THEN 2 ELSE 1 END, schedule_cron = NULL WHERE id = $1`,
	`UPDATE connectors SET time_zone = CASE time_zone WHEN 'UTC' THEN 'Europe/Rome' ELSE 'UTC' END WHERE id = $1`,
	`UPDATE connectors SET dst_gap = CASE WHEN dst_gap IS NULL THEN 'before' END, dst_overlap = CASE WHEN dst_overlap IS NULL THEN 'both' END WHERE id = $1`,
	`UPDATE connectors SET user_id = user_id % 7 + 1 WHERE id = $1`,
	`UPDATE connectors SET scope = CASE scope WHEN 'org' THEN 'user' ELSE 'org' END WHERE id = $1`,
	`UPDATE connectors SET config = config || jsonb_build_object('seed', (config->>'seed')::bigint + 1) WHERE id = $1`,
	`SELECT moves.trigger_sync($1) FROM connectors WHERE id = $1 AND status <> 'DISABLED'`,
	`SELECT moves.disable($1)`,
	`SELECT moves.enable($1)`,
}

func people() []Fault {
	return []Fault{
		{Name: "users at the worst moment", Inject: func(ctx context.Context, f *Field) error {
			for range meddled {
				trying, cancel := context.WithTimeout(ctx, tryTimeout)
				err := f.meddle(trying)
				cancel()
				if err != nil && ctx.Err() == nil {
					f.Log.Debug("a user has to wait", "err", err)
				}
				sleep(ctx, 100*time.Millisecond)
			}
			return nil
		}},
	}
}

func (f *Field) meddle(ctx context.Context) error {
	var id int32
	err := f.World.Pool.QueryRow(ctx, atWork).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if f.Rand.IntN(4) == 0 {
		return f.addAgain(ctx, id)
	}
	_, err = f.World.Pool.Exec(ctx, meddle[f.Rand.IntN(len(meddle))], id)
	return err
}

// addAgain deletes a connector and adds it again under its id, as a user does who restores one from a list of their own.
func (f *Field) addAgain(ctx context.Context, id int32) error {
	return pgx.BeginFunc(ctx, f.World.Pool, func(tx pgx.Tx) error {
		row := tx.QueryRow(ctx, `DELETE FROM connectors WHERE id = $1 RETURNING name, type, user_id, config, refresh_freq_minutes, schedule_cron`, id)
		var name, kind string
		var user int32
		var config []byte
		var refresh *int32
		var cron *string
		if err := row.Scan(&name, &kind, &user, &config, &refresh, &cron); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO connectors (id, name, type, user_id, config, refresh_freq_minutes, schedule_cron)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`, id, name, kind, user, config, refresh, cron)
		return err
	})
}
