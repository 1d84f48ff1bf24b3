package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomind/sync/sdk/client"
)

// action is what an operation does to each connector.
type action struct {
	// name is what the API calls it, does what an operation is said to do.
	name, does string
	// short and long say it of connectors.
	short, long string
}

// operationFlags say to which connectors an operation is done, and how.
type operationFlags struct {
	name, kind, status, scope, scopeID string
	user                               int32
	late, all, yes, dryRun, wait       bool
	timeout                            time.Duration
}

func (v *operationFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&v.name, "name", "", "those whose name has this in it, in capitals or not")
	flags.StringVar(&v.kind, "type", "", "those of this type")
	flags.StringVar(&v.status, "status", "", "those with this status: "+strings.Join(statuses(), ", "))
	flags.StringVar(&v.scope, "scope", "", "those of this scope: user, group, org, system")
	flags.StringVar(&v.scopeID, "scope-id", "", "those of this group")
	flags.Int32Var(&v.user, "user", 0, "those of this user, by their `number`")
	flags.BoolVar(&v.late, "late", false, "those that are older than their --fresh-within says")
	flags.BoolVar(&v.all, "all", false, "without any of these: all that you may change")
	flags.BoolVar(&v.dryRun, "dry-run", false, "say how many match, and change nothing")
	flags.BoolVar(&v.yes, "yes", false, "begin without asking")
	flags.BoolVar(&v.wait, "wait", false, "show progress until it has ended")
	flags.DurationVar(&v.timeout, "timeout", 0, "with --wait, how long to wait; 0 = as long as it takes")
	c.MarkFlagsMutuallyExclusive("dry-run", "wait")
}

// filter is what the flags give.
func (v *operationFlags) filter(c *cobra.Command) (f client.OperationFilter, _ error) {
	given := c.Flags().Changed
	narrow := false
	text := func(flag string, value *string) *string {
		if !given(flag) {
			return nil
		}
		narrow = true
		return value
	}
	f.Name, f.Type, f.ScopeID = text("name", &v.name), text("type", &v.kind), text("scope-id", &v.scopeID)
	f.Scope = (*client.OperationFilterScope)(text("scope", &v.scope))
	if given("status") {
		v.status = strings.ToUpper(v.status)
		f.Status = (*client.OperationFilterStatus)(text("status", &v.status))
	}
	if given("user") {
		if f.UserID, narrow = &v.user, true; v.user < 1 {
			return f, usagef("--user %d: must be a user's number, 1 or more", v.user)
		}
	}
	if v.late {
		f.Late, narrow = &v.late, true
	}
	for flag, value := range map[string]string{"name": v.name, "type": v.kind, "status": v.status, "scope": v.scope, "scope-id": v.scopeID} {
		if given(flag) && value == "" {
			return f, usagef("--%s %q: must be a text; leave it out for connectors of any", flag, value)
		}
	}
	switch {
	case narrow && v.all:
		return f, usagef("--all: goes without a filter, and there is %s", saysFilter(f))
	case !narrow && !v.all:
		return f, usagef("%s: say which connectors: --name, --type, --status, --scope, --scope-id, --user or --late, or --all that you may change", c.CommandPath())
	case v.timeout < 0 || v.timeout > 0 && !v.wait:
		return f, usagef("--timeout %s: must be positive, and goes with --wait", v.timeout)
	}
	return f, nil
}

// operate is the command of one action.
func operate(f *finder, do action) *cobra.Command {
	c := &cobra.Command{
		Use: do.name, Short: do.short + " that match a filter",
		Long: do.short + ` that match a filter, and that you may change. How many match is said first; it asks on a terminal, and elsewhere wants --yes. Which connectors it is for is decided when it
begins. ` + do.long + `

The server goes on with it whether somebody waits or not. With --wait progress is shown, and the exit code is 1 if it does not come to its end, or failed for a connector.`,
		Example: fmt.Sprintf("  echomind operations %[1]s --type web --user 7 --dry-run\n  echomind operations %[1]s --status error --yes --wait\n  echomind operations %[1]s --all --note 'the move to the new server'", do.name),
		Args:    cobra.NoArgs,
	}
	var given operationFlags
	given.add(c)
	note, out := noteFlag(c), withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		filter, err := given.filter(c)
		if err == nil && !given.dryRun {
			err = wantsYes(c, given.yes, "it changes many connectors at once (--dry-run says how many)")
		}
		if err != nil {
			return err
		}
		_, err = onServer(f, func(r *remote) (none struct{}, _ error) {
			found, err := r.previewed(c.Context(), do, filter)
			if err != nil || given.dryRun {
				return none, errors.Join(err, showPreview(c, *out, do, found, err))
			}
			if found.Matched == 0 {
				return none, fmt.Errorf("%s: nothing to do", saysPreview(do, found))
			}
			if given.yes {
				_, err = fmt.Fprintln(c.ErrOrStderr(), saysPreview(do, found))
			} else if err = confirm(c.InOrStdin(), c.ErrOrStderr(), saysPreview(do, found)+"\nBegin? [y/N] "); errors.Is(err, errNotConfirmed) {
				err = errors.New("nothing is begun")
			}
			if err != nil {
				return none, err
			}
			begun, err := r.begin(c.Context(), do, filter, *found.Confirm, note)
			if err != nil {
				return none, err
			}
			if given.wait {
				return none, r.awaitOperation(c, begun, given.timeout, *out)
			}
			return none, out.show(c.OutOrStdout(), begun, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "operation %d %s %s; `echomind operations show %[1]d` tells how far it has come\n", begun.ID, do.does, connectorsCounted(begun.Matched))
				return err
			})
		})
		return err
	}
	return c
}

func connectorsCounted(n int32) string { return counted(int64(n), "connector", "connectors") }

// previewed is what an action would be done to. What is more than one operation takes is an error.
func (r *remote) previewed(ctx context.Context, do action, filter client.OperationFilter) (found client.OperationPreviewBody, _ error) {
	answer, err := r.api.OperationsPreviewWithResponse(ctx, client.OperationRequest{Action: client.OperationRequestAction(do.name), Filter: filter})
	if err != nil {
		return found, refusedOperation(fmt.Sprintf("count the connectors to %s", do.name), err)
	}
	if found, err = readAs[client.OperationPreviewBody](answer.Body); err == nil {
		err = r.is(string(found.Action) == do.name && (found.Confirm != nil || found.Matched == 0 || found.AtLeast))
	}
	if err == nil && found.AtLeast {
		err = fmt.Errorf("%d connectors match and more, which is too many for one operation: narrow it by --type, --user, --status, --name or --scope", found.Matched)
	}
	return found, err
}

// refusedOperation says which flag the API does not take.
func refusedOperation(what string, err error) error {
	flags := map[string]string{}
	for field, flag := range map[string]string{"name": "--name", "type": "--type", "status": "--status", "scope": "--scope", "scope_id": "--scope-id", "user_id": "--user"} {
		flags["body.filter."+field] = flag
	}
	if said := wrongFlags(err, flags); said != nil {
		return said
	}
	return fmt.Errorf("%s: %w", what, err)
}

// showPreview shows what a dry run has found, if it has.
func showPreview(c *cobra.Command, out output, do action, found client.OperationPreviewBody, failed error) error {
	if failed != nil {
		return nil
	}
	found.Confirm, found.ConfirmUntil = nil, nil // good for nothing: another command previews anew
	return out.show(c.OutOrStdout(), found, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, saysPreview(do, found))
		return err
	})
}

func saysPreview(do action, found client.OperationPreviewBody) string {
	text := fmt.Sprintf("%s to %s", connectorsCounted(found.Matched), do.name)
	if found.Examples != nil && len(*found.Examples) > 0 {
		var names []string
		for _, one := range *found.Examples {
			names = append(names, fmt.Sprintf("%d %q", one.ID, printable(clip(one.Name, 40))))
		}
		text += ": " + strings.Join(names, ", ")
		if more := int(found.Matched) - len(names); more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
	}
	if found.LeftOut > 0 {
		text += fmt.Sprintf("; %d more match that you may not change", found.LeftOut)
	}
	return text
}

func (r *remote) begin(ctx context.Context, do action, filter client.OperationFilter, confirmation string, note *auditNote) (none client.Operation, _ error) {
	answer, err := r.api.OperationsCreateWithResponse(ctx, &client.OperationsCreateParams{}, client.CreateOperationBody{
		Action: client.CreateOperationBodyAction(do.name), Filter: filter, Confirm: confirmation,
	}, note.on)
	if err != nil {
		return none, refusedOperation("begin the operation", err)
	}
	return r.operationOf(answer.Body, 0)
}

// awaitOperation shows how far an operation comes until it has ended. What does not answer for a while is asked again.
func (r *remote) awaitOperation(c *cobra.Command, o client.Operation, timeout time.Duration, out output) error {
	ctx := c.Context()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, fmt.Errorf("operation %d has not ended within %s; it goes on, and `echomind operations show %[1]d` tells how far it has come", o.ID, timeout))
		defer cancel()
	}
	lines := c.OutOrStdout()
	if out == forPrograms {
		lines = c.ErrOrStderr()
	}
	say, end := progressLines(lines)
	looks := time.NewTicker(remoteLook)
	defer looks.Stop()
	for o.EndedAt == nil {
		say(fmt.Sprintf("operation %d, %s, %s", o.ID, o.State, saysDone(o)), time.Now())
		select {
		case <-looks.C:
		case <-ctx.Done():
			end()
			return context.Cause(ctx)
		}
		seen, err := r.operation(ctx, o.ID)
		switch {
		case err == nil:
			o = seen
		case ctx.Err() != nil || !client.IsAway(err):
			end()
			return errors.Join(context.Cause(ctx), err)
		default:
			say(fmt.Sprintf("operation %d: the server does not answer: %v", o.ID, err), time.Now())
		}
	}
	end()
	err := out.show(c.OutOrStdout(), o, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "operation %d is %s, %s\n", o.ID, o.State, saysDone(o))
		return err
	})
	switch {
	case err != nil:
		return err
	case o.State != "completed":
		return fmt.Errorf("operation %d is %s: %s", o.ID, o.State, orDash(o.Error))
	case o.Failed > 0:
		return fmt.Errorf("operation %d failed for %s; `echomind operations results %[1]d` tells why", o.ID, connectorsCounted(o.Failed))
	}
	return nil
}
