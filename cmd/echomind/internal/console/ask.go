package console

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

var errNotConfirmed = errors.New("nothing is deleted")

// confirm asks a question that y or yes answers.
func confirm(in io.Reader, out io.Writer, question string) error {
	if _, err := io.WriteString(out, question); err != nil {
		return err
	}
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errNotConfirmed
}

// wantsYes refuses to do what cannot be taken back where nobody can be asked, and nobody has said yes.
func wantsYes(c *cobra.Command, yes bool, because string) error {
	if yes || isTerminal(c.InOrStdin()) {
		return nil
	}
	return usagef("%s: %s; add --yes if you mean it", c.CommandPath(), because)
}

// isTerminal says whether something is a terminal, at which somebody can be asked. The null device is one of characters too.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
