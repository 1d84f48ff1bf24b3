package endtoend

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/fakedrive"
	"github.com/echomind/sync/testonly/signintest"
)

// TestAConsentThatTheCommandHasIsSyncedWith goes from `echomind connect` to stored documents.
func TestAConsentThatTheCommandHasIsSyncedWith(t *testing.T) {
	t.Parallel()
	s, consents := newServed(t), signintest.New()
	t.Cleanup(consents.Close)
	s.fake.Token = signintest.AccessToken
	s.tokenURL = consents.GoogleTokenURL()
	s.fake.File(s.root, "plan.txt", "text/plain", "the plan")
	s.fake.File(fakedrive.Root, "elsewhere.txt", "text/plain", "not in the folder")
	s.connect(map[string]any{"refresh_token": "one that is not good any more"})

	dir, client := t.TempDir(), filepath.Join(t.TempDir(), "client.json")
	require.NoError(t, os.WriteFile(client, []byte(`{"installed":{"client_id":"`+signintest.ClientID+`","client_secret":"`+signintest.ClientSecret+`"}}`), 0o600))
	out, err := exec.Command("go", "build", "-o", dir+"/", "github.com/echomind/sync/cmd/echomind").CombinedOutput()
	require.NoError(t, err, string(out))
	command := exec.Command(filepath.Join(dir, "echomind"), "connect", "google", "--connector", strconv.Itoa(int(s.id)), "--client-file", client)
	command.Env = append(os.Environ(), "DATABASE_URL="+s.database, "SECRETS_KEY="+s.key, "SECRETS_KEY_FILE=")
	for name, value := range consents.Environment() {
		command.Env = append(command.Env, name+"="+value)
	}
	says, err := command.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() { _ = command.Process.Kill() })
	var said strings.Builder
	for lines := bufio.NewScanner(says); lines.Scan(); said.WriteString(lines.Text() + "\n") {
		if address := strings.TrimSpace(lines.Text()); strings.HasPrefix(address, "http://") {
			resp, err := (&http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}).Get(address)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
		}
	}
	require.NoError(t, command.Wait(), said.String())

	s.serve()
	require.Equal(t, "completed", s.trigger())
	s.equal()
}
