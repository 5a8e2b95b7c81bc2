package host

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"tgi/server/config"
)

// shown returns what is told to operators of a plugin.
func (p *plugged) shown(t *testing.T, plugin string) string {
	t.Helper()
	_, text := p.call(t, http.MethodGet, "/admin/plugins/"+plugin, nil)
	return text
}

// unharmed checks that a plugin was not faulty.
func (p *plugged) unharmed(t *testing.T, plugins ...string) {
	t.Helper()
	for _, name := range plugins {
		if text := p.shown(t, name); !strings.Contains(text,
			`"faults":{"access":0,"fuel":0,"memory":0,"result":0,"time":0,"trap":0}`) || strings.Contains(text, "switched") {
			t.Errorf("%s", text)
		}
	}
}

// TestGrammarsTooLarge: what is too large in a grammar is its author's fault, in each language: the error names field,
// bound and value, and the plugin is not at fault.
func TestGrammarsTooLarge(t *testing.T) {
	p := openChat(t, func(c *config.Config) { c.Plugins.BreakerFaults = 1 })
	long := strings.Repeat("a", 70_000)
	inputs := func(kind, value string) [2]string {
		return [2]string{"/generate", `{"inputs":"Hi","parameters":{"max_new_tokens":4,"grammar":{"type":"` + kind +
			`","value":` + value + `}}}`}
	}
	chat := func(member string) [2]string {
		return [2]string{"/v1/chat/completions", `{"model":"x",` + story + `,"max_tokens":4,` + member + `}`}
	}
	for _, r := range [][2]string{
		inputs("regex", strconv.Quote(long)),
		inputs("choice", `["`+long+`","b"]`),
		inputs("json", `{"const":"`+long+`"}`),
		inputs("json", `{"enum":["`+long+`","`+long+`b"]}`),
		inputs("json", `{"type":"object","properties":{"`+long+`":{"type":"string"}},"required":["`+long+`"]}`),
		chat(`"guided_grammar":"root ::= \"` + long + `\""`),
		chat(`"guided_grammar":"start: \"` + long + `\""`),
		chat(`"guided_choice":["` + long + `"]`),
		chat(`"response_format":{"type":"structural_tag","format":{"type":"const_string","value":"` + long + `"}}`),
	} {
		status, text := p.call(t, http.MethodPost, r[0], []byte(r[1]))
		if status != http.StatusUnprocessableEntity || !strings.Contains(text, "grammar is not valid") ||
			!strings.Contains(text, "grammar limit exceeded: bytes of a literal: at most 65536, got ") {
			t.Errorf("%.120s: %d %.300s", r[1], status, text)
		}
	}
	p.unharmed(t, "grammar")
	if status, text := p.call(t, http.MethodPost, "/generate", []byte(inputs("regex", `"[a-c]{3}"`)[1])); status !=
		http.StatusOK {
		t.Errorf("afterwards: %d %s", status, text)
	}
}

// TestDeadEnds: where a grammar and plugins leave no token together nobody has failed: the request is refused, with the
// names of those that take part, the plugin is not skipped, and its faults are not counted.
func TestDeadEnds(t *testing.T) {
	for _, onError := range []string{config.OnErrorFail, config.OnErrorSkip} {
		p := openChat(t, func(c *config.Config) {
			c.Plugins.BreakerFaults = 1
			c.Plugin = append(c.Plugin, config.Plugin{Name: "words", Source: config.Builtin + "banned-words",
				OnError: onError, Apply: config.ApplyAlways, Config: config.Table{"words": []any{"damn"}}})
			for _, name := range []string{"banned-words", "no-repeat-ngram", "thinking-budget", "vote"} {
				c.Plugin = append(c.Plugin, config.Plugin{Name: name, Source: config.Builtin + name,
					OnError: onError, Apply: config.ApplyRequest})
			}
			c.Plugin[len(c.Plugin)-1].OnError = config.OnErrorFail // a program is not skipped
			house(c)
		})
		const damn = `"grammar":{"type":"regex","value":"damn"}`
		const qs = `"grammar":{"type":"regex","value":"q q q q q q q q"}`
		const once = `{"name":"no-repeat-ngram","params":{"n":1}}`
		for _, c := range []struct{ parameters, want string }{
			{damn, "plugin words forbids every token that is left by the grammar"},
			{qs + `,"plugins":[` + once + `]`, "plugin no-repeat-ngram forbids every token that is left by the grammar"},
			{qs + `,"plugins":[{"name":"vote"},` + once + `]`, "plugin no-repeat-ngram forbids every token that is left by "},
			{`"grammar":{"type":"regex","value":"ab"},"plugins":[{"name":"thinking-budget","params":{"budget":50,"min":50,` +
				`"open":"a","close":"b"}}]`, "plugin thinking-budget forbids every token that is left by the grammar"},
			{`"token_healing":true,"plugins":[{"name":"banned-words","params":{"words":["u","U"]}}]`,
				"plugin banned-words forbids every token that is left by token_healing"},
		} {
			reply := p.raw(t, "/generate", `{"inputs":"Once u","parameters":{"max_new_tokens":20,`+c.parameters+`}}`)
			if !strings.HasPrefix(reply, "422") || !strings.Contains(reply, "no token is left to pick: ") ||
				!strings.Contains(reply, c.want) || strings.Contains(reply, "X-Plugin-Skipped: ") {
				t.Errorf("%s, %s: %s", onError, c.parameters, reply)
			}
		}
		p.quiet(t)
		p.unharmed(t, "words", "no-repeat-ngram", "thinking-budget", "banned-words", "vote")
		if reply := p.raw(t, "/generate", `{"inputs":"Once","parameters":{"max_new_tokens":4}}`); !strings.HasPrefix(reply,
			"200") {
			t.Errorf("afterwards: %s", reply)
		}
	}
}

// TestBlameInPrograms: a plugin that fails in a run of a program is named, and its fault counted, and not the program,
// with guards and without.
func TestBlameInPrograms(t *testing.T) {
	for _, guards := range []bool{false, true} {
		p := programming(t, func(c *config.Config) {
			c.Plugins.BreakerFaults = 100
			if guards {
				house(c)
			}
		})
		p.upload(t, "frail", offences()["trap"].m.wasm())
		reply := p.raw(t, "/generate", `{"inputs":"Once upon a time","parameters":{"max_new_tokens":9,"plugins":[`+
			`{"name":"vote"},{"name":"frail","params":{"harm":1}}]}}`)
		if !strings.HasPrefix(reply, "424") || !strings.Contains(reply, "frail: tgi_logits_process: trap") ||
			strings.Contains(reply, "vote") {
			t.Errorf("guards %v: %s", guards, reply)
		}
		p.quiet(t)
		p.unharmed(t, "vote")
		if text := p.shown(t, "frail"); strings.Contains(text, `"trap":0`) {
			t.Errorf("guards %v: %s", guards, text)
		}
	}
}
