package console

import (
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

// maxDeliveries is how many messages of a webhook are listed.
const maxDeliveries = 10000

// deliveryStates are those of a message to a webhook.
var deliveryStates = []string{"pending", "delivered", "failed", "dropped"}

func webhooksTest(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "test WEBHOOK", Short: "Send a webhook a message to try it", Long: "Send a webhook a message of the type webhook.test, also where it is switched off.",
		Example: "  echomind webhooks test 3", Args: oneWebhook,
	}
	note, out := noteFlag(c), withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := webhookID(args[0])
		if err != nil {
			return err
		}
		made, err := onServer(f, func(r *remote) (none client.Delivery, _ error) {
			answer, err := r.api.WebhooksTestWithResponse(c.Context(), id, &client.WebhooksTestParams{}, note.on)
			if err != nil {
				return none, refusedAs(err, fmt.Sprintf("test webhook %d", id), noWebhook(id))
			}
			return r.delivery(answer.Body, id)
		})
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), made, func(w io.Writer) error { return saysSent(w, made) })
	}
	return c
}

func (r *remote) delivery(answer []byte, webhook int32) (client.Delivery, error) {
	d, err := readAs[client.Delivery](answer)
	if err == nil {
		err = r.is(d.ID > 0 && d.WebhookID == webhook)
	}
	return d, err
}

func saysSent(w io.Writer, d client.Delivery) error {
	_, err := fmt.Fprintf(w, "delivery %d is on its way to webhook %d; `echomind webhooks deliveries %[2]d` tells what came of it\n", d.ID, d.WebhookID)
	return err
}

func webhooksDeliveries(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "deliveries WEBHOOK", Short: "List what a webhook is and was sent",
		Long: `List what a webhook is and was sent, the latest first, for a week: how often it was tried, what the receiver has answered last, and when it is tried again.
States: pending; delivered; failed, its last try is over; dropped, it is not sent, for the reason that is shown.`,
		Example: "  echomind webhooks deliveries 3\n  echomind webhooks deliveries 3 --state failed -o json", Args: oneWebhook,
	}
	state := c.Flags().String("state", "", "only those with this state: "+strings.Join(deliveryStates, ", "))
	limit := c.Flags().Int("limit", 20, "how many, the latest first")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := webhookID(args[0])
		switch {
		case err != nil:
			return err
		case *limit < 1 || *limit > maxDeliveries:
			return usagef("--limit %d: must be 1 to %d", *limit, maxDeliveries)
		case c.Flags().Changed("state") && !slices.Contains(deliveryStates, *state):
			return usagef("--state %q: must be of %s", clip(*state, 40), strings.Join(deliveryStates, ", "))
		}
		p := client.WebhooksDeliveriesListParams{State: (*client.WebhooksDeliveriesListParamsState)(textOr(*state)), PageSize: new(int32(min(*limit+1, pageSize)))}
		found, err := onServer(f, func(r *remote) ([]client.Delivery, error) {
			read := 0
			all, err := readPages(c.Context(), "deliveries", func(token *string) ([]byte, error) {
				p.PageToken = token
				answer, err := r.api.WebhooksDeliveriesListWithResponse(c.Context(), id, &p)
				if err != nil {
					return nil, err
				}
				return answer.Body, nil
			}, func(client.Delivery) bool { read++; return read > *limit })
			if err != nil {
				return nil, refusedAs(err, fmt.Sprintf("list what webhook %d was sent", id), noWebhook(id))
			}
			return append([]client.Delivery{}, all...), nil
		})
		if err != nil {
			return err
		}
		more := len(found) > *limit
		found = found[:min(len(found), *limit)]
		return out.show(c.OutOrStdout(), found, func(w io.Writer) error { return printDeliveries(w, found, more) })
	}
	return c
}

func printDeliveries(w io.Writer, found []client.Delivery, more bool) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "no deliveries")
		return err
	}
	now, rows := time.Now(), make([][]string, len(found))
	for i, d := range found {
		answered := orDash(d.LastError)
		if d.LastStatus != nil {
			answered = strings.TrimSuffix(strconv.Itoa(int(*d.LastStatus))+" "+answered, " -")
		}
		rows[i] = []string{
			strconv.FormatInt(d.ID, 10), clock.At(d.CreatedAt, now), string(d.Type), idOrDash(d.ConnectorID), string(d.State), strconv.Itoa(int(d.Tries)),
			clock.Optional(d.LastTryAt, now), clock.Optional(d.NextAt, now), clip(answered, 80),
		}
	}
	err := table(w, []string{"ID", "MADE", "TYPE", "CONNECTOR", "STATE", "TRIES", "LAST TRY", "NEXT TRY", "ANSWER"}, rows)
	if err == nil && more {
		_, err = fmt.Fprintf(w, "and more: --limit %d\n", min(10*len(found), maxDeliveries))
	}
	return err
}

func webhooksReplay(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "replay WEBHOOK DELIVERY", Short: "Send a webhook a message again", Long: "Send a webhook a message again, under the id that it had.",
		Example: "  echomind webhooks replay 3 120",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("%s needs a WEBHOOK and a DELIVERY, its number as `echomind webhooks deliveries WEBHOOK` shows it", c.CommandPath())
			}
			_, _, err := deliveryOf(args)
			return err
		},
	}
	note, out := noteFlag(c), withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		id, delivery, err := deliveryOf(args)
		if err != nil {
			return err
		}
		sent, err := onServer(f, func(r *remote) (none client.Delivery, _ error) {
			answer, err := r.api.WebhooksDeliveriesReplayWithResponse(c.Context(), id, strconv.FormatInt(delivery, 10), &client.WebhooksDeliveriesReplayParams{}, note.on)
			if err != nil {
				return none, refusedAs(err, fmt.Sprintf("replay delivery %d", delivery),
					fmt.Errorf("webhook %d has no delivery %d; `echomind webhooks deliveries %[1]d` shows those there are", id, delivery))
			}
			return r.delivery(answer.Body, id)
		})
		if err != nil {
			return err
		}
		return out.show(c.OutOrStdout(), sent, func(w io.Writer) error { return saysSent(w, sent) })
	}
	return c
}

func deliveryOf(args []string) (webhook int32, delivery int64, err error) {
	if webhook, err = webhookID(args[0]); err == nil {
		delivery, err = numbered[int64]("DELIVERY", "echomind webhooks deliveries "+args[0], args[1])
	}
	return webhook, delivery, err
}
