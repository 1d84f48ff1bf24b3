package extract

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/echomind/sync/internal/confine"
	"github.com/echomind/sync/sdk/source"
)

// Reader reads documents somewhere.
type Reader interface {
	// Extract is as the function of this name. An error that is not ctx's says why the document cannot be read.
	Extract(ctx context.Context, content []byte, hint Hint) (source.Content, error)
	// Version changes whenever a document that could not be read before may be readable now. Letters and digits.
	Version() string
}

// InProcess reads documents in this process, which they may take with them: a page of 17 KB can ask for 600 MB. It is
// for tests and benchmarks.
type InProcess struct{}

// Extract is the function of this name.
func (InProcess) Extract(ctx context.Context, content []byte, hint Hint) (source.Content, error) {
	return Extract(ctx, content, hint)
}

// Version is that of this package.
func (InProcess) Version() string { return Version }

// Runner runs a task in a child process; *confine.Share is one.
type Runner interface {
	Do(ctx context.Context, task string, most int64, read func(answer string) error, parts ...[]byte) error
	MemoryMB() int
}

// Task reads a document in a child process.
var Task = confine.Task{Name: "extract", Run: answer}

// Confined reads documents in child processes, which serve Task.
type Confined struct{ in Runner }

// In makes a Reader of a runner.
func In(r Runner) Confined { return Confined{r} }

// Extract is as the function of this name. Its error may also be a *confine.Failure.
func (c Confined) Extract(ctx context.Context, content []byte, hint Hint) (source.Content, error) {
	if err := ctx.Err(); err != nil {
		return source.Content{}, err
	}
	if err := checkSize(content); err != nil {
		return source.Content{}, err
	}
	var text source.Content
	var reason error // why there is none
	most := boundsOf(len(content))
	err := c.in.Do(ctx, Task.Name, most.answer(), func(answer string) error {
		if text, reason = decodeAnswer(answer, most); errors.Is(reason, errAnswer) {
			return reason
		}
		return nil
	}, appendHint(nil, hint), content)
	if err != nil {
		return source.Content{}, err
	}
	return withHash(text, reason)
}

// Version changes with the memory that a document may take as well.
func (c Confined) Version() string { return Version + "m" + strconv.Itoa(c.in.MemoryMB()) }

// OfContent tells whether err says something of the content, which it will say again until the content, or the
// reader's Version, has changed.
func OfContent(err error) bool {
	return errors.Is(err, ErrUnsupported) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrBroken) || confine.OfRequest(err)
}

func checkSize(content []byte) error {
	if len(content) > MaxContentBytes {
		return fmt.Errorf("%w: %d bytes, at most %d are read", ErrTooLarge, len(content), MaxContentBytes)
	}
	return nil
}
