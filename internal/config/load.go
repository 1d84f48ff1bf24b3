package config

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"time"

	"github.com/caarlos0/env/v11"
)

// Read reads a configuration from the environment and checks it. A configuration that cannot be read is not checked: the check
// would report values that nobody has set.
func Read[C interface{ Validate() error }]() (cfg C, err error) {
	if err := Load(&cfg); err != nil {
		return cfg, err
	}
	return cfg, cfg.Validate()
}

// Load fills cfg, a pointer to a struct with env tags, from the environment. Its error names every variable that cannot be
// read, its value and the fix. A variable that is set but empty means its default: deployments pass on variables that nobody
// filled in. The tag `envEmpty:"keep"` marks a field that may be set to empty.
func Load(cfg any) error {
	err := env.Parse(cfg)
	if err == nil {
		keepEmpty(reflect.ValueOf(cfg).Elem(), "")
		return nil
	}
	var all env.AggregateError
	if !errors.As(err, &all) {
		return fmt.Errorf("read the environment: %w", err)
	}
	problems := make([]error, len(all.Errors))
	for i, one := range all.Errors {
		problems[i] = fmt.Errorf("read the environment: %w", one)
		var parse env.ParseError
		if !errors.As(one, &parse) {
			continue
		}
		if variable := variableOf(reflect.TypeOf(cfg).Elem(), parse, ""); variable != "" {
			problems[i] = fmt.Errorf("%s=%q: must be %s", variable, os.Getenv(variable), formOf(parse.Type))
		}
	}
	return errors.Join(problems...)
}

// LoadAll is Load for several configurations that share variables: a problem is reported once.
func LoadAll(configurations ...any) error {
	var problems []error
	told := map[string]bool{}
	for _, cfg := range configurations {
		err := Load(cfg)
		several, ok := err.(interface{ Unwrap() []error })
		if !ok {
			problems = append(problems, err)
			continue
		}
		for _, one := range several.Unwrap() {
			if !told[one.Error()] {
				told[one.Error()] = true
				problems = append(problems, one)
			}
		}
	}
	return errors.Join(problems...)
}

// keepEmpty empties the fields that may be set to empty, where their variable is: the library has given them their default.
func keepEmpty(cfg reflect.Value, prefix string) {
	for field, value := range cfg.Fields() {
		variable := field.Tag.Get("env")
		switch {
		case field.Tag.Get("envEmpty") == "keep":
			if set, ok := os.LookupEnv(prefix + variable); ok && set == "" {
				value.SetZero()
			}
		case value.Kind() == reflect.Struct && variable == "":
			keepEmpty(value, prefix+field.Tag.Get("envPrefix"))
		}
	}
}

// variableOf finds the variable of a field that could not be read: the library names only the Go field.
func variableOf(t reflect.Type, parse env.ParseError, prefix string) string {
	for i := range t.NumField() {
		field := t.Field(i)
		variable := field.Tag.Get("env")
		switch {
		case field.Name == parse.Name && field.Type == parse.Type && os.Getenv(prefix+variable) != "":
			return prefix + variable
		case field.Type.Kind() == reflect.Struct && variable == "":
			if found := variableOf(field.Type, parse, prefix+field.Tag.Get("envPrefix")); found != "" {
				return found
			}
		}
	}
	return ""
}

// formOf describes how a value of a type is written.
func formOf(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "a duration such as 6h or 90s"
	case reflect.TypeFor[slog.Level]():
		return "debug, info, warn or error"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "a whole number that is not too large"
	case reflect.Float64:
		return "a number such as 0.1"
	}
	return "a " + t.String()
}
