package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/echomind/sync/contract/topology"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/repeat"
	natsstreams "github.com/echomind/sync/internal/streams"
)

const (
	applyTimeout = time.Minute
	applyAgain   = time.Second
)

func streams(f *finder) *cobra.Command {
	return group("streams", "Make NATS's streams what they must be, or look at them",
		"Make NATS's streams what they must be, or look at them. Services whose user may do so make what is missing by themselves; "+
			"with least privilege nobody but this command does. `echomind run` needs neither.",
		streamsApply(f), streamsShow(f))
}

func streamsApply(f *finder) *cobra.Command {
	size := natsstreams.Size{}
	c := &cobra.Command{
		Use:   "apply",
		Short: "Create the streams that are missing and mend the others",
		Long: `Create the streams that are missing and mend the settings of the others. It is safe to run twice, and from several
places at once; what a stream holds stays. Sizes and replicas that are not given stay as they are.`,
		Example: "  NATS_URL=nats://nats:4222 NATS_USER=setup NATS_PASSWORD=… echomind streams apply --wait 60s\n" +
			"  echomind streams apply --replicas 3",
		Args: cobra.NoArgs,
	}
	flags := c.Flags()
	flags.IntVar(&size.Replicas, "replicas", 0, "on how many servers of a cluster each stream is kept: 1, 3 or 5 (also $NATS_REPLICAS)")
	flags.Int64Var(&size.MaxDocumentBytes, "max-document-bytes", 0, "how large the stream of documents may grow, in `bytes`")
	flags.Int64Var(&size.MaxDeadLetterBytes, "max-dead-letter-bytes", 0, "how large the stream of dead letters may grow, in `bytes`")
	flags.Int64Var(&size.MaxEventBytes, "max-event-bytes", 0, "how large the stream of events may grow before the oldest make room, in `bytes`")
	wait := flags.Duration("wait", 0, "how long to wait for NATS to be there")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		from := "--replicas"
		if !flags.Changed("replicas") {
			var own config.Streams
			if err := config.Load(&own); err != nil {
				return err
			}
			size.Replicas, from = own.Replicas, "NATS_REPLICAS"
		}
		if size.Replicas < 0 || size.Replicas > 5 {
			return usagef("%s %d: must be 1 to 5; odd numbers are of use", from, size.Replicas)
		}
		for name, bytes := range map[string]int64{"max-document-bytes": size.MaxDocumentBytes, "max-dead-letter-bytes": size.MaxDeadLetterBytes, "max-event-bytes": size.MaxEventBytes} {
			if flags.Changed(name) && bytes < 2*topology.MaxMessageBytes {
				return usagef("--%s %d: must be at least %d, two of the largest messages", name, bytes, 2*topology.MaxMessageBytes)
			}
		}
		until := time.Now().Add(*wait)
		for {
			err := f.withStreams(c.Context(), func(ctx context.Context, js jetstream.JetStream) error {
				if err := natsstreams.Apply(ctx, js, size); err != nil {
					return err
				}
				return showStreams(ctx, c.OutOrStdout(), out, js)
			})
			if err == nil || errors.Is(err, natsstreams.ErrMisconfigured) || errors.Is(err, natsstreams.ErrNotAllowed) || time.Now().After(until) {
				return err
			}
			_, _ = fmt.Fprintln(c.ErrOrStderr(), "echomind: waiting for NATS:", err)
			if repeat.Sleep(c.Context(), applyAgain) != nil {
				return errors.Join(c.Context().Err(), err)
			}
		}
	}
	return c
}

func streamsShow(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "show", Short: "Show the streams and where they are weaker than they look",
		Long: "Show what each stream holds, how it is kept, and where it is less durable than it looks.", Example: "  echomind streams show", Args: cobra.NoArgs,
	}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		return f.withStreams(c.Context(), func(ctx context.Context, js jetstream.JetStream) error {
			return showStreams(ctx, c.OutOrStdout(), out, js)
		})
	}
	return c
}

// findNATS is find of what needs no database: where NATS_URL is set, no server goes before it.
func (f *finder) findNATS() (w whereabouts, notRunning, err error) {
	lookup, err := f.fromEnvironment()
	if err != nil {
		return w, nil, err
	}
	if lookup.NATSURL == "" {
		return f.find()
	}
	return whereabouts{natsURL: lookup.NATSURL, natsAccess: lookup.NATSAccess}, nil, nil
}

func (f *finder) withStreams(ctx context.Context, work func(context.Context, jetstream.JetStream) error) error {
	where, notRunning, err := f.findNATS()
	if err != nil {
		return err
	}
	asked, err := where.broker(notRunning)
	if err != nil {
		return err
	}
	defer asked.Close()
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	return work(ctx, asked.Streams())
}

// streamView is what programs are shown of a stream.
type streamView struct {
	Name     string   `json:"name"`
	Messages uint64   `json:"messages"`
	Bytes    uint64   `json:"bytes"`
	MaxBytes int64    `json:"max_bytes"`
	Replicas int      `json:"replicas"`
	Warnings []string `json:"warnings"`
}

func showStreams(ctx context.Context, w io.Writer, out *output, js jetstream.JetStream) error {
	standing, err := natsstreams.Inspect(ctx, js)
	if err != nil {
		return err
	}
	account, err := natsstreams.AccountWarnings(ctx, js)
	if errors.Is(err, natsstreams.ErrNotAllowed) {
		account, err = []string{"the account's limits are not known: " + err.Error()}, nil
	}
	if err != nil {
		return err
	}
	var views []streamView
	var rows [][]string
	for _, name := range slices.Sorted(maps.Keys(standing)) {
		v := streamView{Name: name, Warnings: append([]string{}, standing[name].Warnings...)}
		if info := standing[name].Info; info != nil {
			v.Messages, v.Bytes, v.MaxBytes, v.Replicas = info.State.Msgs, info.State.Bytes, max(info.Config.MaxBytes, 0), info.Config.Replicas
		}
		views = append(views, v)
		limit := "no limit"
		if v.MaxBytes > 0 {
			limit = strconv.FormatInt(v.MaxBytes>>20, 10) + " MiB"
		}
		rows = append(rows, []string{v.Name, strconv.FormatUint(v.Messages, 10), strconv.FormatUint(v.Bytes>>20, 10) + " MiB", limit, strconv.Itoa(v.Replicas)})
	}
	return out.show(w, views, func(w io.Writer) error {
		if err := table(w, []string{"STREAM", "MESSAGES", "SIZE", "LIMIT", "REPLICAS"}, rows); err != nil {
			return err
		}
		for _, v := range views {
			if len(v.Warnings) > 0 {
				if _, err := fmt.Fprintf(w, "%s: %s\n", v.Name, strings.Join(v.Warnings, "; ")); err != nil {
					return err
				}
			}
		}
		for _, warning := range account {
			if _, err := fmt.Fprintln(w, warning); err != nil {
				return err
			}
		}
		return nil
	})
}
