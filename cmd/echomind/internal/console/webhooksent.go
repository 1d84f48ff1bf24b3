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
		return doAndShow(c, f, out, func(r *remote) (none client.Delivery, _ error) {
			answer, err := r.api.WebhooksTestWithResponse(c.Context(), id, &client.WebhooksTestParams{}, note.on)
			if err != nil {
				return none, refusedAs(err, fmt.Sprintf("test webhook %d", id), noWebhook(id))
			}
			return r.delivery(answer.Body, id)
		}, saysSent)
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
	limit := limitFlag(c, 20, "how many, the latest first")
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := webhookID(args[0])
		if err == nil {
			err = checkLimit(*limit, maxDeliveries)
		}
		switch {
		case err != nil:
			return err
		case c.Flags().Changed("state") && !slices.Contains(deliveryStates, *state):
			return usagef("--state %q: must be of %s", clip(*state, 40), strings.Join(deliveryStates, ", "))
		}
		p := client.WebhooksDeliveriesListParams{State: (*client.WebhooksDeliveriesListParamsState)(textOr(*state))}
		return serverList[client.Delivery]{
			field: "deliveries", limit: *limit, most: maxDeliveries, size: &p.PageSize, print: printDeliveries,
			ask: func(r *remote, token *string) (bodied, error) {
				p.PageToken = token
				return r.api.WebhooksDeliveriesListWithResponse(c.Context(), id, &p)
			},
			refused: func(err error) error {
				return refusedAs(err, fmt.Sprintf("list what webhook %d was sent", id), noWebhook(id))
			},
		}.show(c, f, out)
	}
	return c
}

func printDeliveries(w io.Writer, found []client.Delivery) error {
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "no deliveries")
		return err
	}
	now, rows := time.Now(), make([][]string, len(found))
	for i, d := range found {
		answered := orDash(d.LastError)
		if d.LastStatus != nil && d.LastError == nil {
			answered = strconv.Itoa(int(*d.LastStatus))
		}
		rows[i] = []string{
			strconv.FormatInt(d.ID, 10), clock.At(d.CreatedAt, now), string(d.Type), idOrDash(d.ConnectorID), string(d.State), strconv.Itoa(int(d.Tries)),
			clock.Optional(d.LastTryAt, now), clock.Optional(d.NextAt, now), clip(answered, 80),
		}
	}
	return table(w, []string{"ID", "MADE", "TYPE", "CONNECTOR", "STATE", "TRIES", "LAST TRY", "NEXT TRY", "ANSWER"}, rows)
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
		return doAndShow(c, f, out, func(r *remote) (none client.Delivery, _ error) {
			answer, err := r.api.WebhooksDeliveriesReplayWithResponse(c.Context(), id, strconv.FormatInt(delivery, 10), &client.WebhooksDeliveriesReplayParams{}, note.on)
			if err != nil {
				return none, refusedAs(err, fmt.Sprintf("replay delivery %d", delivery),
					fmt.Errorf("webhook %d has no delivery %d; `echomind webhooks deliveries %[1]d` shows those there are", id, delivery))
			}
			return r.delivery(answer.Body, id)
		}, saysSent)
	}
	return c
}

func deliveryOf(args []string) (webhook int32, delivery int64, err error) {
	if webhook, err = webhookID(args[0]); err == nil {
		delivery, err = numbered[int64]("DELIVERY", "echomind webhooks deliveries "+args[0], args[1])
	}
	return webhook, delivery, err
}
