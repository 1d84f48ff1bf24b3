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

const listWebhooks = "echomind webhooks list"

// webhookEvents are what a webhook may be told.
var webhookEvents = []string{"failed", "disabled", "stale", "recovered"}

func webhooks(f *finder) *cobra.Command {
	return group("webhooks", "Have URLs told when sources fail, and when they are well again",
		"A webhook is a URL of yours that is told when sources that you see are failed, disabled or stale, and when they are well again (docs/webhooks.md). "+
			"These commands go through a server: echomind login --help.",
		webhooksList(f), webhooksAdd(f), webhooksShow(f), webhooksUpdate(f), webhooksDelete(f), webhooksTest(f), webhooksDeliveries(f), webhooksReplay(f), webhooksSecret(f))
}

// oneWebhook accepts exactly one webhook's number.
func oneWebhook(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("%s needs one WEBHOOK, its number as `%s` shows it", c.CommandPath(), listWebhooks)
	}
	_, err := webhookID(args[0])
	return err
}

func webhookID(text string) (int32, error) { return numbered[int32]("WEBHOOK", listWebhooks, text) }

func noWebhook(id int32) error {
	return fmt.Errorf("there is no webhook %d; `%s` shows those there are", id, listWebhooks)
}

func webhooksList(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "List webhooks", Long: "List your webhooks. A superadmin lists everybody's.",
		Example: "  echomind webhooks list\n  echomind webhooks list --user 7 -o wide", Args: cobra.NoArgs,
	}
	user := c.Flags().Int32("user", 0, "only those of this user, by their `number`")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		var p client.WebhooksListParams
		if c.Flags().Changed("user") {
			if p.UserID = user; *user < 1 {
				return usagef("--user %d: must be a user's number, 1 or more", *user)
			}
		}
		return serverList[client.Webhook]{
			field: "webhooks", size: &p.PageSize, print: func(w io.Writer, found []client.Webhook) error { return printWebhooks(w, *out, found) },
			ask: func(r *remote, token *string) (bodied, error) {
				p.PageToken = token
				return r.api.WebhooksListWithResponse(c.Context(), &p)
			},
			refused: func(err error) error { return fmt.Errorf("list the webhooks: %w", err) },
		}.show(c, f, out)
	}
	return c
}

func printWebhooks(w io.Writer, out output, found []client.Webhook) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "no webhooks; `echomind webhooks add --url URL` adds one")
		return err
	}
	now := time.Now()
	header, rows := []string{"ID", "NAME", "URL", "OF", "TOLD", "STATE"}, make([][]string, len(found))
	if out == allColumns {
		header = append(header, "USER", "SEES AS", "ADDED", "CHANGED")
	}
	for i, h := range found {
		rows[i] = []string{strconv.Itoa(int(h.ID)), orDash(&h.Name), clip(orDash(&h.URL), 80), ofConnector(h.ConnectorID), eventsTold(h), webhookState(h, now)}
		if out == allColumns {
			rows[i] = append(rows[i], strconv.Itoa(int(h.UserID)), string(h.RoleNow), clock.At(h.CreatedAt, now), clock.At(h.UpdatedAt, now))
		}
	}
	return table(w, header, rows)
}

// ofConnector is which connectors a webhook is about.
func ofConnector(id *int32) string {
	if id == nil {
		return "all"
	}
	return strconv.Itoa(int(*id))
}

func eventsTold(h client.Webhook) string {
	if h.Events == nil {
		return "-"
	}
	all := make([]string, len(*h.Events))
	for i, e := range *h.Events {
		all[i] = string(e)
	}
	return strings.Join(all, ",")
}

func webhookState(h client.Webhook, now time.Time) string {
	switch {
	case !h.Enabled && h.DisabledReason != nil:
		return "off: " + clip(*h.DisabledReason, 80)
	case !h.Enabled:
		return "off"
	case h.FailingSince != nil:
		return "failing since " + clock.At(*h.FailingSince, now)
	}
	return "on"
}

func webhooksShow(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "show WEBHOOK", Short: "Show a webhook", Long: "Show a webhook: what it is told, of which connectors, and how it goes. Its secret is not shown again.",
		Example: "  echomind webhooks show 3", Args: oneWebhook,
	}
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := webhookID(args[0])
		if err != nil {
			return err
		}
		return doAndShow(c, f, out, func(r *remote) (client.Webhook, error) {
			h, _, err := r.webhook(c.Context(), id)
			return h, err
		}, printWebhook)
	}
	return c
}

// webhook is one webhook, with its version.
func (r *remote) webhook(ctx context.Context, id int32) (h client.Webhook, version string, _ error) {
	answer, err := r.api.WebhooksGetWithResponse(ctx, id)
	if err != nil {
		return h, "", refusedAs(err, fmt.Sprintf("read webhook %d", id), noWebhook(id))
	}
	h, err = r.webhookOf(answer.Body, id)
	return h, answer.HTTPResponse.Header.Get("ETag"), err
}

// webhookOf reads an answer that is a webhook; 0 = one with any number.
func (r *remote) webhookOf(answer []byte, id int32) (client.Webhook, error) {
	h, err := readAs[client.Webhook](answer)
	if err == nil {
		err = r.is(h.ID > 0 && (id == 0 || h.ID == id))
	}
	return h, err
}

func printWebhook(w io.Writer, h client.Webhook) error {
	now := time.Now()
	rows := [][]string{
		{"name", orDash(&h.Name)},
		{"url", orDash(&h.URL)},
		{"connectors", ofConnector(h.ConnectorID)},
		{"is told", eventsTold(h)},
		{"state", webhookState(h, now)},
		{"user", fmt.Sprintf("%d, and sees as %s", h.UserID, h.RoleNow)},
		{"added", clock.At(h.CreatedAt, now) + " by " + orDash(h.CreatedBy)},
		{"changed", clock.At(h.UpdatedAt, now)},
	}
	if h.OldSecretUntil != nil {
		rows = append(rows, []string{"old secret", "signs as well until " + clock.At(*h.OldSecretUntil, now)})
	}
	return table(w, []string{"webhook", strconv.Itoa(int(h.ID))}, rows)
}

// webhookFlags are what is said of a webhook.
type webhookFlags struct {
	name, url, connector, enabled string
	events                        []string
}

func (v *webhookFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&v.name, "name", "", "what it is for")
	flags.StringVar(&v.url, "url", "", "where messages are sent, an `address` such as https://example.org/hooks/echomind")
	flags.StringVar(&v.connector, "connector", "all", "the one connector that it is about, by its `ID` or name, or all that you see")
	flags.StringSliceVar(&v.events, "events", webhookEvents, "what it is told: "+strings.Join(webhookEvents, ", "))
	flags.StringVar(&v.enabled, "enabled", "on", "whether it is told anything: on or off")
}

func (v *webhookFlags) check() error {
	switch {
	case len([]rune(v.name)) > 200:
		return usagef("--name: must have at most 200 characters, and has %d", len([]rune(v.name)))
	case v.enabled != "on" && v.enabled != "off":
		return usagef("--enabled %q: must be on or off", clip(v.enabled, 40))
	case len(v.events) == 0:
		return usagef("--events: must be of %s; --enabled off has it told nothing", strings.Join(webhookEvents, ", "))
	}
	for _, e := range v.events {
		if !slices.Contains(webhookEvents, e) {
			return usagef("--events %q: must be of %s", clip(e, 40), strings.Join(webhookEvents, ", "))
		}
	}
	if v.connector == "all" {
		return nil
	}
	if err := checkConnector(v.connector); err != nil {
		return usagef("--connector %q: must be a connector's number or name, or all", clip(v.connector, 40))
	}
	return nil
}

// fields are what the flags give, by the names of the API.
func (v *webhookFlags) fields(c *cobra.Command, r *remote) (map[string]any, error) {
	fields, given := map[string]any{}, c.Flags().Changed
	for flag, value := range map[string]any{"name": v.name, "url": v.url, "events": v.events, "enabled": v.enabled == "on"} {
		if given(flag) {
			fields[flag] = value
		}
	}
	if given("connector") {
		fields["connector_id"] = nil
		if v.connector != "all" {
			id, err := r.connectorID(c.Context(), v.connector)
			if err != nil {
				return nil, err
			}
			fields["connector_id"] = id
		}
	}
	return fields, nil
}

// refusedWebhook says which flag the API does not take.
func refusedWebhook(what string, id int32, err error) error {
	flags := map[string]string{"body.name": "--name", "body.url": "--url", "body.connector_id": "--connector", "body.events": "--events"}
	if said := wrongFlags(err, flags); said != nil {
		return said
	}
	return refusedAs(err, what, noWebhook(id))
}
