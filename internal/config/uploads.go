package config

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// Uploads is where files are kept that people upload to connectors of type file: the API writes them there, and the chunker reads them.
// Both need the same place.
type Uploads struct {
	// URL is a folder that both reach, as file:///absolute/folder, or a bucket of S3 or of a server that speaks as S3 does, as
	// s3://bucket?region=eu-central-1; &endpoint=https://host:9000&use_path_style=true for a server of your own. If empty, nobody uploads
	// files. `echomind run` has a folder of its own.
	URL string `env:"UPLOAD_URL"`
	// AccessKeyID is the id of the key for s3://. If empty: the key that the machine, or the pod's service account, has with AWS.
	AccessKeyID string `env:"UPLOAD_ACCESS_KEY_ID"`
	// SecretAccessKey is the secret half of UPLOAD_ACCESS_KEY_ID.
	SecretAccessKey string `env:"UPLOAD_SECRET_ACCESS_KEY"`
}

// s3Parameters are what a URL of s3:// may say behind its "?".
var s3Parameters = map[string]bool{"region": true, "endpoint": true, "use_path_style": true}

// Validate returns every problem at once. It never prints the URL or the key.
func (u Uploads) Validate() error {
	var problems []error
	if (u.AccessKeyID == "") != (u.SecretAccessKey == "") {
		problems = append(problems, errors.New("UPLOAD_ACCESS_KEY_ID and UPLOAD_SECRET_ACCESS_KEY: set both or none"))
	}
	if u.URL == "" {
		return errors.Join(problems...)
	}
	const form = "must be file:///absolute/folder, or s3://bucket?region=eu-central-1"
	at, err := url.Parse(u.URL)
	switch {
	case err != nil:
		problems = append(problems, errors.New("UPLOAD_URL: is no URL; it "+form))
	case at.User != nil || at.Fragment != "":
		problems = append(problems, errors.New("UPLOAD_URL: holds a user or a fragment; a key belongs into UPLOAD_ACCESS_KEY_ID and UPLOAD_SECRET_ACCESS_KEY"))
	case at.Scheme == "file":
		if at.Host != "" || at.RawQuery != "" || !filepath.IsAbs(at.Path) || filepath.Clean(at.Path) == "/" {
			problems = append(problems, errors.New("UPLOAD_URL: names no folder of its own; it "+form))
		}
	case at.Scheme == "s3":
		if at.Host == "" || strings.Trim(at.Path, "/") != "" {
			problems = append(problems, errors.New("UPLOAD_URL: names a bucket and nothing below it; it "+form))
		}
		for name := range at.Query() {
			if !s3Parameters[name] {
				problems = append(problems, fmt.Errorf("UPLOAD_URL: %q is not known; region, endpoint and use_path_style are", name))
			}
		}
	default:
		problems = append(problems, fmt.Errorf("UPLOAD_URL: %q is no scheme for uploads; it %s", at.Scheme, form))
	}
	return errors.Join(problems...)
}

// Folder is the folder of uploads; empty where they are kept elsewhere, or nowhere.
func (u Uploads) Folder() string {
	if at, err := url.Parse(u.URL); err == nil && at.Scheme == "file" {
		return filepath.Clean(at.Path)
	}
	return ""
}
