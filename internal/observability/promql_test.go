package observability_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/internal/observability"
)

func TestAnExpressionsMetricsAndLabelsAreFound(t *testing.T) {
	named := observability.Names(`histogram_quantile(0.95, sum by (type, le) (rate(a_bucket{x="{y}", z!~"by (q)"}[5m])))
		/ max(max_over_time(b[1h] offset 1h)) > 0.5 and on (job) (c unless 15 * 60 < d{x=""})`)
	require.Equal(t, map[string][]string{"a_bucket": {"x", "z"}, "b": nil, "c": nil, "d": {"x"}}, named.Metrics)
	require.Equal(t, []string{"type", "le", "job"}, named.Grouped)
}
