package config

// HTTP is the address at which a service answers health checks, from that service's own variable.
type HTTP struct {
	HTTPAddr string `env:"HTTP_ADDR" envDefault:"127.0.0.1:8080" envEmpty:"keep"`
}
