package config

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

type settings struct {
	Common
	Inner struct {
		Patience time.Duration `env:"TEST_PATIENCE" envDefault:"1h"`
		Enabled  bool          `env:"TEST_ENABLED" envDefault:"true"`
	}
}

func (s settings) Validate() error {
	return errors.Join(s.Common.Validate(), AtLeast("TEST_PATIENCE", int(s.Inner.Patience), 1))
}

func TestWhatCannotBeReadIsNamedOnceWithItsValueAndTheFix(t *testing.T) {
	for variable, value := range map[string]string{
		"DATABASE_MAX_CONNS": "ten", "SHUTDOWN_GRACE_SECONDS": "99999999999999999999", "LOG_LEVEL": "loud",
		"TEST_PATIENCE": "3", "TEST_ENABLED": "maybe",
	} {
		t.Setenv(variable, value)
	}
	_, err := Read[settings]()
	if err == nil {
		t.Fatal("no error")
	}
	for _, line := range []string{
		`DATABASE_MAX_CONNS="ten": must be a whole number that is not too large`,
		`SHUTDOWN_GRACE_SECONDS="99999999999999999999": must be a whole number that is not too large`,
		`LOG_LEVEL="loud": must be debug, info, warn or error`,
		`TEST_PATIENCE="3": must be a duration such as 6h or 90s`,
		`TEST_ENABLED="maybe": must be true or false`,
	} {
		if !strings.Contains(err.Error(), line) {
			t.Errorf("%s\nis not in\n%s", line, err)
		}
	}
	if lines := strings.Count(err.Error(), "\n") + 1; lines != 5 {
		t.Errorf("%d problems, want 5: a value that was not read has no second one\n%s", lines, err)
	}
}

func TestWhatIsSetButEmptyMeansItsDefaultUnlessEmptyIsAChoice(t *testing.T) {
	for _, variable := range []string{"HTTP_ADDR", "SHUTDOWN_GRACE_SECONDS", "LOG_FORMAT", "LOG_LEVEL", "TEST_PATIENCE"} {
		t.Setenv(variable, "")
	}
	cfg, own, health := settings{}, Stack{}, HTTP{}
	if err := LoadAll(&cfg, &own, &health); err != nil {
		t.Fatal(err)
	}
	if cfg.HTTPAddr != "" || own.HTTPAddr != "" || health.HTTPAddr != "" {
		t.Errorf("health is served at %q, %q and %q", cfg.HTTPAddr, own.HTTPAddr, health.HTTPAddr)
	}
	if cfg.ShutdownGraceSeconds != 25 || cfg.LogFormat != "json" || cfg.Inner.Patience != time.Hour {
		t.Errorf("read %+v", cfg)
	}
	t.Setenv("HTTP_ADDR", "127.0.0.1:9")
	if err := Load(&cfg); err != nil || cfg.HTTPAddr != "127.0.0.1:9" {
		t.Errorf("health is served at %q, %v", cfg.HTTPAddr, err)
	}
}

func TestASettingWithAPrefixIsReadAndNamedWhole(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://a/b")
	var cfg Tracing
	if err := Load(&cfg); err != nil || cfg.Sender().Endpoint != "http://a/b" {
		t.Errorf("read %+v, %v", cfg, err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "soon")
	if err := Load(&cfg); err == nil || err.Error() != `OTEL_EXPORTER_OTLP_TRACES_TIMEOUT="soon": must be a whole number that is not too large` {
		t.Errorf("error %v", err)
	}
}

func TestAProblemThatConfigurationsShareIsToldOnce(t *testing.T) {
	t.Setenv("DATABASE_MAX_CONNS", "ten")
	t.Setenv("TEST_ENABLED", "maybe")
	err := LoadAll(&Common{}, &settings{}, &settings{})
	want := "DATABASE_MAX_CONNS=\"ten\": must be a whole number that is not too large\nTEST_ENABLED=\"maybe\": must be true or false"
	if err == nil || err.Error() != want {
		t.Errorf("error %v", err)
	}
	if err := LoadAll(&Lookup{}); err != nil {
		t.Error(err)
	}
}

func TestWhatCanBeReadIsChecked(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://h/d")
	t.Setenv("DATABASE_MAX_CONNS", "1")
	t.Setenv("LOG_LEVEL", "warn")
	cfg, err := Read[settings]()
	if err == nil || err.Error() != "DATABASE_MAX_CONNS=1: must be at least 2" {
		t.Errorf("error %v", err)
	}
	if cfg.LogLevel != slog.LevelWarn || cfg.Inner.Patience != time.Hour {
		t.Errorf("read %+v", cfg)
	}
}

func TestHealthAndMetricsAreServedToThisMachineAloneUnlessToldOtherwise(t *testing.T) {
	if _, set := os.LookupEnv("HTTP_ADDR"); set {
		t.Setenv("HTTP_ADDR", "")
		_ = os.Unsetenv("HTTP_ADDR") // t.Setenv puts it back
	}
	var cfg Common
	var own Stack
	var health HTTP
	if err := LoadAll(&cfg, &own, &health); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{cfg.HTTPAddr, own.HTTPAddr, health.HTTPAddr} {
		host, _, err := net.SplitHostPort(address)
		if ip := net.ParseIP(host); err != nil || !ip.IsLoopback() {
			t.Errorf("served at %q", address)
		}
	}
	if cfg.HTTPAddr != health.HTTPAddr {
		t.Errorf("served at %q, asked for at %q", cfg.HTTPAddr, health.HTTPAddr)
	}
}
