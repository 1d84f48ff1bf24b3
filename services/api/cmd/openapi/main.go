// Openapi prints the document of the API: services/api/openapi.json.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/echomind/sync/services/api"
)

func main() {
	text, err := api.OpenAPI()
	var out bytes.Buffer
	if err == nil {
		err = json.Indent(&out, text, "", "  ")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(out.String())
}
