package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/echomind/sync/internal/clock"
	"github.com/echomind/sync/sdk/client"
)

func files(f *finder) *cobra.Command {
	return group("files", "Upload files to a connector, list and delete them",
		`A connector of type file with the config {"url": "upload:"} has the files that are uploaded to it (docs/file.md). These commands go through a server: echomind login --help.`,
		filesList(f), filesAdd(f), filesDelete(f))
}

// completeFiles offers a connector, and then what offered says.
func (f *finder) completeFiles(offered cobra.ShellCompDirective) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return f.completeConnectors(c, args, begun)
		}
		return nil, offered
	}
}

// connectorThen accepts one connector, by its number or its name, and something behind it.
func connectorThen(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 || what != "" && len(args) == 1 || what == "" && len(args) > 1 {
			needs := "one CONNECTOR, by its number or name as `echomind connectors list` shows it"
			if what != "" {
				needs = "a CONNECTOR, by its number or name, and " + what
			}
			return usagef("%s needs %s", c.CommandPath(), needs)
		}
		if checkConnector(args[0]) != nil {
			return usagef("CONNECTOR %q: must be a connector's number or name", clip(args[0], 40))
		}
		return nil
	}
}

func filesList(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "list CONNECTOR", Short: "List the files that were uploaded to a connector",
		Long:    `List the files that were uploaded to a connector, by name, and what has come of each: stored is found by a search, failed says why, waiting is for a sync.`,
		Example: "  echomind files list mine\n  echomind files list 3 -o json", Args: connectorThen(""),
		ValidArgsFunction: f.completeFiles(cobra.ShellCompDirectiveNoFileComp),
	}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		found, err := onServer(f, func(r *remote) ([]client.File, error) {
			id, err := r.connectorID(c.Context(), args[0])
			if err != nil {
				return nil, err
			}
			p := client.FilesListParams{PageSize: new(int32(pageSize))}
			all, err := readPages(c.Context(), "files", func(token *string) ([]byte, error) {
				p.PageToken = token
				answer, err := r.api.FilesListWithResponse(c.Context(), id, &p)
				if err != nil {
					return nil, err
				}
				return answer.Body, nil
			}, never[client.File])
			if err != nil {
				return nil, connectorError(id, fmt.Sprintf("list the files of connector %d", id), err)
			}
			return append([]client.File{}, all...), nil
		})
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), found, func(w io.Writer) error { return printFiles(w, *out, found) })
	}
	return c
}

func printFiles(w io.Writer, out output, found []client.File) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "no files")
		return err
	}
	now := time.Now()
	header, rows := []string{"FILE", "SIZE", "UPLOADED", "DOCUMENT", "WHY"}, make([][]string, len(found))
	if out == allColumns {
		header = append(header, "BY", "SHA-256")
	}
	for i, one := range found {
		rows[i] = []string{one.Name, size(uint64(max(one.Bytes, 0))), clock.At(one.UploadedAt, now), string(one.Document), clip(orDash(one.Error), 120)}
		if out == allColumns {
			rows[i] = append(rows[i], one.UploadedBy, one.Sha256)
		}
	}
	return table(w, header, rows)
}

// deletedFiles is what was done.
type deletedFiles struct {
	ConnectorID int32    `json:"connector_id"`
	Deleted     []string `json:"deleted"`
	// TriggerRequestedAt is null where the connector is disabled, or takes no uploads any more.
	TriggerRequestedAt *time.Time `json:"trigger_requested_at"`
}

func filesDelete(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "delete CONNECTOR FILE...", Short: "Delete files that were uploaded to a connector, and sync it",
		Long:    "Delete files that were uploaded to a connector, by the names that `echomind files list` shows, and sync it. It asks first on a terminal, and elsewhere wants --yes.",
		Example: "  echomind files delete mine notes.md\n  echomind files delete 3 notes.md list.csv --yes", Args: connectorThen("at least one FILE, by its name as `echomind files list CONNECTOR` shows it"),
		ValidArgsFunction: f.completeFiles(cobra.ShellCompDirectiveNoFileComp),
	}
	yes, note := c.Flags().Bool("yes", false, "delete without asking"), noteFlag(c)
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := wantsYes(c, *yes, "the files are lost for good"); err != nil {
			return err
		}
		var problem error
		done, err := onServer(f, func(r *remote) (done deletedFiles, err error) {
			if done.ConnectorID, err = r.connectorID(c.Context(), args[0]); err != nil {
				return done, err
			}
			if !*yes {
				question := fmt.Sprintf("%s of connector %d\nDelete? [y/N] ", counted(int64(len(args)-1), "file", "files"), done.ConnectorID)
				if err := confirm(c.InOrStdin(), c.ErrOrStderr(), question); err != nil {
					return done, err
				}
			}
			for _, name := range args[1:] {
				at, err := r.deleteFile(c.Context(), done.ConnectorID, name, note)
				if err == nil {
					done.Deleted, done.TriggerRequestedAt = append(done.Deleted, name), at
				}
				if problem = errors.Join(problem, r.said(err)); c.Context().Err() != nil {
					break
				}
			}
			return done, nil
		})
		if err != nil || len(done.Deleted) == 0 {
			return errors.Join(err, problem)
		}
		return errors.Join(out.show(c.OutOrStdout(), done, func(w io.Writer) error {
			then := "; it is not synced, as it is disabled or takes no uploads"
			if done.TriggerRequestedAt != nil {
				then = " is synced without them"
			}
			_, err := fmt.Fprintf(w, "%s deleted; connector %d%s\n", counted(int64(len(done.Deleted)), "file is", "files are"), done.ConnectorID, then)
			return err
		}), problem)
	}
	return c
}

// deleteFile deletes a file; at is when the connector was asked to sync without it.
func (r *remote) deleteFile(ctx context.Context, id int32, name string, note *auditNote) (at *time.Time, _ error) {
	answer, err := patiently(ctx, func() (*client.FilesDeleteResponse, error) {
		return r.api.FilesDeleteWithResponse(ctx, id, name, &client.FilesDeleteParams{IfMatch: new("*")}, note.on)
	})
	var refused *client.Error
	switch {
	case errors.As(err, &refused) && refused.Status == http.StatusNotFound:
		return nil, fmt.Errorf("connector %d has no file %q that you may delete; `echomind files list %[1]d` shows those there are", id, clip(name, 255))
	case err != nil:
		return nil, fmt.Errorf("delete %q of connector %d: %w", clip(name, 255), id, err)
	}
	done, err := readAs[client.FileDeletedBody](answer.Body)
	if err == nil {
		err = r.is(done.ConnectorID == id)
	}
	return done.TriggerRequestedAt, err
}
