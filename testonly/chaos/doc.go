// Package chaos is the fault harness: it runs the real programs against a real Postgres and a real nats-server, each
// behind a fault proxy, and a stand-in for Qdrant, breaks things from a seeded schedule, waits for quiet, and audits the
// promises.
//
//	cmd/chaos       the harness: make chaos
//	cmd/mutants     defects put back, which the audit must see: make chaos-mutants
//	cmd/skewclock   builds programs whose clock is wrong
//	cmd/synthetic   the worker of a source whose content is known
//	synthetic       that worker, built with the kit
//	source          that content, as a function of the connector's configuration and version
//	campaign        one run of it all
//	world           servers, programs, proxies, connectors
//	rest            what people do over REST, and what they write down of it
//	fault           what is broken, and how it is mended
//	mutants         those defects
//	audit           what must hold afterwards, over the whole history
//	crowd           what very many connectors in flight cost: make chaos-crowd
//	tenant          what others notice of a hostile owner of connectors: make chaos-tenant
//	alerts          the alert rules under faults: make test-alerts
//	recovery        how long it takes to be back, with default settings
package chaos
