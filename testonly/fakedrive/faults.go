package fakedrive

import (
	"bytes"
	"net"
	"net/http"
	"strconv"
)

// Fault is what goes wrong with requests.
type Fault struct {
	// Kind is whose: list, get, media, export, changes, start or drives. Empty is every one.
	Kind string
	// ID is the item that it happens to. Empty is every one.
	ID string
	// Times is how often it happens, Skip how many such requests pass before.
	Times, Skip int
	// Status and Reason answer instead of the service; RetryAfter, in seconds, is that header's value.
	Status     int
	Reason     string
	RetryAfter int
	// Reset breaks the connection off, before an answer; ResetMidway after half of one.
	Reset, ResetMidway bool
	// Cut ends an answer in its middle as if that were its end, as a bad proxy does.
	Cut bool
}

// Common faults, once each ("Resolve errors").
var (
	Throttled     = Fault{Times: 1, Status: http.StatusForbidden, Reason: "userRateLimitExceeded"}
	TooMany       = Fault{Times: 1, Status: http.StatusTooManyRequests, Reason: "rateLimitExceeded", RetryAfter: 1}
	Activity      = Fault{Times: 1, Status: http.StatusForbidden, Reason: "activityLimitReached"}
	Unavailable   = Fault{Times: 1, Status: http.StatusServiceUnavailable, Reason: "backendError", RetryAfter: 1}
	Broken        = Fault{Times: 1, Status: http.StatusInternalServerError, Reason: "backendError"}
	Reset         = Fault{Times: 1, Reset: true}
	ResetMidway   = Fault{Times: 1, ResetMidway: true}
	Truncated     = Fault{Times: 1, Cut: true}
	NoPermission  = Fault{Times: 1, Status: http.StatusForbidden, Reason: "insufficientFilePermissions"}
	DailyLimit    = Fault{Times: 1, Status: http.StatusForbidden, Reason: "dailyLimitExceeded"}
	DownloadQuota = Fault{Times: 1, Status: http.StatusForbidden, Reason: "downloadQuotaExceeded"}
)

// On is the fault at some requests only, some times.
func (f Fault) On(kind string, times int) Fault {
	f.Kind, f.Times = kind, times
	return f
}

// Of is the fault of one item.
func (f Fault) Of(id string) Fault {
	f.ID = id
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

func (s *Server) nextFault(kind, id string) *Fault {
	for _, f := range s.faults {
		if f.Times == 0 || f.Kind != "" && f.Kind != kind || f.ID != "" && f.ID != id {
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

// on applies a fault; it returns nil where that was the answer.
func (f *Fault) on(w http.ResponseWriter) http.ResponseWriter {
	switch {
	case f.Reset:
		reset(w)
		return nil
	case f.Status != 0:
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		}
		fail(w, f.Status, f.Reason, "injected", "")
		return nil
	}
	return &faulty{ResponseWriter: w, fault: f, status: http.StatusOK}
}

// faulty keeps an answer, to send half of it.
type faulty struct {
	http.ResponseWriter
	fault  *Fault
	status int
	body   bytes.Buffer
}

func (f *faulty) WriteHeader(status int)      { f.status = status }
func (f *faulty) Write(p []byte) (int, error) { return f.body.Write(p) }

func (f *faulty) end() {
	whole := f.body.Bytes()
	half := whole[:len(whole)/2]
	if f.fault.Cut {
		f.Header().Set("Content-Length", strconv.Itoa(len(half)))
	} else {
		f.Header().Set("Content-Length", strconv.Itoa(len(whole)))
	}
	f.ResponseWriter.WriteHeader(f.status)
	_, _ = f.ResponseWriter.Write(half)
	if f.fault.ResetMidway {
		if flusher, can := f.ResponseWriter.(http.Flusher); can {
			flusher.Flush()
		}
		reset(f.ResponseWriter)
	}
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
