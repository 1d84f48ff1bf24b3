package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/echomind/sync/contract/topology"
)

const repository = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repository, name))
	require.NoError(t, err)
	return string(data)
}

func documents(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(repository, "docs", "*.md"))
	require.NoError(t, err)
	names := []string{"README.md"}
	for _, name := range found {
		names = append(names, "docs/"+filepath.Base(name))
	}
	return names
}

func TestEveryCommandThatTheDocumentsShowExistsWithItsFlags(t *testing.T) {
	shown := regexp.MustCompile("(?m)(?:bin/|`|^ {4}|--rm (?:-T )?)echomind ([a-z][^`#\n]*)")
	seen := 0
	for _, name := range documents(t) {
		for _, match := range shown.FindAllStringSubmatch(read(t, name), -1) {
			words := strings.Fields(match[1])
			command, _, err := root().Find(words)
			require.NoError(t, err, "%s: echomind %s", name, match[1])
			require.True(t, command.HasParent(), "%s: echomind %s is no command", name, match[1])
			for _, word := range words {
				if flag, isFlag := strings.CutPrefix(word, "--"); isFlag {
					require.NotNil(t, command.Flags().Lookup(flag), "%s: echomind %s", name, match[1])
				}
			}
			seen++
		}
	}
	require.Greater(t, seen, 5)
}

func TestEveryMakeTargetThatTheDocumentsShowExists(t *testing.T) {
	shown := regexp.MustCompile("(?m)(?:^ {4}|`)make ([a-z-]+)")
	makefile := read(t, "Makefile")
	for _, name := range documents(t) {
		for _, match := range shown.FindAllStringSubmatch(read(t, name), -1) {
			require.Contains(t, makefile, "\n"+match[1]+":", "%s: make %s", name, match[1])
		}
	}
}

func TestEveryServiceAndVariableOfTheOperationsManualExists(t *testing.T) {
	manual, compose := read(t, "docs/operations.md"), read(t, "docker-compose.yml")
	seen := 0
	for _, match := range regexp.MustCompile(`(?m)docker compose (?:exec(?: -T)?|run --rm(?: -T)?|stop|start|up -d --wait) ([a-z]+)`).FindAllStringSubmatch(manual, -1) {
		require.True(t, strings.Contains(compose, "\n  "+match[1]+":\n"), match[0])
		seen++
	}
	require.Greater(t, seen, 8)
	known := read(t, "docs/configuration.md") + compose + read(t, "deploy/compose/env.sh") + topology.SyncStream + topology.DocumentStream +
		read(t, "cmd/echomind/internal/stack/sizing_test.go") + read(t, "helm/echomind/README.md")
	for _, variable := range regexp.MustCompile("`([A-Z]+_[A-Z_]+)[=`]").FindAllStringSubmatch(manual, -1) {
		require.True(t, strings.Contains(known, variable[1]), "nothing reads %s", variable[1])
	}
}

func TestEveryPathThatTheDocumentsNameExists(t *testing.T) {
	named := regexp.MustCompile("`((?:proto|db|services|sdk|cmd|internal|docs|examples|tools|helm|deploy)/[A-Za-z0-9_./-]*)`")
	linked := regexp.MustCompile(`\]\(([A-Za-z0-9_./-]+)\)`)
	seen := 0
	for _, name := range documents(t) {
		text := read(t, name)
		for _, match := range named.FindAllStringSubmatch(text, -1) {
			require.FileExists(t, existing(filepath.Join(repository, match[1])), "%s names %s", name, match[1])
			seen++
		}
		for _, match := range linked.FindAllStringSubmatch(text, -1) {
			require.FileExists(t, existing(filepath.Join(repository, filepath.Dir(name), match[1])), "%s links %s", name, match[1])
			seen++
		}
	}
	require.Greater(t, seen, 10)
}

// existing turns a folder into a file in it, so that one assertion serves both.
func existing(path string) string {
	entries, err := os.ReadDir(path)
	if err != nil || len(entries) == 0 {
		return path
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			return filepath.Join(path, entry.Name())
		}
	}
	return existing(filepath.Join(path, entries[0].Name()))
}

func TestTheContractNamesEveryHeaderOfADeadLetter(t *testing.T) {
	names := regexp.MustCompile(`Echomind-[A-Za-z-]+`)
	declared := names.FindAllString(read(t, "contract/topology/topology.go"), -1)
	require.Greater(t, len(declared), 5)
	contract := read(t, "docs/contract.md")
	for _, header := range declared {
		if header != topology.HeaderDispatchedAt { // a trigger's
			require.Contains(t, contract, "`"+header+"`")
		}
	}
	for _, header := range names.FindAllString(contract, -1) {
		require.Contains(t, declared, header)
	}
}

func TestTheReadmeIsShort(t *testing.T) {
	require.LessOrEqual(t, strings.Count(read(t, "README.md"), "\n"), 150)
}
