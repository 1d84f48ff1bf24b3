package chunker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/echomind/sync/services/chunker/crawl"
	"github.com/echomind/sync/services/chunker/files"
)

// CheckConfig says before anything runs what a sync would say of a connector's configuration, as far as that can be
// told without the source: every problem with its field, its value and the fix. nil also for a type that is not the
// chunker's.
func CheckConfig(connectorType string, config []byte) error {
	switch connectorType {
	case "web":
		return check[crawl.Config](config)
	case "file":
		return check[files.Config](config)
	}
	return nil
}

func check[C interface{ Validate() error }](config []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(config, &fields); err != nil {
		return fmt.Errorf("it is no JSON object: %w", err)
	}
	var cfg C
	known := fieldsOf(reflect.TypeFor[C]())
	var problems []error
	for name := range fields {
		if !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) }) { // as encoding/json has it
			problems = append(problems, fmt.Errorf("%s: there is no such field; there are %s", name, strings.Join(known, ", ")))
		}
	}
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	err := json.NewDecoder(bytes.NewReader(config)).Decode(&cfg)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return errors.Join(append(problems, fmt.Errorf("%s: it is a JSON %s; write %s", wrong.Field, wrong.Value, written(wrong.Type)))...)
	case err != nil:
		return errors.Join(append(problems, err)...)
	}
	return errors.Join(append(problems, cfg.Validate())...)
}

func fieldsOf(t reflect.Type) []string {
	names := make([]string, t.NumField())
	for i := range t.NumField() {
		names[i], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	return names
}

// written is how a value of a type is written in JSON.
func written(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text in quotes"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "a list in brackets"
	}
	return "a value of type " + t.String()
}
