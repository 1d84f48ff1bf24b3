package scheduler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/echomind/sync/internal/deadline"
	"github.com/echomind/sync/internal/repeat"
	"github.com/echomind/sync/services/scheduler/internal/dbgen"
)

// Refresh is the interval of new connectors for which nobody chose, in minutes; 0 = once. A row of connector_types may set another for its type.
type Refresh struct {
	// Web is for type web.
	Web int32 `env:"SCHEDULER_DEFAULT_REFRESH_WEB" envDefault:"10080"`
	// Drive is for types onedrive and google_drive.
	Drive int32 `env:"SCHEDULER_DEFAULT_REFRESH_DRIVE" envDefault:"10080"`
	// Chat is for type teams.
	Chat int32 `env:"SCHEDULER_DEFAULT_REFRESH_CHAT" envDefault:"1440"`
	// File is for type file.
	File int32 `env:"SCHEDULER_DEFAULT_REFRESH_FILE" envDefault:"0"`
}

// maxRefresh is ten years, in minutes, as connectors_refresh_range has it.
const maxRefresh = 5_256_000

// Validate returns every problem at once.
func (r Refresh) Validate() error {
	return errors.Join(
		checkRefresh("SCHEDULER_DEFAULT_REFRESH_WEB", r.Web),
		checkRefresh("SCHEDULER_DEFAULT_REFRESH_DRIVE", r.Drive),
		checkRefresh("SCHEDULER_DEFAULT_REFRESH_CHAT", r.Chat),
		checkRefresh("SCHEDULER_DEFAULT_REFRESH_FILE", r.File),
	)
}

func checkRefresh(name string, minutes int32) error {
	if minutes < 0 || minutes > maxRefresh {
		return fmt.Errorf("%s=%d: must be 0 to %d", name, minutes, maxRefresh)
	}
	return nil
}

// tellRefresh writes the defaults where the function default_refresh finds them: a program that adds a connector knows no settings of the scheduler.
func (s *Scheduler) tellRefresh(ctx context.Context) error {
	r := s.config.Refresh
	defaults := dbgen.SetRefreshDefaultsParams{
		Types: []string{"web", "onedrive", "google_drive", "teams", "file"}, Minutes: []int32{r.Web, r.Drive, r.Drive, r.Chat, r.File},
	}
	for range (repeat.Pauses{First: time.Second, Last: time.Minute}).Tries(ctx) {
		err := deadline.Do(ctx, "scheduler.tell_refresh", claimTimeout, func(ctx context.Context) error {
			return s.queries.SetRefreshDefaults(ctx, defaults)
		})
		if err == nil || ctx.Err() != nil {
			return nil
		}
		s.log.Warn("what Postgres did not answer is done later", "what", "default intervals", "err", err)
	}
	return nil
}
