package console

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// maxMinutes is what the schema allows: ten years.
const maxMinutes = 5256000

// interval is the value of --refresh: minutes, 0 = once, or never by itself.
type interval struct {
	minutes int32
	manual  bool
}

var (
	intervalForm = regexp.MustCompile(`^(?:\d+[mhd])+$`)
	intervalPart = regexp.MustCompile(`(\d+)([mhd])`)
	unitMinutes  = map[string]int64{"m": 1, "h": 60, "d": 24 * 60}
	errInterval  = errors.New("write 60m, 24h or 7d; 0 = once; manual = never by itself")
)

// Set is part of pflag.Value.
func (v *interval) Set(text string) error {
	*v = interval{}
	switch {
	case text == "0":
		return nil
	case text == "manual":
		v.manual = true
		return nil
	case strings.HasPrefix(text, "-"):
		return fmt.Errorf("must not be negative: %w", errInterval)
	case !intervalForm.MatchString(text):
		return errInterval
	}
	var minutes int64
	for _, part := range intervalPart.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseInt(part[1], 10, 64)
		if err != nil || n > maxMinutes {
			return fmt.Errorf("must be at most %dd", maxMinutes/unitMinutes["d"])
		}
		minutes += n * unitMinutes[part[2]]
	}
	if minutes > maxMinutes {
		return fmt.Errorf("must be at most %dd", maxMinutes/unitMinutes["d"])
	}
	v.minutes = int32(minutes)
	return nil
}

func (v *interval) String() string { return "" }

// Type is part of pflag.Value.
func (v *interval) Type() string { return "60m|24h|7d|0|manual" }

// column is what refresh_freq_minutes holds.
func (v *interval) column() *int32 {
	if v.manual {
		return nil
	}
	return &v.minutes
}

// every says an interval the way it is written.
func every(minutes int32) string {
	switch {
	case minutes == 0:
		return "once"
	case minutes%(24*60) == 0:
		return fmt.Sprintf("%dd", minutes/(24*60))
	case minutes%60 == 0:
		return fmt.Sprintf("%dh", minutes/60)
	}
	return fmt.Sprintf("%dm", minutes)
}
