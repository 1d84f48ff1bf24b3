package console

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// doAndShow does something through a server, and shows what has come of it.
func doAndShow[T any](c *cobra.Command, f *finder, out *output, through func(*remote) (T, error), show func(io.Writer, T) error) error {
	found, err := onServer(f, through)
	if err != nil {
		return err
	}
	return out.show(c.OutOrStdout(), found, func(w io.Writer) error { return show(w, found) })
}

// bodied is an answer of the API.
type bodied interface{ GetBody() []byte }

// serverList is a list that a server answers in pages.
type serverList[T any] struct {
	// field is that of an answer which has what is listed.
	field string
	// limit is how many are listed, of most that may be; 0 = all.
	limit, most int
	// size is written to what ask asks for.
	size **int32
	ask  func(r *remote, token *string) (bodied, error)
	// refused says what was asked for.
	refused func(error) error
	// print shows them, but for how to have more.
	print func(w io.Writer, found []T) error
}

// limitFlag gives a command the flag --limit.
func limitFlag(c *cobra.Command, standard int, usage string) *int {
	return c.Flags().Int("limit", standard, usage)
}

// checkLimit is the error of a --limit that is out of its range.
func checkLimit(limit, most int) error {
	if limit < 1 || limit > most {
		return usagef("--limit %d: must be 1 to %d", limit, most)
	}
	return nil
}

// show lists it.
func (l serverList[T]) show(c *cobra.Command, f *finder, out *output) error {
	*l.size = new(int32(pageSize))
	if l.limit > 0 {
		*l.size = new(int32(min(l.limit+1, pageSize)))
	}
	more := false
	return doAndShow(c, f, out, func(r *remote) ([]T, error) {
		read := 0
		all, err := readPages(c.Context(), l.field, func(token *string) ([]byte, error) {
			answer, err := l.ask(r, token)
			if err != nil {
				return nil, err
			}
			return answer.GetBody(), nil
		}, func(T) bool { read++; return l.limit > 0 && read > l.limit })
		if err != nil {
			return nil, l.refused(err)
		}
		if more = l.limit > 0 && len(all) > l.limit; more {
			all = all[:l.limit]
		}
		return append([]T{}, all...), nil
	}, func(w io.Writer, found []T) error {
		err := l.print(w, found)
		if err == nil && more {
			_, err = fmt.Fprintf(w, "and more: --limit %d\n", min(10*len(found), l.most))
		}
		return err
	})
}
