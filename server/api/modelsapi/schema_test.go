package modelsapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
)

// documentFile holds the schemas that Jan published (testdata/SOURCE.md).
const documentFile = "testdata/jan-models.openapi.json"

// schema is the part of JSON schema that Jan's document uses.
type schema struct {
	Ref        string             `json:"$ref"`
	Type       string             `json:"type"`
	Format     string             `json:"format"`
	Enum       []any              `json:"enum"`
	Minimum    *float64           `json:"minimum"`
	Maximum    *float64           `json:"maximum"`
	Items      *schema            `json:"items"`
	Required   []string           `json:"required"`
	Properties map[string]*schema `json:"properties"`
	Example    any                `json:"example"`
	Default    any                `json:"default"`
	Words      string             `json:"description"`
	// Others stands on strings alone in the document, where it says nothing.
	Others *bool `json:"additionalProperties"`
}

// schemas are those of the document by name; nil holds nobody to anything.
type schemas map[string]*schema

// readDocument reads the document; keywords that would not be checked are an
// error.
func readDocument() (schemas, error) {
	text, err := os.ReadFile(documentFile)
	if err != nil {
		return nil, err
	}
	return parseDocument(text)
}

func parseDocument(text []byte) (schemas, error) {
	var d struct {
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, err
	}
	all := schemas{}
	for name, raw := range d.Components.Schemas {
		dec := json.NewDecoder(strings.NewReader(string(raw)))
		dec.DisallowUnknownFields()
		if err := dec.Decode(ptr(all, name)); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return all, nil
}

func ptr(all schemas, name string) *schema {
	all[name] = &schema{}
	return all[name]
}

// check returns where v is not what s says.
func (all schemas) check(at string, s *schema, v any) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, at+": "+fmt.Sprintf(format, args...)) }
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return all.check(at, all[name], v)
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		say("%v is none of %v", v, s.Enum)
	}
	switch s.Type {
	case "string":
		text, ok := v.(string)
		if u, err := url.Parse(text); !ok || s.Format == "uri" && (err != nil || !u.IsAbs()) {
			say("%v is no %s %s", v, s.Type, s.Format)
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			say("%v is no boolean", v)
		}
	case "integer", "number":
		n, ok := v.(float64)
		if !ok || s.Type == "integer" && n != math.Trunc(n) || s.Minimum != nil && n < *s.Minimum || s.Maximum != nil &&
			n > *s.Maximum {
			say("%v is no %s in the bounds", v, s.Type)
		}
	case "array":
		items, ok := v.([]any)
		if !ok {
			say("%v is no array", v)
		}
		for i := range items {
			wrong = append(wrong, all.check(fmt.Sprintf("%s[%d]", at, i), s.Items, items[i])...)
		}
	case "object":
		members, ok := v.(map[string]any)
		if !ok {
			say("%v is no object", v)
		}
		for _, name := range s.Required {
			if _, ok := members[name]; !ok {
				say("lacks %s", name)
			}
		}
		for name, p := range s.Properties {
			if m, ok := members[name]; ok {
				wrong = append(wrong, all.check(at+"."+name, p, m)...)
			}
		}
	default:
		say("the schema has type %q", s.Type)
	}
	return wrong
}

// schemaOf returns which schema a reply must have.
func schemaOf(method, target string) string {
	path, _, _ := strings.Cut(target, "?")
	switch {
	case method == "DELETE" && path != "/v1/models/pull":
		return "DeleteModelResponse"
	case path == "/v1/models":
		return "ListModelsResponse"
	case method == "GET" && !strings.HasPrefix(path, "/v1/models/download/"):
		return "GetModelResponse"
	case method != "GET" && strings.HasSuffix(path, "/start"):
		return "StartModelResponse"
	case method != "GET" && strings.HasSuffix(path, "/stop"):
		return "StopModelResponse"
	}
	return "DownloadModelResponse"
}

// hold returns where a reply is neither what the document says nor what
// OpenAI's clients parse.
func (all schemas) hold(method, target string, rec *httptest.ResponseRecorder) (wrong []string) {
	if rec.Code >= 300 || strings.HasSuffix(target, "_lora_adapter") { // which reply with a line of text
		return nil
	}
	var v any
	if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil {
		return []string{err.Error()}
	}
	name := schemaOf(method, target)
	if all != nil {
		wrong = all.check(name, all[name], v)
	}
	reply, _ := v.(map[string]any)
	switch name {
	case "ListModelsResponse":
		data, ok := reply["data"].([]any)
		if !ok || reply["object"] != "list" {
			wrong = append(wrong, "no list of OpenAI's")
		}
		for _, one := range data {
			m, _ := one.(map[string]any)
			wrong = append(wrong, all.openai(m)...)
		}
	case "GetModelResponse":
		wrong = append(wrong, all.openai(reply)...)
	}
	return wrong
}

// openai returns where m is not OpenAI's Model, which the document calls
// ModelObject: there, its members are not required.
func (all schemas) openai(m map[string]any) (wrong []string) {
	id, _ := m["id"].(string)
	_, owned := m["owned_by"].(string)
	if created, ok := m["created"].(float64); id == "" || m["object"] != "model" || !ok ||
		created != math.Trunc(created) || !owned {
		wrong = append(wrong, fmt.Sprintf("no model of OpenAI's: %v", m))
	}
	if all != nil {
		wrong = append(wrong, all.check("ModelObject", all["ModelObject"], m)...)
	}
	return wrong
}

// TestSchema has a value that fits and one that does not for each keyword.
func TestSchema(t *testing.T) {
	all, err := parseDocument([]byte(`{"components":{"schemas":{
		"A":{"type":"object","required":["s"],"properties":{"s":{"type":"string","enum":["a","b",null]},"u":{"type":"string","format":"uri"},"l":{"type":"array","items":{"$ref":"#/components/schemas/N"}}}},
		"N":{"type":"integer","minimum":1,"maximum":3},"B":{"type":"boolean"},"F":{"type":"number"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, fits string
		not        []string
	}{
		{"A", `{"s":"a","u":"urn:x","l":[1,3],"more":1}`, []string{`{}`, `{"s":"c"}`, `{"s":null}`, `{"s":1}`,
			`{"s":"a","u":"x"}`, `{"s":"a","l":{}}`, `{"s":"a","l":[0]}`, `{"s":"a","l":[1,4]}`, `[]`}},
		{"N", `2`, []string{`"2"`, `1.5`, `null`}},
		{"B", `true`, []string{`"true"`}},
		{"F", `1.5`, []string{`"1"`}},
	} {
		for i, text := range append([]string{c.fits}, c.not...) {
			var v any
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				t.Fatal(err)
			}
			if wrong := all.check(c.name, all[c.name], v); (len(wrong) == 0) != (i == 0) {
				t.Errorf("%s %s: %v", c.name, text, wrong)
			}
		}
	}
	if _, err := parseDocument([]byte(`{"components":{"schemas":{"A":{"pattern":"x"}}}}`)); err == nil {
		t.Error("a keyword that is not checked is accepted")
	}
}

// TestEveryState holds the document against a model in each state, with all
// that can be known of it and with nothing.
func TestEveryState(t *testing.T) {
	all := document(t)
	full := shelf().models[0]
	for _, state := range []State{NotDownloaded, Downloading, Downloaded, Starting, Running, Stopping, Stopped,
		Failed} {
		for _, m := range []Model{full, {ID: "x y/%", Created: born}} {
			m.State = state
			for _, context := range []int{0, 100, 4096, 4097} {
				m.Context, m.Parallel = context, context
				s := serve(&fake{models: []Model{m}})
				for _, target := range []string{"/v1/models", "/v1/models/" + url.PathEscape(m.ID)} {
					rec := ask(s, "GET", target, "")
					if rec.Code != 200 {
						t.Fatalf("%s: %d %s", target, rec.Code, rec.Body)
					}
					for _, wrong := range all.hold("GET", target, rec) {
						t.Errorf("%s with a context of %d: %s", state, context, wrong)
					}
				}
			}
		}
	}
}

// document reads the document.
func document(t *testing.T) schemas {
	all, err := readDocument()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestExamples replays the examples of the document: a model that is what they
// say is shown as they show it.
func TestExamples(t *testing.T) {
	all := document(t)
	renamed := shelf()
	renamed.models[0].ID = "model-zephyr-7B"
	removable := shelf()
	removable.models[0].ID, removable.models[0].State = "model-zephyr-7B", Stopped
	ended := shelf()
	ended.models[0].ID, ended.models[0].State = "model-zephyr-7B", Stopped
	mistral := shelf()
	mistral.models[0].ID, mistral.models[0].State = "mistral-ins-7b-q4", Downloading
	// layers on a GPU: there are none to count
	gpu := []string{".engine_parameters.ngl", ".model_parameters.ngl", ".data[].settings.ngl"}
	// the template is the model's own
	nitro := []string{".engine_parameters.pre_prompt"}
	// what this server does, whatever the model
	facts := []string{
		".engine_parameters.cont_batching", ".engine_parameters.embedding", ".model_parameters.embedding",
		".data[].settings.embedding",
	}
	for _, c := range []struct {
		models         *fake
		method, target string
		body           string
		examples       int
	}{
		{shelf(), "GET", "/v1/models", "", 11},
		{shelf(), "GET", "/v1/models/zephyr-7b", "", 14},
		{renamed, "POST", "/v1/models/start", `{"model":"model-zephyr-7B"}`, 2},
		{ended, "PUT", "/v1/models/model-zephyr-7B/stop", "", 2},
		{removable, "DELETE", "/v1/models/model-zephyr-7B", "", 2},
		{mistral, "GET", "/v1/models/download/mistral-ins-7b-q4", "", 1},
	} {
		rec := ask(serve(c.models), c.method, c.target, c.body)
		var v any
		if err := json.Unmarshal(rec.Body.Bytes(), &v); err != nil || rec.Code >= 300 {
			t.Fatalf("%s %s: %d %s, %v", c.method, c.target, rec.Code, rec.Body, err)
		}
		met := 0
		for path, want := range all.examples("", all[schemaOf(c.method, c.target)]) {
			got, there := at(v, path)
			switch {
			case slices.Contains(gpu, path) || slices.Contains(nitro, path):
				if there {
					t.Errorf("%s is there", path)
				}
			case slices.Contains(facts, path):
			case got != want:
				t.Errorf("%s: %s is %v, the example %v", c.target, path, got, want)
			default:
				met++
			}
		}
		if met != c.examples {
			t.Errorf("%s: %d examples, want %d", c.target, met, c.examples)
		}
	}
}

// examples returns the examples of a schema by their paths, such as .data[].id.
func (all schemas) examples(path string, s *schema) map[string]any {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		s = all[name]
	}
	out := map[string]any{}
	if s.Example != nil {
		out[path] = s.Example
	}
	if s.Items != nil {
		maps.Copy(out, all.examples(path+"[]", s.Items))
	}
	for name, p := range s.Properties {
		maps.Copy(out, all.examples(path+"."+name, p))
	}
	return out
}

// at returns the value at a path, of the first item where it is a list's.
func at(v any, path string) (any, bool) {
	for step := range strings.SplitSeq(strings.TrimPrefix(path, "."), ".") {
		name, list := strings.CutSuffix(step, "[]")
		m, _ := v.(map[string]any)
		var ok bool
		if v, ok = m[name]; !ok {
			return nil, false
		}
		if items, _ := v.([]any); list && len(items) > 0 {
			v = items[0]
		}
	}
	return v, true
}
