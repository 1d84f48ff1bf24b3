package config

// HTTP is where a service that is asked for its health listens, by that service's own variable.
type HTTP struct {
	HTTPAddr string `env:"HTTP_ADDR" envDefault:"127.0.0.1:8080" envEmpty:"keep"`
}
