package stack_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/cmd/echomind/internal/stack"
	"github.com/echomind/sync/internal/config"
	"github.com/echomind/sync/internal/devstack"
	"github.com/echomind/sync/testonly/testkit"
)

// overREST is the API of a stack that runs, as its local administrator has it.
type overREST struct {
	*testing.T
	address, token string
}

// startWithAPI starts a stack with an API.
func startWithAPI(t *testing.T, dataDir string) (overREST, func()) {
	t.Helper()
	var cfg stack.Config
	for _, part := range []any{&cfg.Scheduler, &cfg.Chunker, &cfg.Connector, &cfg.Semantic, &cfg.API} {
		require.NoError(t, config.Load(part))
	}
	cfg.Log, cfg.Devstack.DataDir, cfg.API.Addr, cfg.API.HTTPAddr = testkit.Logger(t), dataDir, "127.0.0.1:0", ""
	cfg.API.Rate, cfg.API.Burst = 10_000, 10_000
	started, ended := make(chan overREST, 1), make(chan error, 1)
	cfg.Started = func(_ devstack.Info, _ *devstack.Stack, addr, file, _ string) {
		text, _ := os.ReadFile(file) // the first request tells
		started <- overREST{t, "http://" + addr + "/api/v1", strings.TrimSpace(string(text))}
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- stack.Run(ctx, cfg) }()
	select {
	case at := <-started:
		return at, func() {
			stop()
			require.NoError(t, <-ended)
		}
	case err := <-ended:
		t.Fatalf("the stack ended: %v", err)
	case <-time.After(90 * time.Second):
		t.Fatal("the stack does not start")
	}
	return overREST{}, stop
}

// do requires a status, and decodes the answer.
func (o overREST) do(want int, method, path, kind, body string, headers ...string) (answer map[string]any) {
	o.Helper()
	r, err := http.NewRequestWithContext(o.Context(), method, o.address+path, strings.NewReader(body))
	require.NoError(o, err)
	r.Header.Set("Authorization", "Bearer "+o.token)
	r.Header.Set("Content-Type", kind)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answered, err := http.DefaultClient.Do(r)
	require.NoError(o, err)
	defer func() { require.NoError(o, answered.Body.Close()) }()
	text, err := io.ReadAll(answered.Body)
	require.NoError(o, err)
	require.Equal(o, want, answered.StatusCode, string(text))
	if len(text) > 0 {
		require.NoError(o, json.Unmarshal(text, &answer))
	}
	return answer
}

func (o overREST) upload(id any, name, content string) {
	o.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile("file", name)
	require.NoError(o, err)
	_, err = io.WriteString(part, content)
	require.NoError(o, err)
	require.NoError(o, form.Close())
	o.do(http.StatusAccepted, http.MethodPost, fmt.Sprintf("/connectors/%v/files", id), form.FormDataContentType(), body.String())
}

// found waits until a search for words finds these documents, of those that have the words, and no others.
func (o overREST) found(words string, want ...string) {
	o.Helper()
	testkit.Eventually(o, 90*time.Second, func() error {
		names := []string{}
		for _, hit := range o.do(http.StatusOK, http.MethodGet, "/search?q="+url.QueryEscape(words), "", "")["hits"].([]any) {
			if text, err := json.Marshal(hit); err == nil && strings.Contains(strings.ToLower(string(text)), strings.ToLower(words)) {
				names = append(names, hit.(map[string]any)["source_id"].(string))
			}
		}
		if fmt.Sprint(names) != fmt.Sprint(append([]string{}, want...)) {
			return fmt.Errorf("%q finds %v", words, names)
		}
		return nil
	})
}

// changedInItsPlace has plants.md read anew from an object that somebody has changed behind the service's back, to one of the same length.
func (o overREST) changedInItsPlace(dir string, id any) {
	o.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "uploads", "uploads", "*", "*", "content"))
	require.NoError(o, err)
	for _, object := range all {
		if text, err := os.ReadFile(object); err == nil && strings.Contains(string(text), "Sequoias") {
			require.NoError(o, os.WriteFile(object, []byte(strings.Replace(string(text), "Sequoias", "Baobabs ", 1)), 0o600))
		}
	}
	path := fmt.Sprintf("/connectors/%v", id)
	o.do(http.StatusOK, http.MethodPatch, path, "application/json", `{"config": {"url": "upload:", "max_file_bytes": 100000}}`, "If-Match", "*")
	testkit.Eventually(o, 90*time.Second, func() error {
		if file := o.do(http.StatusOK, http.MethodGet, path+"/files/plants.md", "", ""); file["document"] != "failed" {
			return fmt.Errorf("it is %v", file)
		}
		return nil
	})
	o.found("Baobabs")
}

// Somebody without a folder that the service reads: what they upload is found, what replaces it too, and what they delete is gone, and at last every byte of it.
func TestWhatIsUploadedIsFoundUntilItIsReplacedOrDeleted(t *testing.T) {
	dir := dataFolder(t)
	o, stop := startWithAPI(t, dir)
	defer func() { stop() }()
	id := o.do(http.StatusCreated, http.MethodPost, "/connectors", "application/json", `{"name": "mine", "type": "file", "config": {"url": "upload:"}}`)["id"]
	o.upload(id, "animals.md", "# Animals\n\nOkapis eat leaves.")
	o.upload(id, "plants.md", "# Plants\n\nSequoias grow high.")
	o.found("Okapis", "animals.md")
	o.found("Sequoias", "plants.md")
	for _, file := range o.do(http.StatusOK, http.MethodGet, fmt.Sprintf("/connectors/%v/files", id), "", "")["files"].([]any) {
		require.Equal(t, "stored", file.(map[string]any)["document"])
	}

	animals := fmt.Sprintf("/connectors/%v/files/animals.md", id)
	before := o.do(http.StatusOK, http.MethodGet, animals, "", "")["bytes"]
	require.Equal(t, before, o.do(http.StatusOK, http.MethodPut, animals, "text/markdown", "# Animals\n\nNarwhals swim far.", "If-Match", "*")["bytes"], "as long as what it replaces")
	o.found("Narwhals", "animals.md")
	o.found("Okapis")

	stop() // what was uploaded is there after a restart
	o, stop = startWithAPI(t, dir)
	o.do(http.StatusAccepted, http.MethodDelete, animals, "", "", "If-Match", "*")
	o.found("Narwhals")
	o.changedInItsPlace(dir, id)
	o.do(http.StatusAccepted, http.MethodDelete, fmt.Sprintf("/connectors/%v/files/plants.md", id), "", "", "If-Match", "*")
	o.found("Sequoias")

	kept, err := filepath.Glob(filepath.Join(dir, "uploads", "uploads", "*", "*", "content"))
	require.NoError(t, err)
	require.Len(t, kept, 3, "for an hour")
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "uploads"), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			info, broken := entry.Info()
			require.NoError(t, broken)
			require.Zero(t, info.Mode().Perm()&0o077, "%s is for nobody else", path)
		}
		return err
	}))
}
