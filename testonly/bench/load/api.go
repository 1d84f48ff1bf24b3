package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Serves is set in the environment of the process that is the API.
const Serves = "ECHOMIND_BENCH_SERVES_API"

const (
	startTimeout = 30 * time.Second
	ticksASecond = 100 // of the times in /proc
)

// API is the API as a process of its own: this program, started again.
type API struct {
	URL     string
	Addr    string
	command *exec.Cmd
	ended   chan error
}

// Start runs it on a database and a broker, for so many watchers. It goes on until Stop.
func Start(ctx context.Context, database, bus string, watchers int) (*API, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	a := &API{URL: "http://" + addr, Addr: addr, command: exec.CommandContext(context.WithoutCancel(ctx), program)}
	a.command.Stderr = os.Stderr
	a.command.Env = append(os.Environ(), Serves+"=1", "DATABASE_URL="+database, "DATABASE_ROLE=echomind_api", "NATS_URL="+bus, "API_ADDR="+addr, "HTTP_ADDR=", "LOG_LEVEL=error",
		"API_RATE=100000", "API_BURST=100000", "API_MAX_WATCHERS="+strconv.Itoa(watchers))
	a.command.SysProcAttr = endsWithUs()
	if err := a.begin(); err != nil {
		return nil, fmt.Errorf("start the API: %w", err)
	}
	for until := time.Now().Add(startTimeout); ; {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			return a, conn.Close()
		}
		if time.Now().After(until) || ctx.Err() != nil {
			return nil, errors.Join(fmt.Errorf("the API does not listen: %w", err), a.Stop())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// begin starts the process on a thread that waits for it: the kernel takes the end of that thread for ours.
func (a *API) begin() error {
	started := make(chan error, 1)
	a.ended = make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := a.command.Start()
		started <- err
		if err == nil {
			a.ended <- a.command.Wait()
		}
	}()
	return <-started
}

func freeAddr(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

// Stop ends it.
func (a *API) Stop() error {
	if err := a.command.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the API: %w", err)
	}
	if err := <-a.ended; err != nil {
		return fmt.Errorf("the API ended: %w", err)
	}
	return nil
}

// MB is how much memory it has, in MB.
func (a *API) MB() (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.command.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("read its memory: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, is := strings.CutPrefix(line, "VmRSS:"); is {
			kB, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kB / 1024, err
		}
	}
	return 0, errors.New("its memory is not in /proc")
}

// CPU is how much processor time it, this program, and the backends of a Postgres have taken, in seconds.
func (a *API) CPU(postmaster int) (api, self, postgres float64) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		f := strings.Fields(rest)
		parent, _ := strconv.Atoi(f[1])
		user, _ := strconv.ParseFloat(f[11], 64)
		system, _ := strconv.ParseFloat(f[12], 64)
		switch took := (user + system) / ticksASecond; {
		case pid == a.command.Process.Pid:
			api += took
		case pid == os.Getpid():
			self += took
		case parent == postmaster:
			postgres += took
		}
	}
	return api, self, postgres
}

// Crowd is connections that are kept open until Close, by what was answered.
type Crowd struct {
	Open, Unavailable, Other, Refused int
	conns                             []net.Conn
}

// Watch has n connections ask for events, each from one of a few addresses of this machine.
func (a *API) Watch(ctx context.Context, tokens []string, n int) (*Crowd, error) {
	c := &Crowd{}
	for i := range n {
		from := &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%50))}
		conn, err := (&net.Dialer{LocalAddr: from, Timeout: 5 * time.Second}).DialContext(ctx, "tcp", a.Addr)
		if err != nil {
			c.Refused++
			continue
		}
		c.conns = append(c.conns, conn)
		status := make([]byte, 12)
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		_, err = fmt.Fprintf(conn, "GET /api/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", tokens[i%len(tokens)])
		if err == nil {
			_, err = conn.Read(status)
		}
		switch text := string(status); {
		case err != nil:
			c.Refused++
		case strings.HasSuffix(text, " 200"):
			c.Open++
		case strings.HasSuffix(text, " 503"):
			c.Unavailable++
		default:
			c.Other++
		}
	}
	return c, nil
}

// Silent opens n connections that say nothing.
func (a *API) Silent(ctx context.Context, n int) (*Crowd, error) {
	c := &Crowd{}
	for i := range n {
		from := &net.TCPAddr{IP: net.IPv4(127, 0, 2, byte(1+i%50))}
		conn, err := (&net.Dialer{LocalAddr: from, Timeout: 5 * time.Second}).DialContext(ctx, "tcp", a.Addr)
		if err != nil {
			c.Refused++
			continue
		}
		c.Open++
		c.conns = append(c.conns, conn)
	}
	return c, nil
}

// Slow has n connections ask for a page by the sessions of a few users, and read nothing of the answers.
func (a *API) Slow(ctx context.Context, sessions []string, n int) (*Crowd, error) {
	c := &Crowd{}
	for i := range n {
		from := &net.TCPAddr{IP: net.IPv4(127, 0, 3, byte(1+i%50))}
		conn, err := (&net.Dialer{LocalAddr: from, Timeout: 5 * time.Second}).DialContext(ctx, "tcp", a.Addr)
		if err != nil {
			c.Refused++
			continue
		}
		c.Open++
		c.conns = append(c.conns, conn)
		err = conn.(*net.TCPConn).SetReadBuffer(1024)
		if err == nil {
			_, err = fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nCookie: %s\r\n\r\n", sessions[i%len(sessions)])
		}
		if err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// Alive is how many of its connections this side does not know to be closed. Those that wait to be accepted are among them.
func (c *Crowd) Alive() (alive int) {
	for _, conn := range c.conns {
		_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
		var err error
		for buffer := make([]byte, 4096); err == nil; {
			_, err = conn.Read(buffer)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			alive++
		}
	}
	return alive
}

// Close closes them.
func (c *Crowd) Close() {
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// Client is one that keeps its connections.
func Client() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConns: inFlight, MaxIdleConnsPerHost: inFlight},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}
