package console

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/sdk/client"
)

const (
	listOperations = "echomind operations list"
	// maxResults is how many results of an operation the API keeps.
	maxResults = 10000
)

func operations(f *finder) *cobra.Command {
	return group("operations", "Sync, enable, disable or delete all connectors that match a filter",
		"An operation does to all connectors that match a filter, and that you may change, what is done to one. The server works it off in the background, and says what came of it (docs/api.md). "+
			"These commands go through a server: echomind login --help.",
		operate(f, action{"sync", "syncs", "Sync connectors", "Those that are disabled are not synced, and are told as failed."}),
		operate(f, action{"enable", "enables", "Enable connectors", "Those that are enabled stay as they are."}),
		operate(f, action{"disable", "disables", "Disable connectors", "Those that are disabled stay as they are; syncs in flight are ended."}),
		operate(f, action{"delete", "deletes", "Delete connectors and their documents", "The documents are lost for good. Nothing is deleted where other connectors match by then than were shown."}),
		operationsList(f), operationsShow(f), operationsResults(f), operationsCancel(f))
}

// oneOperation accepts exactly one operation's number.
func oneOperation(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("%s needs one OPERATION, its number as `%s` shows it", c.CommandPath(), listOperations)
	}
	_, err := operationID(args[0])
	return err
}

func operationID(text string) (int32, error) {
	return numbered[int32]("OPERATION", listOperations, text)
}

func noOperation(id int32) error {
	return fmt.Errorf("there is no operation %d of yours; `%s` shows those there are", id, listOperations)
}

// operationOf reads an answer that is an operation; 0 = one with any number.
func (r *remote) operationOf(answer []byte, id int32) (client.Operation, error) {
	o, err := readAs[client.Operation](answer)
	if err == nil {
		err = r.is(o.ID > 0 && (id == 0 || o.ID == id))
	}
	return o, err
}

func (r *remote) operation(ctx context.Context, id int32) (none client.Operation, _ error) {
	answer, err := patiently(ctx, func() (*client.OperationsGetResponse, error) { return r.api.OperationsGetWithResponse(ctx, id) })
	if err != nil {
		return none, refusedAs(err, fmt.Sprintf("read operation %d", id), noOperation(id))
	}
	return r.operationOf(answer.Body, id)
}

func operationsList(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List your operations", Long: "List your operations, the latest first: those of the last seven days.",
		Example: "  echomind operations list\n  echomind operations list -o json", Args: cobra.NoArgs,
	}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		var p client.OperationsListParams
		return serverList[client.Operation]{
			field: "operations", size: &p.PageSize, print: printOperations,
			ask: func(r *remote, token *string) (bodied, error) {
				p.PageToken = token
				return r.api.OperationsListWithResponse(c.Context(), &p)
			},
			refused: func(err error) error { return fmt.Errorf("list the operations: %w", err) },
		}.show(c, f, out)
	}
	return c
}

func printOperations(w io.Writer, found []client.Operation) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "no operations of yours")
		return err
	}
	now, rows := time.Now(), make([][]string, len(found))
	for i, o := range found {
		rows[i] = []string{
			strconv.Itoa(int(o.ID)), string(o.Action), saysWhich(o), string(o.State), fmt.Sprintf("%d of %d", o.Done, o.Matched), count(int64(o.Changed)), count(int64(o.Unchanged)),
			count(int64(o.Skipped)), count(int64(o.Failed)), clock.At(o.CreatedAt, now), clock.Optional(o.EndedAt, now),
		}
	}
	return table(w, []string{"ID", "ACTION", "OF", "STATE", "DONE", "CHANGED", "UNCHANGED", "LEFT OUT", "FAILED", "ASKED", "ENDED"}, rows)
}

// saysFilter is a filter as its flags are written.
func saysFilter(f client.OperationFilter) string {
	var all []string
	say := func(flag, value string) { all = append(all, "--"+flag+" "+value) }
	for _, one := range []struct {
		flag  string
		value *string
	}{
		{"name", f.Name}, {"type", f.Type}, {"status", (*string)(f.Status)}, {"scope", (*string)(f.Scope)}, {"scope-id", f.ScopeID},
	} {
		if one.value != nil {
			say(one.flag, clip(*one.value, 40))
		}
	}
	if f.UserID != nil {
		say("user", strconv.Itoa(int(*f.UserID)))
	}
	if f.Late != nil && *f.Late {
		all = append(all, "--late")
	}
	if len(all) == 0 {
		return "all"
	}
	return strings.Join(all, " ")
}

// saysWhich is what an operation is for, as flags are written.
func saysWhich(o client.Operation) string {
	if o.Letters == nil {
		return saysFilter(o.Filter)
	}
	all := []string{}
	if reason := o.Letters.Reason; reason != nil {
		all = append(all, fmt.Sprintf("reason %q", clip(*reason, 40)))
	}
	if subject := o.Letters.Subject; subject != nil && *subject != everySubject {
		all = append(all, "--subject "+clip(*subject, 40))
	}
	if id := o.Letters.ConnectorID; id != nil {
		all = append(all, fmt.Sprintf("--connector %d", *id))
	}
	if len(all) == 0 {
		return "all letters"
	}
	return strings.Join(all, " ")
}

func operationsShow(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "show OPERATION", Short: "Show how far an operation has come",
		Long:    "Show how far an operation has come. What it has not changed, and why, `echomind operations results` lists.",
		Example: "  echomind operations show 5", Args: oneOperation,
	}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := operationID(args[0])
		if err != nil {
			return err
		}
		return doAndShow(c, f, out, func(r *remote) (client.Operation, error) { return r.operation(c.Context(), id) }, printOperation)
	}
	return c
}

func printOperation(w io.Writer, o client.Operation) error {
	now := time.Now()
	rows := [][]string{
		{"action", string(o.Action)},
		{map[bool]string{true: "connectors", false: "dead letters"}[o.Letters == nil], saysWhich(o)},
		{"state", string(o.State)},
		{"done", saysDone(o)},
		{"not yours", fmt.Sprintf("%d matched that you may not change", o.LeftOut)},
		{"asked", fmt.Sprintf("%s by user %d", clock.At(o.CreatedAt, now), o.UserID)},
		{"began", clock.Optional(o.BeganAt, now)},
		{"ended", clock.Optional(o.EndedAt, now)},
	}
	if o.Error != nil {
		rows = append(rows, []string{"error", *o.Error})
	}
	return table(w, []string{"operation", strconv.Itoa(int(o.ID))}, rows)
}

// saysDone is how far an operation has come.
func saysDone(o client.Operation) string {
	text := fmt.Sprintf("%d of %d: %d changed, %d unchanged, %d left out, %d failed", o.Done, o.Matched, o.Changed, o.Unchanged, o.Skipped, o.Failed)
	if o.Unbegun > 0 {
		text += fmt.Sprintf("; %d wait for a worker", o.Unbegun)
	}
	return text
}

func operationsResults(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "results OPERATION", Short: "List the connectors that an operation has not changed, and why",
		Long: `List the connectors that an operation has not changed, and why, by number: the first 10,000. Skipped are those that were gone, matched no more, or that you might
not change any more; those that stood so already are not among them.`,
		Example: "  echomind operations results 5\n  echomind operations results 5 --result failed -o json", Args: oneOperation,
	}
	result := c.Flags().String("result", "", "only those with this result: skipped or failed")
	limit := limitFlag(c, 100, "how many")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := operationID(args[0])
		if err == nil {
			err = checkLimit(*limit, maxResults)
		}
		switch {
		case err != nil:
			return err
		case c.Flags().Changed("result") && !slices.Contains([]string{"skipped", "failed"}, *result):
			return usagef("--result %q: must be skipped or failed", clip(*result, 40))
		}
		p := client.OperationsResultsParams{Result: (*client.OperationsResultsParamsResult)(textOr(*result))}
		return serverList[client.OperationResult]{
			field: "results", limit: *limit, most: maxResults, size: &p.PageSize, print: printResults,
			ask: func(r *remote, token *string) (bodied, error) {
				p.PageToken = token
				return r.api.OperationsResultsWithResponse(c.Context(), id, &p)
			},
			refused: func(err error) error {
				return refusedAs(err, fmt.Sprintf("read the results of operation %d", id), noOperation(id))
			},
		}.show(c, f, out)
	}
	return c
}

func printResults(w io.Writer, found []client.OperationResult) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "no connector was left out, or failed")
		return err
	}
	now, rows := time.Now(), make([][]string, len(found))
	for i, r := range found {
		rows[i] = []string{numberAndName(r.ConnectorID, r.Name), string(r.Result), clock.At(r.At, now), clip(r.Reason, 120)}
	}
	return table(w, []string{"CONNECTOR", "RESULT", "AT", "WHY"}, rows)
}

func operationsCancel(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "cancel OPERATION", Short: "End an operation", Long: "End an operation. What it has done stays done; syncs that it has asked for go on.",
		Example: "  echomind operations cancel 5", Args: oneOperation,
	}
	note, out := noteFlag(c), withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := operationID(args[0])
		if err != nil {
			return err
		}
		return doAndShow(c, f, out, func(r *remote) (none client.Operation, _ error) {
			answer, err := r.api.OperationsCancelWithResponse(c.Context(), id, &client.OperationsCancelParams{}, note.on)
			if err != nil {
				return none, refusedAs(err, fmt.Sprintf("cancel operation %d", id), noOperation(id))
			}
			return r.operationOf(answer.Body, id)
		}, func(w io.Writer, o client.Operation) error {
			_, err := fmt.Fprintf(w, "operation %d is %s; done: %s\n", o.ID, o.State, saysDone(o))
			return err
		})
	}
	return c
}
