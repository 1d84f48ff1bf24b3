package fault

import (
	"context"
	"slices"
	"time"

	"github.com/echomind/sync/testonly/faultproxy"
)

// services are whose connections are disturbed. The API asks NATS little, and for nothing that it changes.
var services = []string{"scheduler", "synthetic", "chunker", "semantic"}

func network() []Fault {
	var all []Fault
	for _, server := range []struct {
		name  string
		loses Loss // a worker that is cut off from Postgres for a lease is lost
		ways  func(*Field) []*faultproxy.Proxy
	}{
		{"Postgres", Loss{Workers: true}, func(f *Field) []*faultproxy.Proxy {
			return []*faultproxy.Proxy{f.one(append([]string{"api"}, services...)...).Postgres}
		}},
		{"NATS", Loss{}, func(f *Field) []*faultproxy.Proxy { return f.one(services...).NATS }},
	} {
		disturb := func(name string, lasts time.Duration, how func(*Field, *faultproxy.Proxy)) {
			all = append(all, Fault{Name: name + " " + server.name, Loses: server.loses, Long: lasts >= freeze, Inject: func(ctx context.Context, f *Field) error {
				proxies := slices.Concat(server.ways(f), server.ways(f), server.ways(f))
				for _, p := range proxies {
					how(f, p)
				}
				sleep(ctx, max(lasts, f.short()))
				for _, p := range proxies {
					p.Heal()
				}
				return nil
			}})
		}
		disturb("a slow way to", 8*time.Second, func(f *Field, p *faultproxy.Proxy) {
			p.Delay(time.Duration(20+f.Rand.IntN(200)) * time.Millisecond)
		})
		disturb("connections reset to", 0, func(_ *Field, p *faultproxy.Proxy) { p.Cut() })
		disturb("resets mid-message to", 0, func(f *Field, p *faultproxy.Proxy) { p.CutAfter(1 + f.Rand.IntN(20_000)) })
		disturb("no way to", 8*time.Second, func(_ *Field, p *faultproxy.Proxy) { p.Refuse(true); p.Cut() })
		disturb("a black hole both ways to", freeze, func(_ *Field, p *faultproxy.Proxy) {
			p.Silence(faultproxy.ToServer, faultproxy.ToClient)
		})
		disturb("a black hole on the way to", freeze, func(_ *Field, p *faultproxy.Proxy) { p.Silence(faultproxy.ToServer) })
		disturb("a black hole on the way back from", freeze, func(_ *Field, p *faultproxy.Proxy) { p.Silence(faultproxy.ToClient) })
	}
	return all
}
