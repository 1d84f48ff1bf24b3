package config

import "log/slog"

// Stack is the configuration of `echomind run`, beside that of its services.
type Stack struct {
	Lookup
	// HTTPAddr is the address of /healthz, /readyz and /metrics of all services; port 0 = any free port, empty = they are not
	// served.
	HTTPAddr string `env:"HTTP_ADDR" envDefault:"127.0.0.1:0" envEmpty:"keep"`
	// LogFormat is json or text.
	LogFormat string `env:"LOG_FORMAT" envDefault:"text"`
	// LogLevel is debug, info, warn or error.
	LogLevel slog.Level `env:"LOG_LEVEL" envDefault:"info"`
	// ShutdownGraceSeconds is how long work in flight may go on after a stop signal, in seconds.
	ShutdownGraceSeconds int `env:"SHUTDOWN_GRACE_SECONDS" envDefault:"3"`
}
