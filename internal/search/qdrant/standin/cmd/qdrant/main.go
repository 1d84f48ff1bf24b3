// Qdrant serves the stand-in on the port in QDRANT__SERVICE__GRPC_PORT, or 6334, with the key in QDRANT__SERVICE__API_KEY, and
// /healthz on that in QDRANT__SERVICE__HTTP_PORT, or 6333; for the test of docker-compose.yml and the fault harness.
package main

import (
	"cmp"
	"context"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/echomind/sync/internal/search/qdrant/standin"
)

func main() {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", ":"+cmp.Or(os.Getenv("QDRANT__SERVICE__GRPC_PORT"), "6334"))
	if err != nil {
		log.Fatal(err)
	}
	server := standin.Server{Key: os.Getenv("QDRANT__SERVICE__API_KEY")}
	_, wait := server.Serve(listener)
	go func() { log.Fatal(wait()) }()
	healthy := http.Server{
		Addr: ":" + cmp.Or(os.Getenv("QDRANT__SERVICE__HTTP_PORT"), "6333"), ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("healthz check passed")) }),
	}
	log.Fatal(healthy.ListenAndServe())
}
