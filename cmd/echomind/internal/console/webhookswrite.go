package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/echomind/sync/sdk/client"
)

func webhooksAdd(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "add --url URL", Short: "Add a webhook, and print its secret once",
		Long: `Add a webhook, and print its secret once: what it is sent is signed with it, and docs/webhooks.md says how that is checked.

It is told of what you see. URLs begin with https://; the operator lists addresses of their own network that may be told, too.`,
		Example: "  echomind webhooks add --url https://example.org/hooks/echomind --name ops\n" +
			"  echomind webhooks add --url https://example.org/hooks/echomind --connector docs --events failed,recovered -o json",
		Args: cobra.NoArgs,
	}
	var given webhookFlags
	given.add(c)
	_ = c.MarkFlagRequired("url")
	note, out := noteFlag(c), withOutput(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if err := given.check(); err != nil {
			return err
		}
		return doAndShow(c, f, out, func(r *remote) (none client.Webhook, _ error) {
			fields, err := given.fields(c, r)
			if err != nil {
				return none, err
			}
			body, err := json.Marshal(fields)
			if err != nil {
				return none, err
			}
			answer, err := r.api.WebhooksCreateWithBodyWithResponse(c.Context(), &client.WebhooksCreateParams{}, jsonBody, bytes.NewReader(body), note.on)
			if err != nil {
				return none, refusedWebhook("add the webhook", 0, err)
			}
			return r.webhookOf(answer.Body, 0)
		}, func(w io.Writer, added client.Webhook) error {
			_, err := fmt.Fprintf(w, "webhook %d is added; its secret, which is shown this once: %s\n`echomind webhooks test %[1]d` sends it a message\n", added.ID, printable(orDash(added.Secret)))
			return err
		})
	}
	return c
}

func webhooksUpdate(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "update WEBHOOK [flags]", Short: "Change what is given of a webhook",
		Long: `Change what is given of a webhook; the rest stays. With --enabled off what waits for it is dropped; with --enabled on it begins anew, and is told of all that is
not well then.`,
		Example: "  echomind webhooks update 3 --events failed,recovered\n  echomind webhooks update 3 --enabled off --note 'the receiver moves'", Args: oneWebhook,
	}
	var given webhookFlags
	given.add(c)
	note, out := noteFlag(c), withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := webhookID(args[0])
		if err == nil {
			err = given.check()
		}
		if err != nil {
			return err
		}
		return doAndShow(c, f, out, func(r *remote) (none client.Webhook, _ error) {
			fields, err := given.fields(c, r)
			if err != nil {
				return none, err
			}
			if len(fields) == 0 {
				return none, usagef("%s: nothing to change; give at least one of --name, --url, --connector, --events, --enabled", c.CommandPath())
			}
			body, err := json.Marshal(fields)
			if err != nil {
				return none, err
			}
			answer, err := r.api.WebhooksUpdateWithBodyWithResponse(c.Context(), id, &client.WebhooksUpdateParams{IfMatch: new("*")}, jsonBody, bytes.NewReader(body), note.on)
			if err != nil {
				return none, refusedWebhook("change the webhook", id, err)
			}
			return r.webhookOf(answer.Body, id)
		}, func(w io.Writer, updated client.Webhook) error {
			_, err := fmt.Fprintf(w, "webhook %d is changed\n", updated.ID)
			return err
		})
	}
	return c
}

// deletedWebhook is what was done.
type deletedWebhook struct {
	ID      int32 `json:"id"`
	Deleted bool  `json:"deleted"`
}

func webhooksDelete(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "delete WEBHOOK", Short: "Delete a webhook, and what it was sent",
		Long:    "Delete a webhook, with its secret and the list of what it was sent. It asks first on a terminal, and elsewhere wants --yes. What waits is not sent.",
		Example: "  echomind webhooks delete 3\n  echomind webhooks delete 3 --yes", Args: oneWebhook,
	}
	yes, note := c.Flags().Bool("yes", false, "delete without asking"), noteFlag(c)
	out := withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := webhookID(args[0])
		if err == nil {
			err = wantsYes(c, *yes, "its secret and its deliveries are lost for good")
		}
		if err != nil {
			return err
		}
		return doAndShow(c, f, out, func(r *remote) (done deletedWebhook, _ error) {
			version := "*"
			if !*yes {
				h, shown, err := r.webhook(c.Context(), id)
				if err != nil {
					return done, err
				}
				version = shown
				if err := confirm(c.InOrStdin(), c.ErrOrStderr(), fmt.Sprintf("webhook %d %q tells %s\nDelete? [y/N] ", id, printable(h.Name), printable(h.URL))); err != nil {
					return done, err
				}
			}
			answer, err := r.api.WebhooksDeleteWithResponse(c.Context(), id, &client.WebhooksDeleteParams{IfMatch: &version}, note.on)
			if err != nil {
				return done, refusedAs(err, fmt.Sprintf("delete webhook %d", id), noWebhook(id))
			}
			return deletedWebhook{id, true}, r.is(answer.StatusCode() == http.StatusNoContent)
		}, func(w io.Writer, done deletedWebhook) error {
			_, err := fmt.Fprintf(w, "webhook %d is deleted\n", done.ID)
			return err
		})
	}
	return c
}

func webhooksSecret(f *finder) *cobra.Command {
	c := &cobra.Command{
		Use: "secret WEBHOOK", Short: "Give a webhook another secret, and print it once",
		Long:    "Give a webhook another secret, and print it once. For 24 hours what was its secret signs as well, so that its receiver has the time to change.",
		Example: "  echomind webhooks secret 3", Args: oneWebhook,
	}
	note, out := noteFlag(c), withOutput(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		id, err := webhookID(args[0])
		if err != nil {
			return err
		}
		return doAndShow(c, f, out, func(r *remote) (none client.Webhook, _ error) {
			answer, err := r.api.WebhooksSecretRotateWithResponse(c.Context(), id, &client.WebhooksSecretRotateParams{}, note.on)
			if err != nil {
				return none, refusedAs(err, fmt.Sprintf("give webhook %d another secret", id), noWebhook(id))
			}
			return r.webhookOf(answer.Body, id)
		}, func(w io.Writer, changed client.Webhook) error {
			_, err := fmt.Fprintln(w, printable(orDash(changed.Secret)))
			return err
		})
	}
	return c
}
