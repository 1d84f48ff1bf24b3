package observability

import (
	"encoding/json"
	"fmt"
)

// object is one JSON object of Grafana's schema.
type object = map[string]any

// Dashboard is one page of panels.
type Dashboard struct {
	// UID is its file's name and its address in Grafana.
	UID, Title, Description string
	// postgres says that it needs a Postgres data source, else Prometheus.
	postgres  bool
	variables []object
	rows      []row
}

// row is a line of panels of equal width under a heading.
type row struct {
	title  string
	panels []panel
}

// Query is the query of a panel: PromQL of a Prometheus panel, SQL of a Postgres one.
type Query struct {
	Text   string
	legend string
}

type panel struct {
	kind, title, description, unit string
	queries                        []Query
	options                        object
	// limits are the values at which the colour turns yellow and red.
	limits []float64
}

const (
	width     = 24 // columns of Grafana's grid
	height    = 8
	short     = 4 // height of a row of single values
	prom      = "prometheus"
	postgresq = "grafana-postgresql-datasource"
)

// Dashboards returns all dashboards.
func Dashboards() []Dashboard { return []Dashboard{healthy(), connector(), servers()} }

// Queries returns the queries of its panels and variables.
func (d Dashboard) Queries() (all []Query) {
	for _, v := range d.variables {
		all = append(all, Query{Text: v["query"].(string)})
	}
	for _, r := range d.rows {
		for _, p := range r.panels {
			all = append(all, p.queries...)
		}
	}
	return all
}

// NeedsPostgres says whether its queries are SQL.
func (d Dashboard) NeedsPostgres() bool { return d.postgres }

// JSON returns the dashboard as Grafana imports it.
func (d Dashboard) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(object{
		"uid": d.UID, "title": d.Title, "description": d.Description, "tags": []string{"echomind"},
		"schemaVersion": 39, "version": 1, "editable": true, "graphTooltip": 1, "refresh": "30s", "timezone": "browser",
		"time":        object{"from": "now-6h", "to": "now"},
		"templating":  object{"list": append([]object{d.source()}, d.variables...)},
		"annotations": object{"list": []object{}},
		"links": []object{{
			"type": "dashboards", "tags": []string{"echomind"}, "asDropdown": false, "includeVars": false, "keepTime": true, "title": "",
		}},
		"panels": d.panels(),
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write dashboard %s: %w", d.UID, err)
	}
	return append(text, '\n'), nil
}

// source lets people choose the data source, so that no data source's uid is written into the dashboard.
func (d Dashboard) source() object {
	return object{"type": "datasource", "name": "source", "label": "Data source", "query": d.plugin(), "current": object{}, "hide": 0}
}

func (d Dashboard) plugin() string {
	if d.postgres {
		return postgresq
	}
	return prom
}

func (d Dashboard) panels() []object {
	all, y := []object{}, 0
	add := func(o object, x, w, h int) {
		o["id"], o["gridPos"] = len(all)+1, object{"x": x, "y": y, "w": w, "h": h}
		all = append(all, o)
	}
	for _, r := range d.rows {
		add(object{"type": "row", "title": r.title, "collapsed": false, "panels": []object{}}, 0, width, 1)
		y++
		w, h := width/len(r.panels), height
		if r.panels[0].kind == "stat" {
			h = short
		}
		for i, p := range r.panels {
			add(d.panel(p), i*w, w, h)
		}
		y += h
	}
	return all
}

func (d Dashboard) panel(p panel) object {
	source := object{"type": d.plugin(), "uid": "${source}"}
	targets := []object{}
	for i, q := range p.queries {
		target := object{"refId": string(rune('A' + i)), "datasource": source}
		switch {
		case d.postgres:
			target["rawSql"], target["rawQuery"], target["editorMode"] = q.Text, true, "code"
			target["format"] = map[bool]string{true: "time_series", false: "table"}[p.kind == "timeseries"]
		default:
			target["expr"], target["legendFormat"] = q.Text, q.legend
		}
		targets = append(targets, target)
	}
	steps := []object{{"color": "green", "value": nil}}
	for i, limit := range p.limits {
		steps = append(steps, object{"color": []string{"yellow", "red"}[min(i+2-len(p.limits), 1)], "value": limit})
	}
	defaults := object{"unit": p.unit, "thresholds": object{"mode": "absolute", "steps": steps}}
	if p.kind == "timeseries" && len(p.limits) > 0 {
		defaults["custom"] = object{"thresholdsStyle": object{"mode": "line"}}
	}
	options := p.options
	if options == nil {
		options = object{}
	}
	return object{
		"type": p.kind, "title": p.title, "description": p.description, "datasource": source, "targets": targets,
		"fieldConfig": object{"defaults": defaults, "overrides": []object{}}, "options": options,
	}
}

// graph shows values over time, number the last value of one query, table what SQL returns.
func graph(title, description, unit string, queries ...Query) panel {
	return panel{kind: "timeseries", title: title, description: description, unit: unit, queries: queries, options: object{
		"legend":  object{"displayMode": "list", "placement": "bottom", "showLegend": true},
		"tooltip": object{"mode": "multi", "sort": "desc"},
	}}
}

func number(title, description, unit, query string) panel {
	return panel{kind: "stat", title: title, description: description, unit: unit, queries: []Query{{Text: query}}, options: object{
		"colorMode": "value", "graphMode": "area", "reduceOptions": object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
	}}
}

func table(title, description, query string) panel {
	return panel{kind: "table", title: title, description: description, queries: []Query{{Text: query}}, options: object{"showHeader": true}}
}

func ask(text, legend string) Query { return Query{Text: text, legend: legend} }

// limit draws two lines: in yellow where an alert is near, in red where it fires.
func (p panel) limit(at ...float64) panel {
	p.limits = at
	return p
}
