package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/echomind/sync/sdk/client"
)

func callAPI() *cobra.Command {
	c := &cobra.Command{
		Use: "api METHOD PATH", Short: "Have the API do an operation, as whom you have logged in as",
		Long: `Have the API do an operation, as whom you have logged in as (echomind login), and print its answer as JSON. PATH is what stands behind /api/v1:
docs/api.md, or /api/v1/openapi.json of the API, names all of them.

What changes something that others may change too needs --if-match: the ETag that the object was read with (--include shows it), or * for whatever it is now.`,
		Example: "  echomind api GET '/connectors?late=true'\n  echomind api POST /connectors/3/sync\n" +
			`  echomind api PATCH /connectors/3 --if-match '*' --data '{"refresh_freq_minutes": 60}'`,
		Args: cobra.ExactArgs(2),
	}
	var data, match, note string
	var include bool
	c.Flags().StringVar(&data, "data", "", "what is sent, a JSON `object`; @FILE reads it from a file, @- from standard input")
	c.Flags().StringVar(&match, "if-match", "", "the `ETag` of what is changed, or *")
	c.Flags().StringVar(&note, "note", "", "a `text` for the audit")
	c.Flags().BoolVar(&include, "include", false, "say on standard error which ETag the answer has")
	c.RunE = func(c *cobra.Command, args []string) error {
		method := strings.ToUpper(args[0])
		if !slices.Contains([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}, method) {
			return usagef("METHOD %q: must be GET, POST, PUT, PATCH or DELETE", args[0])
		}
		path := strings.TrimPrefix(args[1], "/api/v1")
		if !strings.HasPrefix(path, "/") {
			return usagef("PATH %q: must begin with /, such as /connectors", args[1])
		}
		var body []byte
		if c.Flags().Changed("data") {
			if err := readObject("--data", &data, c.InOrStdin()); err != nil {
				return err
			}
			body = []byte(data)
		}
		header := http.Header{}
		for name, value := range map[string]string{"If-Match": match, "Audit-Note": note} {
			if value != "" {
				header.Set(name, value)
			}
		}
		s, err := theServer()
		if err != nil {
			return err
		}
		api, err := client.New(s.URL, s.Token)
		if err != nil {
			return err
		}
		answer, headers, err := client.Ask(c.Context(), api, method, path, body, header)
		if err != nil {
			return err
		}
		if include {
			if _, err := fmt.Fprintf(c.ErrOrStderr(), "ETag: %s\n", printable(headers.Get("ETag"))); err != nil {
				return err
			}
		}
		return indented(c.OutOrStdout(), answer)
	}
	return c
}

// indented writes JSON for people and programs. Whatever is not JSON was not the API's.
func indented(w io.Writer, answer []byte) error {
	if len(answer) == 0 {
		return nil
	}
	var text bytes.Buffer
	if err := json.Indent(&text, answer, "", "  "); err != nil {
		return fmt.Errorf("the answer is no JSON: %w", err)
	}
	text.WriteByte('\n')
	_, err := w.Write(escaped(text.Bytes()))
	return err
}
