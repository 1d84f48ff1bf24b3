package crawl_test

import (
	"net/http"
)

func raw(contentType string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{contentType}
		if contentType == "" {
			w.Header()["Content-Type"] = nil
		}
		_, _ = w.Write(body)
	}
}
