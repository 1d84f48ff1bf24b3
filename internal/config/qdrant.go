package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
)

// Qdrant is where semantic keeps an index of the vectors, for a faster search; Postgres has them all.
type Qdrant struct {
	// URL is the base of Qdrant's REST API, such as http://127.0.0.1:6333, of version 1.10 or later; if empty, vectors are
	// compared one by one in Postgres.
	URL string `env:"QDRANT_URL"`
	// APIKey is Qdrant's service.api_key, where it has one.
	APIKey string `env:"QDRANT_API_KEY"`
	// Collection begins the collections' names. A copy of a database needs another one.
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
			problems = append(problems, errors.New("QDRANT_URL: must be a URL such as http://127.0.0.1:6333"))
		case u.User != nil || u.RawQuery != "" || u.Fragment != "":
			problems = append(problems, errors.New("QDRANT_URL: holds a user, a query or a fragment; a key belongs into QDRANT_API_KEY"))
		}
		if !collectionName.MatchString(q.Collection) {
			problems = append(problems, fmt.Errorf("QDRANT_COLLECTION=%q: must be 1 to 64 letters, digits, - or _", q.Collection))
		}
	} else if q.APIKey != "" {
		problems = append(problems, errors.New("QDRANT_API_KEY is set without QDRANT_URL: set both or none"))
	}
	return errors.Join(problems...)
}
