package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tgi/sdk/abi"
	"tgi/sdk/go/examples/internal/vectors"
	"tgi/sdk/go/plugintest"
	"tgi/sdk/go/tools"
)

// TestVectors: the texts that the examples of all languages are tested with,
// whole and character by character.
func TestVectors(t *testing.T) {
	plugintest.New(t)
	for _, c := range vectors.Read(t, "call-lines") {
		p, err := open(c.Config)
		if err != nil {
			if err.Error() != c.Error {
				t.Errorf("%s: %v, want %s", c.About, err, c.Error)
			}
			continue
		}
		for _, size := range []int{1 << 30, 1} {
			if got := events(t, p, c, size); !slices.Equal(got, c.Events) {
				t.Errorf("%s: %q, want %q", c.About, got, c.Events)
			}
		}
	}
}

// events feeds a text in pieces of so many characters.
func events(t *testing.T, p tools.Plugin, c vectors.Case, size int) (all []string) {
	parser, err := p.Begin(tools.Request(c.Request))
	if err != nil {
		t.Fatal(err)
	}
	var out tools.Events
	var last tools.Event
	take := func() {
		for _, e := range out.Take() {
			if n := len(all); n > 0 && e.Text != "" && e.Kind != abi.EventFailed && e.Kind == last.Kind &&
				e.Index == last.Index {
				all[n-1] += e.Text
			} else {
				all = append(all, told(e))
			}
			last = e
		}
	}
	for _, piece := range c.Text {
		if special, ok := piece.([]any); ok {
			parser.Feed(special[0].(string), true, &out)
			take()
			continue
		}
		for part := range slices.Chunk([]rune(piece.(string)), size) {
			parser.Feed(string(part), false, &out)
			take()
		}
	}
	parser.Finish(c.Cut, &out)
	take()
	return all
}

func told(e tools.Event) string {
	index := strings.Replace(fmt.Sprint(e.Index), "-1", "-", 1)
	switch e.Kind {
	case abi.EventContent:
		return "content " + e.Text
	case abi.EventBegin:
		return "begin " + index + " " + e.Name
	case abi.EventArguments:
		return "arguments " + index + " " + e.Text
	case abi.EventEnd:
		return "end " + index
	case abi.EventFailed:
		return fmt.Sprintf("failed %s %d %s", index, e.Reason, e.Text)
	}
	return fmt.Sprintf("kind %d", e.Kind)
}

// TestSplits: every cut of a text gives the same calls, ids included.
func TestSplits(t *testing.T) {
	p, err := open([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	h := plugintest.New(t)
	plugintest.Splits(t, seeded{p, h}, `{"tools":[{"type":"function","function":{"name":"add"}}],"tool_choice":"auto"}`,
		"I add.\nCALL add({\"a\": 1})\nCALL\nDone.")
}

// seeded begins every message with the same random numbers.
type seeded struct {
	tools.Plugin
	host *plugintest.Host
}

// Begin implements tools.Plugin.
func (s seeded) Begin(r tools.Request) (tools.Parser, error) {
	s.host.Seed = 1
	return s.Plugin.Begin(r)
}
