package fakegraph

import (
	"net"
	"net/http"
	"strings"
)

// Fault is what goes wrong with requests.
type Fault struct {
	// Path is a part of the paths it happens to; downloads have /download/ in theirs. Empty is every one.
	Path string
	// Times is how often it happens.
	Times int
	// Skip lets that many matching requests pass before.
	Skip int
	// Status and Code answer instead of the service. RetryAfter is that header's value.
	Status     int
	Code       string
	RetryAfter string
	// Message is what Status and Code say for people; something if empty.
	Message string
	// Reset breaks the connection off: after the first half of a download, else before an answer.
	Reset bool
	// Cut ends a body in its middle as if that were its end, as a bad proxy does.
	Cut bool
}

// Common faults, once each.
var (
	Throttled   = Fault{Times: 1, Status: http.StatusTooManyRequests, Code: "activityLimitReached", RetryAfter: "1"}
	Unavailable = Fault{Times: 1, Status: http.StatusServiceUnavailable, Code: "serviceNotAvailable", RetryAfter: "1"}
	Broken      = Fault{Times: 1, Status: http.StatusInternalServerError, Code: "generalException"}
	BadGateway  = Fault{Times: 1, Status: http.StatusBadGateway}
	Reset       = Fault{Times: 1, Reset: true}
	Truncated   = Fault{Times: 1, Cut: true}
)

// On is the fault at some paths only, some times.
func (f Fault) On(path string, times int) Fault {
	f.Path, f.Times = path, times
	return f
}

// Inject makes faults happen, in order, to requests from now on.
func (s *Server) Inject(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range faults {
		s.faults = append(s.faults, &f)
	}
}

// Heal ends all faults, and returns how many times were left.
func (s *Server) Heal() (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		left += f.Times
	}
	s.faults = nil
	return left
}

// next takes the next fault of a path.
func (s *Server) next(path string) *Fault {
	for _, f := range s.faults {
		if f.Times == 0 || !strings.Contains(path, f.Path) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		f.Times--
		return f
	}
	return nil
}

// hit answers a request of the API with a fault, if one is due.
func (s *Server) hit(w http.ResponseWriter, r *http.Request) bool {
	f := s.next(r.URL.Path)
	switch {
	case f == nil:
		return false
	case f.Reset:
		reset(w)
	case f.Cut:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"value":[{"id":"cut sho`))
	default:
		if f.RetryAfter != "" {
			w.Header().Set("Retry-After", f.RetryAfter)
		}
		refuse(w, f.Status, f.Message, f.Code)
	}
	return true
}

// reset ends a connection with RST.
func reset(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
