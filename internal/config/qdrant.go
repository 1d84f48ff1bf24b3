package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Qdrant is the server in which semantic keeps a search index of the vectors, for faster searches of the API and the command line; Postgres keeps
// all vectors as well.
type Qdrant struct {
	// URL is the URL of Qdrant's gRPC API, such as http://127.0.0.1:6334, or https:// for TLS; version 1.16 or later. The
	// default port is 6334. If empty, a search compares vectors one by one in Postgres.
	URL string `env:"QDRANT_URL"`
	// APIKey is Qdrant's service.api_key, if it has one.
	APIKey string `env:"QDRANT_API_KEY"`
	// Collection is the beginning of the names of the alias and the collections. A copy of a database needs another name.
	Collection string `env:"QDRANT_COLLECTION" envDefault:"echomind"`
}

var collectionName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Validate returns every problem at once. It never prints the URL or the key.
func (q Qdrant) Validate() error {
	var problems []error
	if q.URL != "" {
		u, err := url.Parse(q.URL)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
			problems = append(problems, errors.New("QDRANT_URL: must be a URL such as http://127.0.0.1:6334"))
		case u.User != nil || u.RawQuery != "" || u.Fragment != "":
			problems = append(problems, errors.New("QDRANT_URL: holds a user, a query or a fragment; a key belongs into QDRANT_API_KEY"))
		case strings.Trim(u.Path, "/") != "":
			problems = append(problems, errors.New("QDRANT_URL: holds a path, which gRPC has none of"))
		case u.Port() == "6333":
			problems = append(problems, errors.New("QDRANT_URL: 6333 is the port of Qdrant's REST API; gRPC's is 6334"))
		}
		if !collectionName.MatchString(q.Collection) {
			problems = append(problems, fmt.Errorf("QDRANT_COLLECTION=%q: must be 1 to 64 letters, digits, - or _", q.Collection))
		}
	} else if q.APIKey != "" {
		problems = append(problems, errors.New("QDRANT_API_KEY is set without QDRANT_URL: set both or none"))
	}
	return errors.Join(problems...)
}
