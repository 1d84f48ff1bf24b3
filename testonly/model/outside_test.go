package model

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/echomind/sync/contract/topology"
)

// names are the documents that a source may have.
var names = []string{"d1", "d2", "d3", "d4"}

func (w *world) sourceActions() []action {
	// filled are the sources that have something.
	filled := func() []*source {
		var all []*source
		for _, c := range w.living() {
			if len(c.source().documents) > 0 {
				all = append(all, c.source())
			}
		}
		return all
	}
	anyFilled := func() bool { return len(filled()) > 0 }
	return []action{
		{5, "source writes", w.anyConnector, func(t *rapid.T) {
			w.oneConnector(t).source().write(oneOf(t, "document", names), between(t, "parts", 1, 3))
		}},
		{2, "source removes", anyFilled, func(t *rapid.T) {
			s := oneOf(t, "source", filled())
			s.remove(oneOf(t, "document", s.names()))
		}},
		{2, "source restamps", anyFilled, func(t *rapid.T) {
			s := oneOf(t, "source", filled())
			s.restamp(oneOf(t, "document", s.names()))
		}},
		{1, "source hides or shows", anyFilled, func(t *rapid.T) {
			s := oneOf(t, "source", filled())
			name := oneOf(t, "document", s.names())
			s.setUnreadable(name, !s.documents[name].unreadable)
		}},
	}
}

func (w *world) userActions() []action {
	return []action{
		{2, "user adds", func() bool { return len(w.living()) < 5 }, w.addOne},
		{3, "user triggers", w.anyConnector, func(t *rapid.T) { w.trigger(w.oneConnector(t)) }},
		{2, "user changes a connector", w.anyConnector, w.changeOne},
		{1, "user disables", w.anyConnector, func(t *rapid.T) { w.disable(w.oneConnector(t)) }},
		{1, "user cancels", w.anyConnector, func(t *rapid.T) { w.cancel(w.oneConnector(t)) }},
		{4, "user enables", w.anyDisabled, func(t *rapid.T) { w.enable(oneOf(t, "connector", w.disabled())) }},
		{1, "user deletes", func() bool { return len(w.living()) > 3 }, func(t *rapid.T) { w.remove(w.oneConnector(t)) }},
		{6, "time comes", w.anyConnector, func(t *rapid.T) { w.comeDue(w.oneConnector(t)) }},
		{8, "lease runs out", w.anyLeased, func(t *rapid.T) { w.runOutLease(oneOf(t, "connector", w.leased())) }},
	}
}

func (w *world) addOne(t *rapid.T) {
	c := w.add(oneOf(t, "type", types), refreshOf(t), between(t, "max retries", 1, 5))
	for i, name := range names[:upTo(t, "documents", len(names)+1)] {
		c.source().write(name, 1+i%3)
	}
}

func (w *world) changeOne(t *rapid.T) {
	c := w.oneConnector(t)
	switch upTo(t, "change", 5) {
	case 0, 1:
		w.setFolder(c, oneOf(t, "folder", []string{"a", "b", "c"}))
		if len(c.source().documents) == 0 {
			c.source().write("d1", 2)
			c.source().write("d2", 1)
		}
	case 2:
		w.setOwner(c, between(t, "user", 1, 2))
	case 3:
		w.setScope(c, oneOf(t, "scope", []string{"user", "group", "org"}))
	case 4:
		w.setRefresh(c, refreshOf(t))
	}
}

// such are the connectors whose rows, as last seen, answer a question.
func (w *world) such(is func(connectorRow) bool) []*connector {
	return slices.DeleteFunc(w.living(), func(c *connector) bool { return !is(w.past.connector(c.id)) })
}

func (w *world) disabled() []*connector {
	return w.such(func(c connectorRow) bool { return c.Status == "DISABLED" })
}

func (w *world) leased() []*connector {
	return w.such(func(c connectorRow) bool { return c.Worker != nil || c.isUnleased() })
}

func (w *world) anyDisabled() bool { return len(w.disabled()) > 0 }

func (w *world) anyLeased() bool { return len(w.leased()) > 0 }

func (w *world) brokerActions() []action {
	streams := []string{topology.SyncStream, topology.DocumentStream}
	return []action{
		{3, "broker loses a message", nil, func(t *rapid.T) {
			w.lose(oneOf(t, "stream", streams), upTo(t, "place", 16))
		}},
		{2, "a document is garbled", nil, func(t *rapid.T) { w.garble(upTo(t, "place", 16)) }},
		{1, "broker loses a stream or a consumer", nil, func(t *rapid.T) {
			stream := oneOf(t, "stream", streams)
			switch upTo(t, "how", 4) {
			case 0:
				w.purge(stream)
			case 1:
				w.wipe(stream)
			case 2:
				w.forgetConsumer(topology.DocumentStream, topology.SemanticConsumer)
			case 3:
				w.forgetConsumer(topology.SyncStream, "sync_"+oneOf(t, "type", types))
			}
		}},
		{4, "broker says it again", func() bool { return len(w.said) > 0 }, func(t *rapid.T) {
			w.sayAgain(upTo(t, "message", len(w.said)))
		}},
		{1, "somebody says nonsense", nil, func(t *rapid.T) {
			w.sayNonsense(oneOf(t, "subject", []string{topology.DocumentSubject, "connector.sync." + listing}))
		}},
	}
}
