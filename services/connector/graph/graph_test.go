package graph_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/services/connector/graph"
)

func client(t *testing.T, endpoint string) *graph.Client {
	t.Helper()
	c, err := graph.New(graph.Options{Endpoint: endpoint, API: http.DefaultClient, Plain: http.DefaultClient})
	require.NoError(t, err)
	return c
}

func TestOnlyLinksOfTheEndpointAreFollowed(t *testing.T) {
	c := client(t, "https://graph.microsoft.us/v1.0/")
	for link, followed := range map[string]bool{
		"https://graph.microsoft.us/v1.0/drives/x/root/delta?token=a": true,
		"https://GRAPH.microsoft.us/beta/x":                           true,
		"https://graph.microsoft.com/v1.0/x":                          false,
		"http://graph.microsoft.us/v1.0/x":                            false,
		"https://graph.microsoft.us:444/v1.0/x":                       false,
		"https://graph.microsoft.us@evil.example/v1.0/x":              false,
		"https://a:b@graph.microsoft.us/v1.0/x":                       false,
		"https://graph.microsoft.us.evil.example/x":                   false,
		"//graph.microsoft.us/v1.0/x":                                 false,
		"/v1.0/x":                                                     false,
		"":                                                            false,
		"https://graph.microsoft.us/v1.0/%zz":                         false,
		"https://graph.microsoft.us/" + strings.Repeat("x", graph.MaxLinkBytes): false,
	} {
		err := c.CheckLink(link)
		require.Equal(t, followed, err == nil, "%.80s: %v", link, err)
		if !followed {
			require.ErrorIs(t, err, graph.ErrLink)
			require.ErrorIs(t, c.Get(t.Context(), link, nil, nil), graph.ErrLink)
		}
	}
}

func TestARedirectDoesNotCarryTheTokenAway(t *testing.T) {
	asked := 0
	evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer evil.Close()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, evil.URL, http.StatusFound)
	}))
	defer api.Close()
	require.ErrorContains(t, client(t, api.URL).Get(t.Context(), api.URL+"/x", nil, nil), "answered 302")
	require.Zero(t, asked)
}

func TestErrorsAreToldByTheirMostDetailedCode(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://"+r.Host+"/again")
		switch r.URL.Path {
		case "/gone":
			w.WriteHeader(http.StatusGone)
			_, _ = w.Write([]byte(`{"error":{"code":"resyncRequired","innerError":{"code":"resyncChangesApplyDifferences"}}}`))
		case "/sync":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":{"code":"badRequest","innererror":{"code":"syncStateNotFound"}}}`))
		case "/virus":
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"error":{"code":"accessDenied","innerError":{"code":"virusSuspicious"}}}`))
		default:
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`<html>a proxy's own page</html>`))
		}
	}))
	defer api.Close()
	c := client(t, api.URL)
	for _, path := range []string{"/gone", "/sync"} {
		start, resync := graph.Resync(c.Get(t.Context(), api.URL+path, nil, nil))
		require.True(t, resync)
		require.Equal(t, api.URL+"/again", start)
	}
	err := c.Get(t.Context(), api.URL+"/virus", nil, nil)
	require.True(t, graph.IsRefused(err))
	require.Contains(t, graph.Reason(err), "malware")
	err = c.Get(t.Context(), api.URL+"/proxy?token=secret", nil, nil)
	require.Equal(t, "no permission to read this file (Forbidden)", graph.Reason(err))
	require.NotContains(t, err.Error(), "secret")
}

func TestVersionsAreTheSameByAnyNameTheyShare(t *testing.T) {
	listed := graph.Version{Hash: "h"}
	asked := graph.Version{CTag: "c", Hash: "h"}
	require.True(t, listed.SameContent(asked))
	require.Equal(t, asked, listed.Merge(asked))
	require.False(t, graph.Version{}.SameContent(graph.Version{}), "no name is no evidence")
	require.False(t, graph.Version{CTag: "c"}.SameContent(listed))
}

func TestABadEndpointIsNamed(t *testing.T) {
	for _, endpoint := range []string{"graph.microsoft.com", "ftp://x", "https://u:p@graph.microsoft.com", "::"} {
		_, err := graph.New(graph.Options{Endpoint: endpoint, API: http.DefaultClient, Plain: http.DefaultClient})
		require.ErrorContains(t, err, endpoint)
	}
}

// account is an error about the account, as package provider has them.
type account struct{}

func (account) Error() string {
	return "Microsoft sign-in answered 400 invalid_grant: connect it again"
}
func (account) EndsSync() bool { return true }

type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

func TestWhatTheServiceSaysIsKept(t *testing.T) {
	long := strings.Repeat("word ", 60) + strings.Repeat("x", 400) + " end"
	for said, kept := range map[string]string{
		"The site\r\n was  not found.": "The site was not found.",
		"":                             "",
		long:                           strings.Repeat("word ", 60) + "…",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
				"code": "invalidRequest", "message": said, "innerError": map[string]any{"code": "badSite"},
			}})
		}))
		t.Cleanup(s.Close)
		err := client(t, s.URL).Get(t.Context(), s.URL+"/sites/x?token=secret", nil, &struct{}{})
		text := s.URL + "/sites/x answered 400 invalidRequest/badSite"
		if kept != "" {
			text += ": " + kept
		}
		require.EqualError(t, err, text)
		require.EqualError(t, graph.AsPermanent(err, "site x"), "site x: Microsoft Graph does not take it: "+text)
		require.Equal(t, "the service answered 400 invalidRequest/badSite", graph.Reason(err), "a document's reason is the same at every sync")
	}
}

func TestASignInThatFailsIsNotSaidToBeGraph(t *testing.T) {
	c, err := graph.New(graph.Options{
		Endpoint: "https://graph.example/v1.0", API: &http.Client{Transport: failing{account{}}}, Plain: http.DefaultClient,
	})
	require.NoError(t, err)
	err = c.Get(t.Context(), "https://graph.example/v1.0/me/drive", nil, &struct{}{})
	require.EqualError(t, err, account{}.Error())
	require.True(t, graph.EndsSync(err))
}
