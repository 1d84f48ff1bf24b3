//go:build alerts

package alerts_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/identity"
	"github.com/echomind/sync/testonly/testkit"
)

// asked asks the API who a token's owner is, and returns the status.
func (l *lab) asked(token string) (status int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.api+"/api/v1/me", nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// signIn makes a token, and waits until the API knows it.
func (l *lab) signIn() {
	l.t.Helper()
	secret := identity.NewSecret()
	var id int32
	require.NoError(l.t, l.Pool.QueryRow(context.Background(), `INSERT INTO access_tokens (user_id, role, scopes, secret_sha256, created_by)
		VALUES (1, 'user', '{read}', $1, 'test') RETURNING id`, secret.Hash()).Scan(&id))
	l.token = identity.Token(id, secret)
	testkit.Eventually(l.t, 20*time.Second, func() error {
		status, err := l.asked(l.token)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("the API answers %d", status)
		}
		return err
	})
}

// asking asks again and again, whether or not there is an answer yet, until it is stopped.
func (l *lab) asking(every time.Duration, token func() string) (stop func()) {
	var asked sync.WaitGroup
	end := l.repeat(every, func() { asked.Go(func() { _, _ = l.asked(token()) }) })
	return func() {
		end()
		asked.Wait()
	}
}

func tryTokens(l *lab) func() {
	return l.asking(50*time.Millisecond, func() string { return identity.Token(1, identity.NewSecret()) })
}

func lockTokens(l *lab) func() {
	ctx := context.Background()
	conn, err := l.Pool.Acquire(ctx)
	require.NoError(l.t, err)
	_, err = conn.Exec(ctx, `BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0; LOCK TABLE access_tokens IN ACCESS EXCLUSIVE MODE`)
	require.NoError(l.t, err)
	stop := l.asking(250*time.Millisecond, func() string { return l.token })
	return func() {
		_, err := conn.Exec(ctx, `ROLLBACK`)
		require.NoError(l.t, err)
		conn.Release()
		stop()
	}
}
