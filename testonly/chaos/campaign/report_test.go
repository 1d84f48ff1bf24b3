package campaign_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/testonly/chaos/audit"
	"github.com/echomind/sync/testonly/chaos/campaign"
	"github.com/echomind/sync/testonly/chaos/fault"
)

func TestWhatMakesACampaignFail(t *testing.T) {
	kept := audit.Finding{Promise: 1, Name: "one", Checked: 3}
	for name, c := range map[string]struct {
		report campaign.Report
		ok     bool
	}{
		"all kept":                    {campaign.Report{Whole: true, Findings: []audit.Finding{kept}}, true},
		"no findings":                 {campaign.Report{Whole: true}, false},
		"a violation":                 {campaign.Report{Findings: []audit.Finding{kept, {Checked: 1, Violations: []string{"no"}}}}, false},
		"a check that saw nothing":    {campaign.Report{Whole: true, Findings: []audit.Finding{kept, {Promise: 2}}}, false},
		"the same of some faults":     {campaign.Report{Findings: []audit.Finding{kept, {Promise: 2}}}, true},
		"an end nobody asked for":     {campaign.Report{Findings: []audit.Finding{kept}, Ends: []string{"scheduler-1 ended"}}, false},
		"a fault that failed":         {campaign.Report{Findings: []audit.Finding{kept}, Injected: []fault.Injected{{Err: errors.New("no")}}}, false},
		"a point that nobody came by": {campaign.Report{Findings: []audit.Finding{kept}, Injected: []fault.Injected{{Err: fmt.Errorf("%w x", fault.ErrNobody)}}}, true},
	} {
		require.Equal(t, c.ok, c.report.Write(&bytes.Buffer{}), name)
	}
}
