package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// schema is a piece of a JSON schema.
type schema map[string]any

func text(pattern string) schema { return schema{"type": "string", "pattern": pattern} }
func whole(least, most int) schema {
	return schema{"type": "integer", "minimum": least, "maximum": most}
}
func oneOf(words ...any) schema { return schema{"enum": words} }
func listOf(items schema) schema {
	return schema{"type": "array", "items": items}
}

var (
	object = schema{"type": "object"}
	texts  = schema{"type": "object", "additionalProperties": schema{"type": "string"}}
	peers  = listOf(schema{"type": "object", "additionalProperties": false, "minProperties": 1, "properties": schema{
		"ipBlock": object, "namespaceSelector": object, "podSelector": object,
	}})
	cidrs    = listOf(text(`^[0-9a-f.:]+/[0-9]+$`))
	natsFile = schema{"type": "object", "additionalProperties": false, "properties": schema{
		"secret": schema{"type": "string"}, "configMap": schema{"type": "string"}, "key": schema{"type": "string"},
	}}
	probe = schema{"type": "object", "additionalProperties": false, "properties": schema{
		"initialDelaySeconds": whole(0, 3600), "periodSeconds": whole(1, 3600), "timeoutSeconds": whole(1, 3600),
		"failureThreshold": whole(1, 1000), "successThreshold": whole(1, 1000),
	}}
	parent = schema{"type": "object", "additionalProperties": false, "required": []string{"name"}, "properties": schema{
		"group": schema{"type": "string"}, "kind": schema{"type": "string"}, "namespace": schema{"type": "string"},
		"name": text("."), "sectionName": schema{"type": "string"}, "port": whole(1, 65535),
	}}
	digest  = text("^sha256:[0-9a-f]{64}$")
	seconds = text(`^[0-9]+(ms|s|m|h)$`)
	amount  = schema{"type": []string{"integer", "string"}, "pattern": "^[0-9]+%$", "minimum": 0}
)

// exact says more of a value than its default does, by the end of its path.
var exact = map[string]schema{
	"antiAffinity": oneOf("", "preferred", "required"), "autoscaling.by": oneOf("none", "cpu", "age"),
	"image.pullPolicy": oneOf("Always", "IfNotPresent", "Never"), "storeKind": oneOf("SecretStore", "ClusterSecretStore"),
	"digests": {"type": "object", "additionalProperties": false, "properties": schema{
		"scheduler": digest, "connector": digest, "chunker": digest, "semantic": digest, "api": digest, "cli": digest}},
	"api.autoscaling.by": oneOf("none", "cpu"), "hosts": listOf(text(`^(\*\.)?([a-z0-9]([-a-z0-9]*[a-z0-9])?\.)*[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)),
	"path": text(`^/[A-Za-z0-9._~/-]*$`), "parentRefs": listOf(parent), "apiFrom": peers, "api.port": whole(1024, 65535),
	"replicas": whole(0, 1000), "minReplicas": whole(1, 1000), "maxReplicas": whole(1, 1000), "cpuPercent": whole(1, 1000),
	"targetSeconds": whole(1, 86400), "httpPort": whole(1024, 65535), "port": whole(1, 65535),
	"apiServer.ports": listOf(whole(1, 65535)), "ports.chunker": listOf(whole(1, 65535)), "ports.connector": listOf(whole(1, 65535)), "ports.api": listOf(whole(1, 65535)),
	"preStopSeconds": whole(0, 300), "terminationGracePeriodSeconds": {"type": []string{"integer", "null"}, "minimum": 1},
	"activeDeadlineSeconds": whole(1, 86400), "backoffLimit": whole(0, 100),
	"pdb.maxUnavailable": amount, "pdb.minAvailable": {"type": []string{"integer", "string", "null"}, "pattern": "^[0-9]+%$", "minimum": 0},
	"natsFiles.creds": natsFile, "natsFiles.nkey": natsFile, "natsFiles.ca": natsFile, "natsFiles.cert": natsFile, "natsFiles.key": natsFile,
	"podSecurityContext": object, "affinity": object, "strategy": object, "hostAliases": listOf(object),
	"initContainers": listOf(object), "extraContainers": listOf(object),
	"livenessProbe": probe, "readinessProbe": probe, "startupProbe": probe,
	"podLabels": texts, "podAnnotations": texts, "nodeSelector": texts, "labels": texts, "annotations": texts,
	"tolerations": listOf(object), "extraEnv": listOf(object), "extraVolumes": listOf(object), "extraVolumeMounts": listOf(object),
	"extraEgress": listOf(object), "to": peers, "metricsFrom": peers,
	"clusterIPv4": cidrs, "clusterIPv6": cidrs, "exceptIPv4": cidrs, "exceptIPv6": cidrs,
	"resources": {"type": "object", "additionalProperties": false, "properties": schema{"requests": object, "limits": object, "claims": schema{"type": "array"}}},
	"interval":  seconds, "scrapeTimeout": seconds, "refreshInterval": seconds,
	"streamsSchedule": text(`^$|^@[a-z]+$|^(\S+ ){4}\S+$`),
}

// components are the parts of the values that take over `common`.
var components = []string{"scheduler", "connector", "chunker", "semantic", "api", "setup"}

// of is the schema of a value: what its default is, unless exact says more, by the longest end that fits; of a map no other keys than
// its own.
func of(v *value) schema {
	found := schema{}
	for _, end := range slices.SortedFunc(maps.Keys(exact), func(a, b string) int { return cmp.Compare(len(b), len(a)) }) {
		if v.path == end || strings.HasSuffix(v.path, "."+end) {
			maps.Copy(found, exact[end])
			break
		}
	}
	if len(found) == 0 {
		found = plain(v)
	}
	if v.meaning != "" {
		found["description"] = v.meaning
	}
	return found
}

func plain(v *value) schema {
	switch {
	case len(v.keys) > 0:
		properties := schema{}
		for _, k := range v.keys {
			properties[k.name()] = of(k)
		}
		return schema{"type": "object", "additionalProperties": false, "properties": properties}
	case v.node.Kind == yaml.MappingNode:
		return schema{"type": "object"}
	case v.node.Kind == yaml.SequenceNode:
		return listOf(schema{"type": "string"})
	}
	switch v.node.Tag {
	case "!!bool":
		return schema{"type": "boolean"}
	case "!!int":
		return schema{"type": "integer", "minimum": 0}
	case "!!str":
		return schema{"type": "string"}
	}
	return schema{}
}

// whole schema of the values, with those of the charts in charts/.
func valuesSchema(values *value, subcharts map[string]*value, meanings map[string]string) schema {
	root := of(values)
	all := root["properties"].(schema)
	common := all["common"].(schema)["properties"].(schema)
	for _, name := range append([]string{"common"}, components...) {
		own := all[name].(schema)["properties"].(schema)
		for key, s := range common {
			if _, has := own[key]; !has {
				own[key] = s
			}
		}
		own["env"], own["secretEnv"] = environment(name, false, meanings), environment(name, true, meanings)
	}
	for name, sub := range subcharts {
		own := all[name].(schema)["properties"].(schema)
		for key, s := range of(sub)["properties"].(schema) {
			own[key] = s
		}
		own["global"] = object
	}
	all["global"] = object
	root["$schema"], root["title"] = "http://json-schema.org/draft-07/schema#", "Values of the chart echomind"
	return root
}
