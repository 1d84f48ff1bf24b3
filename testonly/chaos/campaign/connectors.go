package campaign

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/echomind/sync/testonly/chaos/fault"
	"github.com/echomind/sync/testonly/chaos/world"
)

// Types of connectors besides web and file.
const (
	typeSynthetic = "synthetic"
	// typeCapped may have placesCapped in flight.
	typeCapped   = "capped"
	placesCapped = 5
	// typeStarved has one worker with one slot, and far more work than that.
	typeStarved = "starved"
	// typeIdle has no worker.
	typeIdle = "idle"
	// typeAsked is of connectors that are changed over REST alone.
	typeAsked = "over_rest"
	// foreigners and bigs are how many connectors another team's subscriber serves, and how many have large documents.
	foreigners = 8
	bigs       = 4
)

// missedMinutes is how long some schedules have waited for the first scheduler.
const missedMinutes = 3

// troubles are what the synthetic source does to its worker, with how many of 100 connectors do it.
var troubles = []struct {
	name string
	of   int
}{{"fail", 2}, {"permanent", 1}, {"panic", 1}, {"document", 2}}

// rare troubles cost a process, or a slot, each time: one connector does each.
var rare = []string{"kill", "poison", "hang"}

func addTypes(ctx context.Context, w *world.World) error {
	_, err := w.Pool.Exec(ctx, `
		INSERT INTO connector_types (name, max_concurrent_syncs)
		VALUES ($1, 0), ($2, $3), ($4, 0), ($5, 0), ($6, 0), ($7, 0)
		ON CONFLICT (name) DO UPDATE SET max_concurrent_syncs = EXCLUDED.max_concurrent_syncs`,
		typeSynthetic, typeCapped, placesCapped, typeStarved, typeIdle, fault.TypeForeign, typeAsked)
	if err == nil {
		_, err = w.Pool.Exec(ctx, `INSERT INTO concurrency_limits (key, most) VALUES ('shared', 12), ('other', 5)`)
	}
	return wrap("add the types", err)
}

// addSynthetic adds n connectors of a type whose content follows from seed.
func addSynthetic(ctx context.Context, w *world.World, connectorType string, n, milliseconds int, troubled bool, rng *rand.Rand) error {
	names, configs, refreshes, crons, ages := []string{}, []string{}, []*int32{}, []*string{}, []*time.Duration{}
	for i := range n {
		config := map[string]any{
			"seed": rng.IntN(1 << 30), "documents": 1 + rng.IntN(12), "changes": 1 + rng.IntN(4),
			"milliseconds": rng.IntN(2 * milliseconds), "mode": []string{"delta", "listing"}[rng.IntN(2)],
		}
		if rng.IntN(2) == 0 {
			config["checkpoint"] = 1 + rng.IntN(3)
		}
		if troubled {
			if what := trouble(i, n, rng); what != "" {
				config["trouble"], config["every"] = what, 1+i%2
			}
		}
		text, err := json.Marshal(config)
		if err != nil {
			return fmt.Errorf("write a configuration: %w", err)
		}
		var refresh *int32
		var cron *string
		var age *time.Duration
		switch roll := rng.IntN(4); {
		case follows(connectorType, i+1): // when those that it runs after have ended
		case roll == 0:
			every := "* * * * *"
			cron = &every
			if i%2 == 0 { // nobody was there to answer its last slots, and no minute need pass for the next
				age = new(time.Duration)
				*age = missedMinutes * time.Minute
			}
		case roll == 1:
			refresh = new(int32)
			*refresh = 60
		default:
			refresh = new(int32)
			*refresh = 1
		}
		names, configs = append(names, fmt.Sprintf("%s %d", connectorType, i)), append(configs, string(text))
		refreshes, crons, ages = append(refreshes, refresh), append(crons, cron), append(ages, age)
	}
	_, err := w.Pool.Exec(ctx, `
		INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes, schedule_cron, last_sync_at, concurrency_keys)
		SELECT n, $1, 1 + i % 5, c::jsonb, f, s, clock_timestamp() - age, CASE i % 6 WHEN 0 THEN ARRAY['shared'] WHEN 3 THEN ARRAY['shared', 'other'] END
		FROM unnest($2::text[], $3::text[], $4::integer[], $5::text[], $6::interval[]) WITH ORDINALITY AS u (n, c, f, s, age, i)`,
		connectorType, names, configs, refreshes, crons, ages)
	if err != nil {
		return wrap("add connectors of type "+connectorType, err)
	}
	return wrap("let slots pass", w.Force(ctx, `UPDATE connectors SET planned_through = last_sync_at
		WHERE schedule_cron IS NOT NULL AND last_sync_at < created_at AND planned_through > last_sync_at AND status = 'ACTIVE'`))
}

func trouble(i, n int, rng *rand.Rand) string {
	if i < len(rare) && n > 50 {
		return rare[i]
	}
	roll := rng.IntN(100)
	for _, t := range troubles {
		if roll -= t.of; roll < 0 {
			return t.name
		}
	}
	return ""
}

// addBig adds connectors with documents that mostly take several messages.
func addBig(ctx context.Context, w *world.World, rng *rand.Rand) error {
	for i := range bigs {
		config, err := json.Marshal(map[string]any{
			"seed": rng.IntN(1 << 30), "documents": 4, "changes": 2, "milliseconds": 400, "mode": "listing", "big": 1, "checkpoint": i % 2,
		})
		if err == nil {
			_, err = w.Pool.Exec(ctx, `INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes) VALUES ($1, $2, 1, $3, 1)`,
				fmt.Sprint("big ", i), typeSynthetic, config)
		}
		if err != nil {
			return wrap("add connectors with large documents", err)
		}
	}
	return nil
}

// addForeign adds what another team's subscriber serves.
func addForeign(ctx context.Context, w *world.World) error {
	_, err := w.Pool.Exec(ctx, `INSERT INTO connectors (name, type, user_id, refresh_freq_minutes)
		SELECT 'foreign ' || i, $1, 1, 1 FROM generate_series(1, $2) i`, fault.TypeForeign, foreigners)
	return wrap("add foreign connectors", err)
}

// addReal adds connectors to folders and sites with something in them, and one to a site that never answers.
func addReal(ctx context.Context, w *world.World, n int) error {
	for i := range n {
		folder := filepath.Join(w.Files, fmt.Sprint(i))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return wrap("make a folder", err)
		}
		for k := range 5 {
			if err := editFile(folder, k, 0); err != nil {
				return err
			}
			editPage(w.Site, i, k, 0)
		}
		linkPages(w.Site, i, 5)
		u := url.URL{Scheme: "file", Path: folder}
		for connectorType, address := range map[string]string{"file": u.String(), "web": w.Site.URL(sitePath(i, ""))} {
			if err := addURL(ctx, w, connectorType, fmt.Sprint(connectorType, " ", i), address); err != nil {
				return err
			}
		}
	}
	return addURL(ctx, w, "web", "a site that hangs", w.Site.URL("/hang/"))
}

func addURL(ctx context.Context, w *world.World, connectorType, name, address string) error {
	config, err := json.Marshal(map[string]string{"url": address})
	if err != nil {
		return wrap("write a configuration", err)
	}
	_, err = w.Pool.Exec(ctx, `INSERT INTO connectors (name, type, user_id, config, refresh_freq_minutes)
		VALUES ($1, $2, 1, $3, 1)`, name, connectorType, config)
	return wrap("add "+name, err)
}

func sitePath(site int, page string) string { return fmt.Sprintf("/site%d/%s", site, page) }

func editFile(folder string, file, edition int) error {
	text := fmt.Sprintf("# File %d\n\nThis is edition %d of file %d, written at %d.\n", file, edition, file, time.Now().UnixNano())
	return wrap("write a file", os.WriteFile(filepath.Join(folder, fmt.Sprintf("%d.md", file)), []byte(text), 0o644))
}

func editPage(site *world.Site, i, page, edition int) {
	site.Put(sitePath(i, fmt.Sprintf("%d.html", page)), fmt.Sprintf(
		"<html><head><title>Page %d</title></head><body><main><h1>Page %d</h1><p>This is edition %d of page %d of site %d.</p></main></body></html>",
		page, page, edition, page, i))
}

func linkPages(site *world.Site, i, pages int) {
	links := ""
	for k := range pages {
		links += fmt.Sprintf(`<li><a href="%d.html">page %d</a></li>`, k, k)
	}
	site.Put(sitePath(i, ""), fmt.Sprintf("<html><head><title>Site %d</title></head><body><main><ul>%s</ul></main></body></html>", i, links))
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
