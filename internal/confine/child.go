package confine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/echomind/sync/internal/deadline"
)

// startTimeout bounds the start of a child on a very busy machine.
const startTimeout = 20 * time.Second

// errAnswer says that the task panicked, or that its answer is malformed.
var errAnswer = errors.New("the parser broke")

// child is a process that answers requests.
type child struct {
	cmd  *exec.Cmd
	in   *os.File
	out  *os.File
	read *bufio.Reader
	said *lastWords
	// holds names the limits that the child says are in force.
	holds string
	// done is closed when the process has ended and is reaped.
	done   chan struct{}
	retire bool
	limits Limits
}

// start returns once the child has given up the rights that it does not need.
func start(ctx context.Context, limits Limits) (*child, error) {
	c, err := spawn(limits)
	if err != nil {
		return nil, fmt.Errorf("start a child: %w", err)
	}
	err = deadline.Do(ctx, "confine.start", startTimeout, func(ctx context.Context) error {
		stop := c.killAtEndOf(ctx)
		_, c.holds, err = readAnswer(c.read, bufferBytes)
		if !stop() && err == nil {
			err = ctx.Err()
		}
		return err
	})
	if err != nil {
		c.end()
		if said := c.said.String(); said != "" {
			err = fmt.Errorf("%w; it said: %s", err, said)
		}
		return nil, fmt.Errorf("start a child: %w", err)
	}
	return c, nil
}

// spawn starts the process, in a goroutine that keeps its thread until the process has ended: the kernel takes the end of the
// forking thread for the parent's death, and Go ends idle threads.
func spawn(limits Limits) (*child, error) {
	program, err := ourselves()
	if err != nil {
		return nil, err
	}
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer childIn.Close()
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	defer childOut.Close()
	c := &child{
		in: in, out: out, read: bufio.NewReaderSize(out, bufferBytes), said: &lastWords{}, done: make(chan struct{}), limits: limits,
	}
	// The child's context is its own: it outlives the contexts of its requests.
	c.cmd = exec.CommandContext(context.Background(), program)
	c.cmd.Args = []string{childName, strconv.FormatInt(limits.memory(), 10)}
	c.cmd.Env = []string{} // nil would pass on our environment
	c.cmd.Dir = "/"
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = childIn, childOut, c.said
	c.cmd.SysProcAttr = attributes()
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its child, since yieldCPU has changed its priority
		defer close(c.done)
		yieldCPU()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			_ = c.cmd.Wait() // judge reads the state
		}
	}()
	if err := <-started; err != nil {
		<-c.done
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	return c, nil
}

// ask sends a request and waits for its answer. After an error, and where retire is set, the child has to be ended.
func (c *child) ask(ctx context.Context, r request) (string, error) {
	stop := c.killAtEndOf(ctx)
	flags, body, err := c.converse(r)
	// Where ctx has ended the kill is under way, and would meet who comes next. So would what was written after the answer.
	c.retire = !stop() || flags&flagRetire != 0 || c.read.Buffered() > 0
	if err != nil {
		return "", err
	}
	if flags&flagBroken != 0 {
		return "", fmt.Errorf("%w: %.200s", errAnswer, strings.ToValidUTF8(body, "\uFFFD"))
	}
	return body, nil
}

func (c *child) converse(r request) (flags byte, body string, err error) {
	if err := r.write(c.in); err != nil {
		return 0, "", err
	}
	return readAnswer(c.read, min(r.most, c.limits.memory()))
}

// killAtEndOf kills the child when ctx ends, until stop is called; stop is false where that is under way.
func (c *child) killAtEndOf(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, c.kill)
}

func (c *child) kill() { _ = c.cmd.Process.Kill() }

// end kills the child and waits until it is reaped.
func (c *child) end() {
	c.kill()
	<-c.done
	_ = c.in.Close()
	_ = c.out.Close()
}

// ended tells whether the process has died.
func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}
