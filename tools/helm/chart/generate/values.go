package main

import (
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value is one key of a values file.
type value struct {
	path    string // with dots
	meaning string // of the comment above it that begins with two dashes
	node    *yaml.Node
	keys    []*value // of a map that is not empty
}

// readValues reads a values file with its comments.
func readValues(file string) (*value, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	root := &value{node: document.Content[0]}
	root.read()
	return root, nil
}

func (v *value) read() {
	if v.node.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i < len(v.node.Content); i += 2 {
		key, node := v.node.Content[i], v.node.Content[i+1]
		child := &value{path: strings.TrimPrefix(v.path+"."+key.Value, "."), node: node, meaning: meaningOf(key.HeadComment)}
		child.read()
		v.keys = append(v.keys, child)
	}
}

func meaningOf(comment string) string {
	_, meaning, found := strings.Cut(comment, "# -- ")
	if !found {
		return ""
	}
	return strings.Join(strings.Fields(strings.ReplaceAll(meaning, "\n#", "\n")), " ")
}

func (v *value) name() string { return v.path[strings.LastIndex(v.path, ".")+1:] }

// described are the values that have a line in the README: those with a meaning.
func (v *value) described() (all []*value) {
	if v.meaning != "" {
		return []*value{v}
	}
	for _, k := range v.keys {
		all = append(all, k.described()...)
	}
	return all
}

// flow is the value on one line, as YAML and JSON spell it.
func (v *value) flow() string {
	var plain func(*yaml.Node) string
	plain = func(n *yaml.Node) string {
		var parts []string
		switch n.Kind {
		case yaml.MappingNode:
			for i := 0; i < len(n.Content); i += 2 {
				parts = append(parts, plain(n.Content[i])+": "+plain(n.Content[i+1]))
			}
			return "{" + strings.Join(parts, ", ") + "}"
		case yaml.SequenceNode:
			for _, item := range n.Content {
				parts = append(parts, plain(item))
			}
			return "[" + strings.Join(parts, ", ") + "]"
		}
		if n.Value == "" && n.Tag == "!!str" {
			return `""`
		}
		return n.Value
	}
	return plain(v.node)
}
