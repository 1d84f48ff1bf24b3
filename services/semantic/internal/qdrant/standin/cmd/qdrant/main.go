// Qdrant serves the stand-in on port 6333, with the key in QDRANT__SERVICE__API_KEY, for the test of docker-compose.yml.
package main

import (
	"log"
	"net/http"
	"os"
	"time"

	"github.com/echomind/sync/services/semantic/internal/qdrant/standin"
)

func main() {
	server := http.Server{
		Addr: ":6333", ReadHeaderTimeout: 10 * time.Second,
		Handler: &standin.Server{Key: os.Getenv("QDRANT__SERVICE__API_KEY")},
	}
	log.Fatal(server.ListenAndServe())
}
