package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/echomind/sync/sdk/client"
)

const jsonBody = "application/json"

// onServer has a server do what no database does by itself: the one that the environment names, else that of a login.
func onServer[T any](f *finder, through func(*remote) (T, error)) (T, error) {
	s, err := theServer()
	if errors.Is(err, errNotLoggedIn) {
		var none T
		return none, fmt.Errorf("%s goes through a server: %w (`echomind run` has its own at the address that it prints, and a token in admin.token of its data folder)", f.command, err)
	}
	if err != nil {
		var none T
		return none, err
	}
	return throughServer(f, s, through)
}

// auditNote is what a change is to say in the audit.
type auditNote string

// noteFlag gives a command that changes something the flag --note.
func noteFlag(c *cobra.Command) *auditNote {
	var note auditNote
	c.Flags().StringVar((*string)(&note), "note", "", "a `text` for the audit")
	return &note
}

// on writes the note on a request.
func (n *auditNote) on(_ context.Context, r *http.Request) error {
	if *n != "" {
		r.Header.Set("Audit-Note", string(*n))
	}
	return nil
}

// numbered is the number of a webhook, an operation or a delivery.
func numbered[T int32 | int64](what, list, text string) (T, error) {
	n, err := parsePositive[T](text)
	if err != nil {
		return 0, usagef("%s %q: must be a number, as `%s` shows it", what, clip(text, 40), list)
	}
	return n, nil
}

// refusedAs is an error of the API with what was being done; what is not there is named so by missing.
func refusedAs(err error, what string, missing error) error {
	var refused *client.Error
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return missing
	}
	return fmt.Errorf("%s: %w", what, err)
}

func parsePositive[T int32 | int64](text string) (T, error) {
	var n T
	bits := 64
	if _, is := any(n).(int32); is {
		bits = 32
	}
	parsed, err := strconv.ParseInt(text, 10, bits)
	if err == nil && parsed < 1 {
		err = strconv.ErrRange
	}
	return T(parsed), err
}

// wrongFields are the fields that the API does not take, and why.
func wrongFields(err error) []client.Field {
	var refused *client.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusUnprocessableEntity || refused.Problem.Errors == nil {
		return nil
	}
	return *refused.Problem.Errors
}

// wrongFlags says what is wrong with the flags that fields are given by; nil where a field has none.
func wrongFlags(err error, flags map[string]string) error {
	var said []error
	for _, one := range wrongFields(err) {
		flag, is := flags[one.Field]
		if !is {
			return nil
		}
		said = append(said, usagef("%s: %s", flag, one.Detail))
	}
	return errors.Join(said...)
}
