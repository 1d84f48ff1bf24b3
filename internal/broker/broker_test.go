package broker

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

func TestAConsumerTakesWhatItsFiltersLetThrough(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		filters []string
		takes   bool
	}{
		{nil, true},
		{[]string{"connector.sync.file"}, true},
		{[]string{"connector.sync.web"}, false},
		{[]string{"connector.sync.web", "connector.sync.file"}, true},
		{[]string{"connector.sync.*"}, true},
		{[]string{"connector.*.file"}, true},
		{[]string{"connector.>"}, true},
		{[]string{"connector.sync.file.>"}, false},
		{[]string{"connector.sync"}, false},
	} {
		require.Equal(t, c.takes, takes(jetstream.ConsumerConfig{FilterSubjects: c.filters}, "connector.sync.file"), c.filters)
	}
}
