package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/clock"
)

// maxLocks is how many locks are listed.
const maxLocks = 10000

// lockView is a lock as programs are shown it. Where runs wait for a lock that nobody has, epoch and holder are null.
type lockView struct {
	Key           string     `json:"key"`
	Epoch         *int64     `json:"epoch"`
	RunID         *uuid.UUID `json:"run_id"`
	ConnectorID   *int32     `json:"connector_id"`
	ConnectorName *string    `json:"connector_name"`
	AcquiredAt    *time.Time `json:"acquired_at"`
	// ExpiresAt is when it ends without a renewal. One that has ended stands until another run has it.
	ExpiresAt *time.Time `json:"expires_at"`
	Waiting   int32      `json:"waiting"`
}

func locks(f *finder) *cobra.Command {
	return group("locks", "List the locks that runs hold, and release one",
		"A lock is on something that there is little of, such as one GPU: one run has it at a time. Its worker frees it, and it ends by itself where "+
			"its worker does not renew it.", locksList(f), locksRelease(f))
}

func locksList(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List the locks that runs hold or wait for",
		Long: `List the locks that runs hold, and those that runs wait for: who has each, since when, for how long without a renewal, and how many wait for it.
The epoch is a number that grows with each time that a key is given.`,
		Example: "  echomind locks list\n  echomind locks list -o json", Args: cobra.NoArgs,
	}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		found, err := either(c.Context(), f, func(pool *pgxpool.Pool) (locksFound, error) { return locksOf(c.Context(), pool) },
			func(r *remote) (locksFound, error) { return r.locks(c.Context(), never[lockView]) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), found.list, func(w io.Writer) error {
			if len(found.list) == 0 {
				_, err := fmt.Fprintln(w, "no run holds a lock, or waits for one")
				return err
			}
			rows := make([][]string, len(found.list))
			for i, l := range found.list {
				rows[i] = l.row(found.seen)
			}
			return table(w, []string{"KEY", "EPOCH", "CONNECTOR", "RUN", "SINCE", "ENDS IN", "WAITING"}, rows)
		})
	}
	return c
}

// locksFound are locks at a moment.
type locksFound struct {
	list []lockView
	seen time.Time
}

func locksOf(ctx context.Context, pool *pgxpool.Pool) (found locksFound, err error) {
	if found.seen, err = ask(ctx, pool, "now", now); err != nil {
		return found, fmt.Errorf("read the time: %w", err)
	}
	rows, err := ask(ctx, pool, "locks", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.ListLocksRow, error) {
		return q.ListLocks(ctx, maxLocks)
	})
	if err != nil {
		return found, fmt.Errorf("list the locks: %w", err)
	}
	found.list = make([]lockView, len(rows))
	for i, l := range rows {
		found.list[i] = lockView{
			Key: l.Key, Epoch: l.Epoch, RunID: l.RunID, ConnectorID: l.ConnectorID, ConnectorName: l.ConnectorName, AcquiredAt: utc(l.AcquiredAt),
			ExpiresAt: utc(l.ExpiresAt), Waiting: l.Waiting,
		}
	}
	return found, nil
}

func (l lockView) row(now time.Time) []string {
	waiting := strconv.Itoa(int(l.Waiting))
	if l.Epoch == nil || l.AcquiredAt == nil || l.ExpiresAt == nil {
		return []string{l.Key, "-", "-", "-", "-", "-", waiting}
	}
	ends, who, run := "ended", "-", "-" // a server names only connectors that the caller may see
	if l.ExpiresAt.After(now) {
		ends = clock.Span(l.ExpiresAt.Sub(now))
	}
	if l.ConnectorID != nil {
		who = numberAndName(*l.ConnectorID, l.ConnectorName)
	}
	if l.RunID != nil {
		run = shortID(*l.RunID)
	}
	return []string{l.Key, strconv.FormatInt(*l.Epoch, 10), who, run, clock.At(*l.AcquiredAt, now), ends, waiting}
}

func numberAndName(id int32, name *string) string {
	if name == nil {
		return strconv.Itoa(int(id))
	}
	return fmt.Sprintf("%d (%s)", id, *name)
}

// released is what was done.
type released struct {
	Key         string    `json:"key"`
	Epoch       int64     `json:"epoch"`
	RunID       uuid.UUID `json:"run_id"`
	ConnectorID int32     `json:"connector_id"`
	ReleasedBy  string    `json:"released_by"`
	// ExpiresAt is when another run may have it at the latest.
	ExpiresAt time.Time `json:"expires_at"`
}

var errNotReleased = errors.New("nothing is released")

func locksRelease(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "release KEY", Short: "Take a lock from the run that holds it",
		Long: `Take a lock from the run that holds it, so that the next run may have it. It asks first on a terminal, and elsewhere wants --yes. The holder
learns it by its next renewal, ends what it does under the lock and gives it back, and the ledger says who released it (echomind runs show). Where the holder is
gone, the next run has it when the lock's time is over: the answer says when.`,
		Example: "  echomind locks release ollama:global\n  echomind locks release ollama:global --yes",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("%s needs one KEY, as `echomind locks list` shows it", c.CommandPath())
			}
			return nil
		},
	}
	yes := c.Flags().Bool("yes", false, "release without asking")
	out := withOutput(c)
	c.ValidArgsFunction = f.completeLocks
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := wantsYes(c, *yes, "the run that holds it loses what it does under the lock"); err != nil {
			return err
		}
		done, err := either(c.Context(), f, func(pool *pgxpool.Pool) (done released, err error) {
			var epoch *int64
			if !*yes {
				if epoch, err = confirmRelease(c, pool, args[0]); err != nil {
					return done, err
				}
			}
			return releaseLock(c.Context(), pool, args[0], epoch)
		}, func(r *remote) (released, error) { return r.releaseLock(c, args[0], *yes) })
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), done, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "released %s, which run %s of connector %d held in epoch %d; the next has it when that run gives it back, by %s at the latest\n",
				printable(done.Key), done.RunID, done.ConnectorID, done.Epoch, done.ExpiresAt.Local().Format(time.TimeOnly))
			return err
		})
	}
	return c
}

// confirmRelease shows who has a lock, asks, and returns its epoch: another run may have the lock by then.
func confirmRelease(c *cobra.Command, pool *pgxpool.Pool, key string) (*int64, error) {
	found, err := ask(c.Context(), pool, "lock", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.LockOfRow, error) {
		return q.LockOf(ctx, key)
	})
	if err != nil {
		return nil, fmt.Errorf("look for lock %s: %w", key, err)
	}
	if len(found) == 0 {
		return nil, nobodyHas(key)
	}
	l := found[0]
	return &l.Epoch, askRelease(c, l.Key, l.RunID, numberAndName(l.ConnectorID, l.ConnectorName), l.Epoch)
}

func askRelease(c *cobra.Command, key string, run uuid.UUID, connector string, epoch int64) error {
	question := fmt.Sprintf("lock %s is held by run %s of connector %s in epoch %d\nRelease? [y/N] ", printable(key), run, printable(connector), epoch)
	err := confirm(c.InOrStdin(), c.ErrOrStderr(), question)
	if errors.Is(err, errNotConfirmed) {
		return errNotReleased
	}
	return err
}

func releaseLock(ctx context.Context, pool *pgxpool.Pool, key string, epoch *int64) (released, error) {
	by := *person()
	gone, err := ask(ctx, pool, "release_lock", func(ctx context.Context, q *dbgen.Queries) ([]dbgen.ReleaseLockRow, error) {
		return q.ReleaseLock(ctx, dbgen.ReleaseLockParams{LockKey: key, LockEpoch: epoch, Who: by})
	})
	switch {
	case err != nil:
		return released{}, fmt.Errorf("release lock %s: %w", key, err)
	case len(gone) == 0 && epoch != nil:
		return released{}, freedMeanwhile(key)
	case len(gone) == 0:
		return released{}, nobodyHas(key)
	}
	return released{Key: key, Epoch: gone[0].Epoch, RunID: gone[0].RunID, ConnectorID: gone[0].ConnectorID, ReleasedBy: by, ExpiresAt: gone[0].ExpiresAt.UTC()}, nil
}

func freedMeanwhile(key string) error {
	return fmt.Errorf("lock %s: who held it has freed it meanwhile; nothing is released", clip(key, 130))
}

func nobodyHas(key string) error {
	return fmt.Errorf("no run holds a lock %s; `echomind locks list` shows those that are held", clip(key, 130))
}

// completeLocks offers the locks that are held.
func (f *finder) completeLocks(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.complete(c.Context(), func(ctx context.Context, q *dbgen.Queries) (offered []cobra.Completion, err error) {
		found, err := q.ListLocks(ctx, maxCompletions)
		for _, l := range found {
			if l.Epoch != nil && len(l.Key) >= len(begun) && l.Key[:len(begun)] == begun {
				offered = append(offered, cobra.CompletionWithDesc(l.Key, "connector "+numberAndName(*l.ConnectorID, l.ConnectorName)))
			}
		}
		return offered, err
	})
}
