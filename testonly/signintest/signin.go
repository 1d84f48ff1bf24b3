// Package signintest is the sign-ins of Google and Microsoft in process, as far as a user's consent and the tokens that it
// leaves go. It is written from "OAuth 2.0 for Mobile & Desktop Apps" (Google), "Microsoft identity platform and the OAuth
// 2.0 device authorization grant flow", "… and OAuth 2.0 authorization code flow" (Microsoft), RFC 6749, 7636, 8252, 8628.
//
// A browser is a GET of the address that the user is shown: it consents at once, and is sent back. A code is approved by Enter.
package signintest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
)

// Names of what is not a secret, and secrets, which may show nowhere.
const (
	ClientID     = "the-application"
	ClientSecret = "GOCSPX-secret-of-the-application"
	RefreshToken = "1//0g-refresh-token-of-a-consent"
	AccessToken  = "ya29.access-token-of-a-consent"
	deviceCode   = "device-code-that-nobody-shows"
	// UserCode is what a user enters.
	UserCode = "WXYZ-1234"
)

// Server is both. Its knobs may be set before it is asked.
type Server struct {
	*httptest.Server
	// Denies answers that the user refuses.
	Denies bool
	// Partial grants no scope that was asked for.
	Partial bool
	// Forgets leaves no refresh token.
	Forgets bool
	// Web is the address that a web application's browsers come back to; empty: the application is one of a machine's own.
	Web string
	// Broken is what the token endpoint answers instead; nothing if 0.
	Broken int
	// Polls are what a question for the tokens of a code is answered, in turn, before Enter counts: authorization_pending,
	// slow_down, expired_token, ….
	Polls []string
	// Private says that the application has not been allowed to ask for codes.
	Private bool
	// Life and Interval are those of a code, in seconds; 900 and 1 if 0.
	Life, Interval int

	mu       sync.Mutex
	codes    map[string]url.Values // what each was given for
	entered  bool
	scope    string // of the last device code
	requests []string
}

// New starts a sign-in; Close ends it.
func New() *Server {
	s := &Server{codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /google/auth", s.authorize)
	mux.HandleFunc("POST /google/token", s.token)
	mux.HandleFunc("GET /{tenant}/oauth2/v2.0/authorize", s.authorize)
	mux.HandleFunc("POST /{tenant}/oauth2/v2.0/devicecode", s.device)
	mux.HandleFunc("POST /{tenant}/oauth2/v2.0/token", s.token)
	s.Server = httptest.NewServer(mux)
	return s
}

// Environment names it to programs that ask it.
func (s *Server) Environment() map[string]string {
	return map[string]string{
		"CONNECTOR_GOOGLE_AUTH_URL": s.GoogleAuthURL(), "CONNECTOR_GOOGLE_TOKEN_URL": s.GoogleTokenURL(),
		"CONNECTOR_MICROSOFT_LOGIN_URL": s.URL,
	}
}

// GoogleAuthURL is where a user consents.
func (s *Server) GoogleAuthURL() string { return s.URL + "/google/auth" }

// GoogleTokenURL gives tokens.
func (s *Server) GoogleTokenURL() string { return s.URL + "/google/token" }

// Enter is a user who enters the code, and consents.
func (s *Server) Enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entered = true
}

// Requests returns what was asked, as paths.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

func (s *Server) note(r *http.Request) { s.requests = append(s.requests, r.Method+" "+r.URL.Path) }

// authorize is the page on which a user consents.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(r)
	asked := r.URL.Query()
	back, err := url.Parse(asked.Get("redirect_uri"))
	google := strings.HasPrefix(r.URL.Path, "/google/")
	switch {
	case s.Web != "" && asked.Get("redirect_uri") != s.Web, err != nil,
		s.Web == "" && (back.Scheme != "http" || back.Path != "" || back.Hostname() != map[bool]string{true: "127.0.0.1", false: "localhost"}[google]):
		http.Error(w, "redirect_uri_mismatch", http.StatusBadRequest)
		return
	case asked.Get("client_id") != ClientID || asked.Get("response_type") != "code" || asked.Get("state") == "" ||
		asked.Get("code_challenge_method") != "S256" || len(asked.Get("code_challenge")) != 43 || asked.Get("scope") == "":
		http.Error(w, "invalid_request", http.StatusBadRequest)
		return
	}
	if s.Web == "" { // a name is looked up as a browser does it, which tries each address: the listener is on one of them
		back.Host, back.Path = net.JoinHostPort("127.0.0.1", back.Port()), "/"
	}
	answer := url.Values{"state": {asked.Get("state")}}
	if s.Denies {
		answer.Set("error", "access_denied")
	} else {
		code := fmt.Sprintf("4/code-%d-that-nobody-shows", len(s.codes)+1)
		s.codes[code] = asked
		answer.Set("code", code)
	}
	back.RawQuery = answer.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// device gives a code.
func (s *Server) device(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(r)
	if r.PostFormValue("client_id") != ClientID {
		refuse(w, http.StatusBadRequest, "unauthorized_client", "AADSTS700016: Application was not found in the directory")
		return
	}
	s.scope = r.PostFormValue("scope")
	answer(w, map[string]any{
		"device_code": deviceCode, "user_code": UserCode, "verification_uri": s.URL + "/devicelogin",
		"expires_in": or(s.Life, 900), "interval": or(s.Interval, 1), "message": "To sign in, …",
	})
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(r)
	if s.Broken != 0 {
		w.WriteHeader(s.Broken)
		_, _ = fmt.Fprintf(w, "<html>%s</html>", r.PostFormValue("code"))
		return
	}
	switch r.PostFormValue("grant_type") {
	case "authorization_code":
		s.redeem(w, r)
	case "urn:ietf:params:oauth:grant-type:device_code":
		s.poll(w, r)
	case "refresh_token":
		if r.PostFormValue("refresh_token") != RefreshToken || r.PostFormValue("client_id") != ClientID {
			refuse(w, http.StatusBadRequest, "invalid_grant", "Token has been expired or revoked.")
			return
		}
		answer(w, map[string]any{"access_token": AccessToken, "token_type": "Bearer", "expires_in": 3599})
	default:
		refuse(w, http.StatusBadRequest, "unsupported_grant_type", "")
	}
}

// redeem takes a code once, from who has the verifier.
func (s *Server) redeem(w http.ResponseWriter, r *http.Request) {
	asked, known := s.codes[r.PostFormValue("code")]
	s.codes[r.PostFormValue("code")] = nil
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	google := strings.HasPrefix(r.URL.Path, "/google/")
	switch {
	case (google || s.Web != "") != (r.PostFormValue("client_secret") == ClientSecret):
		refuse(w, http.StatusUnauthorized, "invalid_client", "The provided client secret is invalid.")
	case !known || asked == nil, asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]),
		asked.Get("redirect_uri") != r.PostFormValue("redirect_uri"), asked.Get("client_id") != r.PostFormValue("client_id"):
		refuse(w, http.StatusBadRequest, "invalid_grant", "Malformed auth code.")
	default:
		s.grant(w, asked.Get("scope"), !google || asked.Get("access_type") == "offline" && asked.Get("prompt") == "consent")
	}
}

func (s *Server) poll(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.PostFormValue("device_code") != deviceCode:
		refuse(w, http.StatusBadRequest, "bad_verification_code", "")
	case s.Private:
		refuse(w, http.StatusUnauthorized, "invalid_client",
			"AADSTS7000218: The request body must contain the following parameter: 'client_assertion' or 'client_secret'.")
	case len(s.Polls) > 0:
		refuse(w, http.StatusBadRequest, s.Polls[0], "AADSTS70016: what it means")
		s.Polls = s.Polls[1:]
	case !s.entered:
		refuse(w, http.StatusBadRequest, "authorization_pending", "AADSTS70016: pending")
	case s.Denies:
		refuse(w, http.StatusBadRequest, "authorization_declined", "AADSTS70020: declined")
	default:
		s.grant(w, s.scope, strings.Contains(" "+s.scope+" ", " offline_access "))
	}
}

func (s *Server) grant(w http.ResponseWriter, scope string, offline bool) {
	if s.Partial {
		scope = "openid"
	}
	tokens := map[string]any{"access_token": AccessToken, "token_type": "Bearer", "expires_in": 3599, "scope": scope}
	if offline && !s.Forgets {
		tokens["refresh_token"] = RefreshToken
	}
	answer(w, tokens)
}

func or(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

func refuse(w http.ResponseWriter, status int, reason, description string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": reason, "error_description": description})
}
