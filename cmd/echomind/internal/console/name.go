package console

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/cmd/echomind/internal/dbgen"
)

// sameName is how many connectors of one name are listed in an error.
const sameName = 10

// oneConnector accepts one connector, by its number or its name.
func oneConnector(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("%s needs one ID, the connector's number or name as `echomind connectors list` shows it", c.CommandPath())
	}
	return checkConnector(args[0])
}

// someConnectors accepts one connector or more.
func someConnectors(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("%s needs at least one ID, a connector's number or name as `echomind connectors list` shows it", c.CommandPath())
	}
	problems := make([]error, len(args))
	for i, text := range args {
		problems[i] = checkConnector(text)
	}
	return errors.Join(problems...)
}

// checkConnector refuses what can be neither a number nor a name.
func checkConnector(text string) error {
	switch {
	case text == "":
		return usagef("ID \"\": must be a connector's number or name")
	case isNumber(text):
		_, err := parseID(text)
		return err
	}
	return nil
}

// isNumber says whether a text is a connector's number, as it is shown: 007 is a name.
func isNumber(text string) bool {
	return strings.Trim(text, "0123456789") == "" && (len(text) == 1 || !strings.HasPrefix(text, "0"))
}

func parseID(text string) (int32, error) {
	id, err := strconv.ParseInt(text, 10, 32)
	if err != nil || id < 1 {
		return 0, usagef("ID %q: must be a connector's number, 1 or more, or its name", clip(text, 40))
	}
	return int32(id), nil
}

// connectorID is the number of the connector that somebody names. A number is always one, whatever connectors are called.
func connectorID(ctx context.Context, pool *pgxpool.Pool, text string) (int32, error) {
	if isNumber(text) {
		return parseID(text)
	}
	return ask(ctx, pool, "named", func(ctx context.Context, q *dbgen.Queries) (int32, error) { return connectorNamed(ctx, q, text) })
}

// connectorNamed is the number of the one connector that has a name.
func connectorNamed(ctx context.Context, q *dbgen.Queries, text string) (int32, error) {
	found, err := q.ConnectorsNamed(ctx, dbgen.ConnectorsNamedParams{Name: text, Page: sameName})
	if err != nil {
		return 0, fmt.Errorf("look for connector %q: %w", clip(text, 40), err)
	}
	named := make([]namedConnector, len(found))
	for i, c := range found {
		named[i] = namedConnector(c)
	}
	return theOneNamed(text, named)
}

// namedConnector is one of those that have a name.
type namedConnector struct {
	ID     int32
	Type   string
	UserID *int32
}

// theOneNamed is the number of the one connector that has a name.
func theOneNamed(text string, found []namedConnector) (int32, error) {
	switch {
	case len(found) == 0:
		return 0, fmt.Errorf("there is no connector %q; `echomind connectors list` shows those there are", clip(text, 40))
	case len(found) == 1:
		return found[0].ID, nil
	}
	all := make([]string, len(found))
	for i, c := range found {
		all[i] = fmt.Sprintf("%d (%s, user %s)", c.ID, c.Type, owner(c.UserID))
	}
	return 0, fmt.Errorf("several connectors are named %q; give the number of one: %s", clip(text, 40), strings.Join(all, ", "))
}

// eachConnector does something to each connector that is named. What fails for one does not keep it from the others.
func eachConnector[T any](
	ctx context.Context, pool *pgxpool.Pool, args []string, do func(context.Context, int32) (T, error),
) (done []T, err error) {
	return eachOf(ctx, args, func(ctx context.Context, text string) (int32, error) { return connectorID(ctx, pool, text) }, do)
}

// eachOf is eachConnector with number to look a name up, here or on a server.
func eachOf[T any](
	ctx context.Context, args []string, number func(context.Context, string) (int32, error), do func(context.Context, int32) (T, error),
) (done []T, err error) {
	for _, text := range args {
		id, problem := number(ctx, text)
		if problem == nil {
			var one T
			if one, problem = do(ctx, id); problem == nil {
				done = append(done, one)
			}
		}
		if err = errors.Join(err, problem); ctx.Err() != nil {
			break
		}
	}
	return done, err
}

// shownAs is what programs are shown of what was done: an object where one connector was named, else an array.
func shownAs[T any](done []T, args []string) any {
	if len(args) == 1 {
		return done[0]
	}
	return done
}
