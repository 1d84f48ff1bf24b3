// Qdrant serves the stand-in on the port in QDRANT__SERVICE__HTTP_PORT, or 6333, with the key in QDRANT__SERVICE__API_KEY,
// for the test of docker-compose.yml and the fault harness.
package main

import (
	"cmp"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/echomind/sync/services/semantic/internal/qdrant/standin"
)

func main() {
	server := http.Server{
		Addr: ":" + cmp.Or(os.Getenv("QDRANT__SERVICE__HTTP_PORT"), "6333"), ReadHeaderTimeout: 10 * time.Second,
		Handler: &standin.Server{Key: os.Getenv("QDRANT__SERVICE__API_KEY")},
	}
	log.Fatal(server.ListenAndServe())
}
