package faultproxy_test

import (
	"bufio"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/echomind/sync/testonly/faultproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a server that says back every line.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var open sync.WaitGroup
	t.Cleanup(func() { _ = listener.Close(); open.Wait() })
	open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { _, _ = io.Copy(conn, conn); _ = conn.Close() })
		}
	})
	return listener.Addr().String()
}

func start(t *testing.T) (*faultproxy.Proxy, func() *talk) {
	t.Helper()
	p, err := faultproxy.Start(echo(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p, func() *talk {
		conn, err := net.Dial("tcp", p.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return &talk{conn, bufio.NewReader(conn)}
	}
}

type talk struct {
	net.Conn
	in *bufio.Reader
}

// say returns the answer to a line, or the error of a wait for it.
func (c *talk) say(line string, wait time.Duration) (string, error) {
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		return "", err
	}
	return c.hear(wait)
}

func (c *talk) hear(wait time.Duration) (string, error) {
	_ = c.SetReadDeadline(time.Now().Add(wait))
	return c.in.ReadString('\n')
}

func TestAHealthyProxyPassesEverythingOn(t *testing.T) {
	_, dial := start(t)
	answer, err := dial().say("hello", 5*time.Second)
	require.NoError(t, err)
	require.Equal(t, "hello\n", answer)
}

func TestWhatIsSaidIntoASilenceArrivesAfterIt(t *testing.T) {
	for name, ways := range map[string][]faultproxy.Direction{
		"to the server": {faultproxy.ToServer}, "to the client": {faultproxy.ToClient},
		"both": {faultproxy.ToServer, faultproxy.ToClient},
	} {
		t.Run(name, func(t *testing.T) {
			p, dial := start(t)
			c := dial()
			p.Silence(ways...)
			_, err := c.say("hello", 50*time.Millisecond)
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			p.Speak()
			answer, err := c.hear(5 * time.Second)
			require.NoError(t, err)
			require.Equal(t, "hello\n", answer)
		})
	}
}

func TestAConnectionIsResetInTheMiddleOfAMessage(t *testing.T) {
	p, dial := start(t)
	c := dial()
	p.CutAfter(3)
	_, err := c.say("hello", 5*time.Second)
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	answer, err := dial().say("again", 5*time.Second)
	require.NoError(t, err)
	require.Equal(t, "again\n", answer)
}

func TestARefusedConnectionIsResetAndALaterOneIsNot(t *testing.T) {
	p, dial := start(t)
	p.Refuse(true)
	if conn, err := net.Dial("tcp", p.Addr()); err == nil { // else it was reset before Dial returned
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		_, err = conn.Read(make([]byte, 1))
		require.Error(t, err)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NoError(t, conn.Close())
	}
	p.Heal()
	_, err := dial().say("hello", 5*time.Second)
	require.NoError(t, err)
}

func TestClosingEndsASilentConnection(t *testing.T) {
	p, dial := start(t)
	c := dial()
	p.Silence(faultproxy.ToServer, faultproxy.ToClient)
	_, err := c.say("hello", 50*time.Millisecond)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, p.Close())
	_, err = c.hear(5 * time.Second)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestStrandedConnectionsStaySilentAndNewOnesPass(t *testing.T) {
	p, dial := start(t)
	old := dial()
	_, err := old.say("hello", 5*time.Second)
	require.NoError(t, err)
	p.Strand()
	p.Heal()
	_, err = old.say("again", 50*time.Millisecond)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	answer, err := dial().say("hello", 5*time.Second)
	require.NoError(t, err)
	require.Equal(t, "hello\n", answer)
	p.Cut()
	_, err = old.hear(5 * time.Second)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestALatePathDelaysTheAnswer(t *testing.T) {
	p, dial := start(t)
	p.Delay(30 * time.Millisecond)
	began := time.Now()
	_, err := dial().say("hello", 5*time.Second)
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 60*time.Millisecond)
}

func TestTheAnswerToWhatIsWaitedForIsWithheld(t *testing.T) {
	p, dial := start(t)
	asked := make(chan net.Conn, 1)
	p.Withhold(func(client net.Conn, block []byte) bool {
		if string(block) != "commit\n" {
			return false
		}
		asked <- client
		return true
	})
	one, other := dial(), dial()
	answer, err := one.say("begin", time.Minute)
	require.NoError(t, err)
	require.Equal(t, "begin\n", answer)
	_, err = io.WriteString(one, "commit\n")
	require.NoError(t, err)
	client := <-asked
	answer, err = other.say("still there", time.Minute)
	require.NoError(t, err, "another connection passes")
	require.Equal(t, "still there\n", answer)
	require.NoError(t, client.Close())
	answer, err = one.in.ReadString('\n')
	require.Error(t, err)
	require.Empty(t, answer, "nothing has come back")
}
