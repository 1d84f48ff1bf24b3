package console

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
	"github.com/echomind/sync/internal/blackouts"
)

// maxCompletions is how many connectors a shell is offered.
const maxCompletions = 500

// completions tells the shell what words a command takes, and that none of them is a file's name.
func completions(f *finder, c *cobra.Command) {
	flags := map[string]cobra.CompletionFunc{
		"output":         cobra.FixedCompletions([]cobra.Completion{string(forPeople), string(allColumns), string(forPrograms)}, cobra.ShellCompDirectiveNoFileComp),
		"verdict":        cobra.FixedCompletions(verdicts(), cobra.ShellCompDirectiveNoFileComp),
		"status":         cobra.FixedCompletions(statuses(), cobra.ShellCompDirectiveNoFileComp),
		"scope":          cobra.FixedCompletions([]cobra.Completion{"user", "group", "org", "system"}, cobra.ShellCompDirectiveNoFileComp),
		"kind":           cobra.FixedCompletions([]cobra.Completion{kindSource, kindJob}, cobra.ShellCompDirectiveNoFileComp),
		"type":           f.completeTypes,
		"dst-gap":        cobra.FixedCompletions(dstGaps, cobra.ShellCompDirectiveNoFileComp),
		"dst-overlap":    cobra.FixedCompletions(dstOverlaps, cobra.ShellCompDirectiveNoFileComp),
		"overlap":        cobra.FixedCompletions(overlaps, cobra.ShellCompDirectiveNoFileComp),
		"once-per":       cobra.FixedCompletions(periods, cobra.ShellCompDirectiveNoFileComp),
		"catch-up":       cobra.FixedCompletions(catchUps, cobra.ShellCompDirectiveNoFileComp),
		"calendar":       f.completeCalendars,
		"calendar-use":   cobra.FixedCompletions(uses, cobra.ShellCompDirectiveNoFileComp),
		"connector":      f.completeConnectors,
		"condition":      f.completeConditions,
		"mode":           cobra.FixedCompletions([]cobra.Completion{blackouts.Skip, blackouts.Defer}, cobra.ShellCompDirectiveNoFileComp),
		"events":         cobra.FixedCompletions(webhookEvents, cobra.ShellCompDirectiveNoFileComp),
		"enabled":        cobra.FixedCompletions([]cobra.Completion{guardOn, guardOff}, cobra.ShellCompDirectiveNoFileComp),
		"state":          cobra.FixedCompletions(deliveryStates, cobra.ShellCompDirectiveNoFileComp),
		"result":         cobra.FixedCompletions([]cobra.Completion{"skipped", "failed"}, cobra.ShellCompDirectiveNoFileComp),
		"deletion-guard": cobra.FixedCompletions([]cobra.Completion{guardOn, guardOff}, cobra.ShellCompDirectiveNoFileComp),
	}
	for name, complete := range flags {
		if c.Flags().Lookup(name) != nil {
			_ = c.RegisterFlagCompletionFunc(name, complete)
		}
	}
	switch _, arguments, _ := strings.Cut(c.Use, " "); {
	case c.HasParent() && c.Parent().Name() == "dlq":
		c.ValidArgsFunction = cobra.NoFileCompletions
	case strings.HasPrefix(strings.TrimPrefix(arguments, "["), "ID"):
		c.ValidArgsFunction = f.completeConnectors
	case !c.HasSubCommands() && c.ValidArgsFunction == nil:
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, sub := range c.Commands() {
		completions(f, sub)
	}
}

// completeConnectors offers the numbers of connectors with their names, and names where one is begun.
func (f *finder) completeConnectors(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 && !strings.Contains(c.Use, "ID...") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return f.complete(c.Context(), func(ctx context.Context, q *dbgen.Queries) (offered []cobra.Completion, err error) {
		found, err := q.ListConnectors(ctx, dbgen.ListConnectorsParams{Page: maxCompletions})
		for _, one := range found {
			if id := fmt.Sprint(one.ID); strings.HasPrefix(id, begun) {
				offered = append(offered, cobra.CompletionWithDesc(id, printable(one.Name)))
			}
			if begun != "" && strings.HasPrefix(one.Name, begun) && !isNumber(one.Name) {
				offered = append(offered, cobra.CompletionWithDesc(printable(one.Name), one.Type))
			}
		}
		return offered, err
	})
}

func (f *finder) completeTypes(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return f.complete(c.Context(), func(ctx context.Context, q *dbgen.Queries) (offered []cobra.Completion, err error) {
		types, err := q.ListConnectorTypes(ctx)
		for _, t := range types {
			offered = append(offered, t.Name)
		}
		return offered, err
	})
}

// complete asks the running stack; where it does not answer nothing is offered.
func (f *finder) complete(
	ctx context.Context, call func(context.Context, *dbgen.Queries) ([]cobra.Completion, error),
) (offered []cobra.Completion, _ cobra.ShellCompDirective) {
	err := f.withPool(ctx, func(pool *pgxpool.Pool) (err error) {
		offered, err = ask(ctx, pool, "complete", call)
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
	}
	return offered, cobra.ShellCompDirectiveNoFileComp
}

// completeCalendars offers the names of calendars.
func (f *finder) completeCalendars(c *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return f.complete(c.Context(), func(ctx context.Context, q *dbgen.Queries) (offered []cobra.Completion, err error) {
		found, err := q.ListCalendars(ctx, maxCompletions)
		for _, one := range found {
			if strings.HasPrefix(one.Name, begun) {
				offered = append(offered, one.Name)
			}
		}
		return offered, err
	})
}

// completeConditions offers the names of conditions.
func (f *finder) completeConditions(c *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return f.complete(c.Context(), func(ctx context.Context, q *dbgen.Queries) (offered []cobra.Completion, err error) {
		found, err := q.ListConditions(ctx, maxCompletions)
		for _, one := range found {
			if strings.HasPrefix(one.Name, begun) {
				offered = append(offered, one.Name)
			}
		}
		return offered, err
	})
}
