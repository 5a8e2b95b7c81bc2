package host

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// asked is a request to a route.
type asked struct{ name, route, body string }

// everyPlugin lists requests with each of the plugins, greedy and drawn. The prompts repeat themselves, so that there
// is something to guess.
func everyPlugin(list []treePlugin, seeds int) (out []asked) {
	for _, x := range append([]treePlugin{{}}, list...) {
		if x.use.always != "" {
			continue
		}
		for seed := range seeds {
			name, drawn := fmt.Sprintf("%s, seed %d", x.name, seed), fmt.Sprintf(`,"seed":%d`, seed+1)
			if seed > 0 || x.use.program {
				drawn += `,"temperature":0.7`
			}
			if x.use.chat != "" {
				out = append(out, asked{name, "/v1/chat/completions",
					`{"model":"x","max_tokens":40,` + x.use.chat + drawn +
						`,"plugins":[` + x.call() + x.use.beside + `]}`})
				continue
			}
			if seed > 1 && !x.use.program && x.use.grammar == "" {
				drawn += `,"top_p":0.95,"repetition_penalty":1.05`
			}
			member := ""
			if x.name != "" {
				member = "," + x.member()
			}
			out = append(out, asked{name, "/generate", fmt.Sprintf(
				`{"inputs":%q,"parameters":{"details":true,"max_new_tokens":24,"top_n_tokens":2,"stop":["zebra"]%s%s}}`,
				redHat, drawn, member)})
		}
	}
	return out
}

// member is what asks for the plugin in a request.
func (x *treePlugin) member() string {
	if x.use.grammar != "" {
		return fmt.Sprintf(`"grammar":{"type":"grammar","plugin":%q,%s}`, x.name, x.use.grammar)
	}
	return `"plugins":[` + x.call() + `]`
}

// call is the entry of `plugins` that names it.
func (x *treePlugin) call() string {
	if x.use.params == "" {
		return fmt.Sprintf(`{"name":%q}`, x.name)
	}
	return fmt.Sprintf(`{"name":%q,"params":%s}`, x.name, x.use.params)
}

// grammarForms are grammars in each language of the built-in plugin.
var grammarForms = map[string]string{
	"json": `{"type":"json","value":{"type":"object","properties":{"animal":{"enum":["red fox","red hen"]},` +
		`"found":{"const":"a red hat"},"place":{"enum":["garden","forest"]}},` +
		`"required":["animal","found","place"],"additionalProperties":false}}`,
	"regex":  `{"type":"regex","value":"Mia found (a red hat|a blue hat)\\. The end\\."}`,
	"open":   `{"type":"regex","value":"[a-z ]{5,40}\\."}`,
	"choice": `{"type":"choice","value":["Mia found a red hat","Mia found a blue hat"]}`,
	"gbnf":   `{"type":"grammar","language":"gbnf","value":"root ::= (\"Mia \" (\"found\" | \"lost\") \" a red hat. \")+"}`,
	"lark":   `{"type":"grammar","language":"lark","value":"start: (\"a red hat\" | \"a blue hat\") \" in the \" /[a-z ]+/"}`,
	"tags": `{"type":"structural_tag","value":{"type":"structural_tag","format":{"type":"triggered_tags",` +
		`"triggers":["Mia"],"tags":[{"begin":"Mia","end":"hat","content":{"type":"regex",` +
		`"pattern":" found a (red|blue) "}}]}}}`,
}

// everyKind lists requests with the plugins of openGuessing, languages of grammars and conversations.
func everyKind(seeds int) []asked {
	var list []treePlugin
	for _, name := range []string{"no-repeat-ngram", "dry", "xtc", "mirostat", "banned-words", "watermark",
		"thinking-budget", "redact", "loop-breaker", "banned-strings"} {
		list = append(list, treePlugin{name: name, use: pluginUses[name]})
	}
	for _, x := range keptExamples {
		for _, name := range x.names {
			list = append(list, treePlugin{name: x.language + "-" + name, use: pluginUses[name]})
		}
	}
	return slices.Concat(everyPlugin(list, seeds), everyGrammar(seeds), everyChat())
}

// everyGrammar lists requests with a grammar in each language of the built-in plugin, alone and beside another one.
func everyGrammar(seeds int) (list []asked) {
	for name, g := range grammarForms {
		for seed := range seeds {
			for _, more := range []string{"", `,"plugins":[{"name":"dry","params":{"multiplier":1}}]`} {
				list = append(list, held(fmt.Sprintf("grammar %s, seed %d %s", name, seed, more), g, more, seed))
			}
		}
	}
	return list
}

// held asks for a text under a grammar.
func held(name, grammar, more string, seed int) asked {
	drawn := fmt.Sprintf(`,"seed":%d`, seed+1)
	if seed > 0 {
		drawn += `,"temperature":1.2`
	}
	return asked{name, "/generate", fmt.Sprintf(
		`{"inputs":%q,"parameters":{"details":true,"max_new_tokens":60,"grammar":%s%s%s}}`, redHat, grammar, drawn,
		more)}
}

// everySchema lists requests for JSON by the schemas of the files in conformance/grammar/schemas: those of the official
// test suite, and with realistic the others too.
func everySchema(t testing.TB, seeds int, realistic bool) (list []asked) {
	t.Helper()
	for _, path := range inTree(t, "conformance/grammar/schemas/*.json") {
		if !realistic && !strings.HasSuffix(path, "suite.json") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var all []struct {
			Name   string
			Schema json.RawMessage
		}
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if slices.Contains(notEnforced, s.Name) {
				continue
			}
			for seed := range seeds {
				list = append(list, held(fmt.Sprintf("schema %s, seed %d", s.Name, seed),
					`{"type":"json","value":`+string(s.Schema)+`}`, "", seed))
			}
		}
	}
	return list
}

// everyChat lists conversations with settings that others do not have.
func everyChat() (list []asked) {
	for _, more := range []string{
		`,"n":3,"seed":4,"logprobs":true,"top_logprobs":2`, `,"temperature":0,"frequency_penalty":0.5`,
		`,"seed":3,"stop":["fox"]`,
	} {
		list = append(list, asked{"chat" + more, "/v1/chat/completions",
			`{"model":"x","max_tokens":40,` + story + more + `}`})
	}
	return list
}

// everyCall lists a conversation in which the model calls a tool.
func everyCall() []asked {
	return []asked{{"a call", "/v1/chat/completions", `{"model":"x","max_tokens":60,"temperature":0,` + weather + `}`}}
}

// grammarRoutes have a place for a grammar of any plugin.
var grammarRoutes = []string{"/generate", "/generate_stream", "/v1/completions", "/v1/chat/completions"}

// everyRoute lists requests with each of the plugins on routes that give texts, whole and streamed: on all that have a
// place for it, or else on one whole and one streamed, which are others for each plugin. shown counts the requests to a
// route, streams apart.
func everyRoute(list []treePlugin, all bool) (out []asked, shown map[string]int) {
	shown = map[string]int{}
	for i, x := range list {
		if x.use.always != "" {
			continue
		}
		var fit [2][]asked // whole, streamed
		for _, r := range guardedRoutes() {
			route, body := r[0], r[1]
			switch {
			case x.use.grammar != "":
				if !slices.Contains(grammarRoutes, route) {
					continue
				}
				body = strings.Replace(body, `"plugins":%s`, x.member(), 1)
			case x.use.chat != "" && (strings.Contains(body, `"prompt"`) || strings.Contains(body, `"inputs"`)):
				continue // no conversation
			case x.use.draws && (route == "/v1/responses" || route == "/v1/messages"):
				continue // which have no place for a seed
			default:
				body = fmt.Sprintf(body, "["+x.call()+"]")
			}
			if !strings.Contains(body, `"seed"`) {
				body = strings.NewReplacer(`"max_new_tokens":`, `"seed":6,"max_new_tokens":`, `"num_predict":`,
					`"seed":6,"num_predict":`).Replace(body)
			}
			name, streams := route, 0
			if strings.Contains(body, `"stream":true`) || route == "/generate_stream" {
				name, streams = route+", streamed", 1
			}
			fit[streams] = append(fit[streams], asked{x.name + ", " + name, route, body})
		}
		for _, f := range fit {
			if !all {
				f = f[i%len(f) : i%len(f)+1]
			}
			for _, a := range f {
				_, name, _ := strings.Cut(a.name, ", ")
				shown[name]++
			}
			out = append(out, f...)
		}
	}
	return out, shown
}

// notEnforced are schemas of those that the built-in plugin refuses.
var notEnforced = []string{"uniqueItems: uniqueItems validation"}

// same asks two servers the same, and returns the reply of the first, and an error if the other replies otherwise, or
// the first does not take the request.
func same(t testing.TB, plain, guesses *plugged, a asked) (want string, err error) {
	t.Helper()
	status, want := plain.call(t, http.MethodPost, a.route, []byte(a.body))
	if status != http.StatusOK {
		return want, fmt.Errorf("%s: %d %s\n%s", a.name, status, want, a.body)
	}
	if _, got := guesses.call(t, http.MethodPost, a.route, []byte(a.body)); steady(got) != steady(want) {
		return want, fmt.Errorf("%s: got %s\nwant %s", a.name, got, want)
	}
	return want, nil
}

// steady is a reply, or the events of a stream, without what is different each time. Events of one choice stay in their
// order; those of several come as their steps do.
func steady(reply string) string {
	const behind = 1 << 10
	by := map[int][]string{}
	for line := range strings.SplitSeq(reply, "\n") {
		var v any
		rest, event := strings.CutPrefix(line, "data:")
		at := behind
		if json.Unmarshal([]byte(rest), &v) == nil {
			if event {
				at = choiceOf(v, behind)
			}
			if text, err := json.Marshal(unchanging(v)); err == nil {
				line = string(text)
			}
		} else if line == "" {
			continue
		}
		by[at] = append(by[at], line)
	}
	var all []string
	for _, at := range slices.Sorted(maps.Keys(by)) {
		all = append(all, by[at]...)
	}
	return strings.Join(all, "\n")
}

// choiceOf is the choice that an event of OpenAI's APIs is of; other if it is of none.
func choiceOf(event any, other int) int {
	object, _ := event.(map[string]any)
	choices, _ := object["choices"].([]any)
	if len(choices) == 0 {
		return other
	}
	choice, _ := choices[0].(map[string]any)
	index, _ := choice["index"].(float64)
	return int(index)
}

// unchanging takes names and times out of a value.
func unchanging(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = unchanging(v[i])
		}
	case map[string]any:
		for key, x := range v {
			_, text := x.(string)
			switch {
			case text && (key == "id" || strings.HasSuffix(key, "_id")), strings.HasPrefix(key, "created"),
				strings.HasSuffix(key, "_at"), strings.HasSuffix(key, "_duration"):
				delete(v, key)
			default:
				v[key] = unchanging(x)
			}
		}
	}
	return v
}
