package tgi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"tgi/server"
	"tgi/server/dialect"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

func TestDecodeBody(t *testing.T) {
	// As the shared endpoint documents it, explicit nulls included.
	b, err := decodeBody([]byte(`{"model": "M", "inputs": "My name is Olivier and I",
 "parameters": {"best_of": 1, "decoder_input_details": true, "details": true, "do_sample": false,
  "max_new_tokens": 20, "repetition_penalty": 1.03, "return_full_text": false, "seed": null,
  "stop": ["photographer"], "temperature": 0.5, "top_k": 10, "top_p": 0.95, "truncate": null,
  "typical_p": 0.95, "watermark": true, "grammar": null, "adapter_id": null, "logit_bias": null,
  "min_p": null, "presence_penalty": null, "frequency_penalty": null, "top_n_tokens": null}}`), dialect.Default(), false)
	if err != nil {
		t.Fatal(err)
	}
	want := body{
		dialect: dialect.Default(), model: "M", details: true, fullText: ptr(false),
		draft: generate.Draft{
			Inputs: "My name is Olivier and I", BestOf: ptr(uint64(1)), PromptLogprobs: true,
			MaxNewTokens:      ptr(uint32(20)),
			RepetitionPenalty: ptr(float32(1.03)), Stop: []string{"photographer"}, Temperature: ptr(float32(0.5)),
			TopK: ptr(int32(10)), TopP: ptr(float32(0.95)), TypicalP: ptr(float32(0.95)), Watermark: true,
		},
	}
	if !reflect.DeepEqual(*b, want) {
		t.Errorf("got\n%+v\nwant\n%+v", *b, want)
	}
	b, err = decodeBody([]byte(`{"inputs":"x","stream":true,"parameters":{"min_p":0.5,"presence_penalty":1,"logit_bias":{"7":-1.5},"ignore_eos":true,`+
		`"seed":18446744073709551615,"adapter_id":"a","grammar":{"type":"json","value":{"a":[1]}},"truncate":3,"top_n_tokens":2,"frequency_penalty":0.25}}`), dialect.Default(), true)
	if err != nil {
		t.Fatal(err)
	}
	want = body{dialect: dialect.Default(), stream: true, draft: generate.Draft{
		Inputs: "x", MinP: ptr(float32(0.5)), PresencePenalty: ptr(float32(1)), LogitBias: map[uint32]float32{7: -1.5},
		IgnoreEOS: true,
		Seed:      ptr(uint64(1<<64 - 1)), Adapter: ptr("a"), Grammar: &generate.Grammar{Field: "grammar",
			Language: generate.JSONSchema, Source: []byte(`{"a":[1]}`)}, Truncate: ptr(uint64(3)),
		TopNTokens: ptr(uint32(2)), FrequencyPenalty: ptr(float32(0.25)),
	}}
	if !reflect.DeepEqual(*b, want) {
		t.Errorf("got\n%+v\nwant\n%+v", *b, want)
	}
}

// TestDecodePlugins: parameters reach the plugin as they were written.
func TestDecodePlugins(t *testing.T) {
	for text, want := range map[string][]generate.PluginCall{
		`null`:           nil,
		`[]`:             nil,
		`[{"name":"a"}]`: {{Name: "a"}},
		`[{"params":null,"name":"\u0061"},{"name":"a","params":{}}]`: {{Name: "a"}, {Name: "a", Params: []byte(`{}`)}},
		"[ {\"name\":\"b\",\n\"params\" : { \"n\": 1.50, \"n\":[{\"}\":\"\\u0000\"}] } } ]": {
			{Name: "b", Params: []byte(`{ "n": 1.50, "n":[{"}":"\u0000"}] }`)},
		},
	} {
		b, err := decodeBody([]byte(`{"inputs":"x","parameters":{"plugins":`+text+`}}`), dialect.Default(), false)
		if err != nil || !reflect.DeepEqual(b.draft.Plugins, want) {
			t.Errorf("%s\n got %q, %v\nwant %q", text, b.draft.Plugins, err, want)
		}
	}
}

func ptr[T any](v T) *T { return &v }

// TestParametersQuirk: absent parameters sample, empty ones do not.
func TestParametersQuirk(t *testing.T) {
	for text, want := range map[string]bool{
		`{"inputs":"x"}`: true, `{"inputs":"x","parameters":{}}`: false,
		`{"inputs":"x","parameters":{"do_sample":true}}`: true,
	} {
		if b, err := decodeBody([]byte(text), dialect.Default(), false); err != nil || b.draft.DoSample != want {
			t.Errorf("%s: do_sample is %v, %v, want %v", text, b.draft.DoSample, err, want)
		}
	}
}

// TestRefusedBodies holds bodies against status and text: what stands further
// down would be wrong with the body too.
func TestRefusedBodies(t *testing.T) {
	const unfit = "Failed to deserialize the JSON body into the target type: "
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"inputs":"x","parameters":{"seed":-1,"temperature":0}}`, 422,
			unfit + "parameters.seed: invalid value: integer `-1`, expected u64 at line 1 column 37"},
		{`{"inputs":"x","parameters":{"truncate":-1}}`, 422,
			unfit + "parameters.truncate: invalid value: integer `-1`, expected usize at line 1 column 41"},
		{`{"inputs":"x","parameters":{"watermark":null}}`, 422,
			unfit + "parameters.watermark: invalid type: null, expected a boolean at line 1 column 44"},
		{`{"inputs":"x","parameters":{"stop":null}}`, 422,
			unfit + "parameters.stop: invalid type: null, expected a sequence at line 1 column 39"},
		{`{"inputs":"x","parameters":{"logit_bias":{"x":1}}}`, 422,
			unfit + "parameters.logit_bias.x: invalid value: key, expected a token id at line 1 column 46"},
		{`{"inputs":"x","parameters":{"logit_bias":[1]}}`, 422,
			unfit + "parameters.logit_bias: invalid type: sequence, expected a map from token ids to numbers at line 1 column 41"},
		{`{"inputs":"x","parameters":{"adapter_id":5}}`, 422,
			unfit + "parameters.adapter_id: invalid type: integer `5`, expected a string at line 1 column 42"},
		{`{"inputs":"x","parameters":{"plugins":{}}}`, 422,
			unfit + "parameters.plugins: invalid type: map, expected a sequence at line 1 column 38"},
		{`{"inputs":"x","parameters":{"plugins":["a"]}}`, 422,
			unfit + `parameters.plugins[0]: invalid type: string "a", expected an object such as {"name": "banned-words", "params": {}} at line 1 column 42`},
		{`{"inputs":"x","parameters":{"plugins":[{"name":"a"},{}]}}`, 422,
			unfit + "parameters.plugins[1]: missing field `name` at line 1 column 54"},
		{`{"inputs":"x","parameters":{"plugins":[{"name":7}]}}`, 422,
			unfit + "parameters.plugins[0].name: invalid type: integer `7`, expected a string at line 1 column 48"},
		{`{"inputs":"x","parameters":{"plugins":[{"name":"a","name":"b"}]}}`, 422,
			unfit + "parameters.plugins[0]: duplicate field `name` at line 1 column 57"},
		{`{"inputs":"x","parameters":{"plugins":[{"name":"a","parms":{}}]}}`, 422,
			unfit + "parameters.plugins[0]: unknown field `parms`, expected `name` or `params` at line 1 column 58"},
		{`{"inputs":"x","parameters":{"plugins":[{"name":"a","params":[]}]}}`, 422,
			unfit + "parameters.plugins[0].params: invalid type: sequence, expected a map at line 1 column 60"},
		{`{"inputs":"x","parameters":{"plugins":[{"name":"a","params":{"n":01}}]}}`, 400,
			"Failed to parse the request body as JSON: parameters.plugins[0].params: invalid number at line 1 column 67"},
		{`{"inputs":"x","parameters":{"plugins":[{"name":"a"}]}}`, 422,
			"Input validation error: plugin `a` is not installed"},
		{`{"inputs":"x","plugins":[{"name":"a"}]}`, 422, "Input validation error: plugin `a` is not installed"},
		{`{"inputs":"x","plugins":["a"]}`, 422,
			unfit + `plugins[0]: invalid type: string "a", expected an object such as {"name": "banned-words", "params": {}} at line 1 column 28`},
		{`{"inputs":"x","plugins":[{"name":"a"}],"parameters":{"plugins":[{"name":"a"}]}}`, 422,
			"Input validation error: `plugins` is given twice, in `parameters` and beside them"},
		{`{"inputs":"x","parameters":{"top_k":-1}}`, 422, "Input validation error: `top_k` must be strictly positive"},
		{`{"inputs":"x","parameters":{"best_of":0,"top_p":1.0}}`, 422,
			"Input validation error: `top_p` must be > 0.0 and < 1.0"},
		{`{"inputs":"","parameters":{"grammar":{"type":"regex","value":"a"}}}`, 422,
			"Input validation error: `inputs` cannot be empty"},
		{`{"inputs":"x","parameters":{"grammar":{"type":"regex","value":"a"}}}`, 422,
			"Input validation error: grammar is not supported"},
		{`{"inputs":"x","parameters":{"adapter_id":"mine"}}`, 422,
			"Input validation error: adapter `mine` is not loaded"},
		{`{"inputs":"x"} {}`, 400, "Failed to parse the request body as JSON: trailing characters at line 1 column 16"},
	} {
		r := httptest.NewRequest(http.MethodPost, "/generate", strings.NewReader(c.body))
		r.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		newServer(&generatetest.Engine{}).ServeHTTP(rec, r)
		var reply struct {
			Error string `json:"error"`
			Type  string `json:"error_type"`
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &reply); err != nil {
			t.Errorf("%s: %v in %s", c.body, err, rec.Body)
		}
		if rec.Code != c.status || reply.Error != c.want {
			t.Errorf("%s\n got %d %s\nwant %d %s", c.body, rec.Code, reply.Error, c.status, c.want)
		}
	}
}

// FuzzGenerateBody: whatever the body, the status is 200 or of the 400s, and the
// reply is JSON.
func FuzzGenerateBody(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `{"inputs":"a"}`,
		`{"inputs":"a b","parameters":{"best_of":2,"do_sample":true,"details":true,"top_n_tokens":1}}`,
		`{"inputs":"\ud83d\ude00","parameters":{"decoder_input_details":true,"return_full_text":true,"stop":["\u0000"]},"stream":true}`,
		`{"inputs":"a","parameters":{"logit_bias":{"1":1e38},"temperature":1e-45,"seed":0,"truncate":1}}`,
		`{"inputs":"a","inputs":"b"}`, `[[[[`, `{"inputs":"` + "\xff" + `"}`,
		`{"inputs":"a","parameters":{"max_new_tokens":1e3}}`,
		`{"inputs":"a","parameters":{"details":true,"plugins":[{"name":"a","params":{"n":[1,{"x":null}]}},{"name":"\u0000"}]}}`,
		`{"inputs":"a","parameters":{"plugins":[{"name":"a","params":{"refuse":"` + "\xff" + `"}}]}}`,
	} {
		f.Add(s)
	}
	s := newPlugged(&generatetest.Engine{}, &plugins{
		installed: []server.Plugin{{Name: "a"}}, skips: []generate.Skip{{Plugin: "a", Reason: "bytes \xff and \x00"}},
	})
	f.Fuzz(func(t *testing.T, text string) {
		for _, path := range []string{"/generate", "/generate_stream", "/", "/tokenize"} {
			for _, d := range dialect.All {
				fuzzed(t, s, d, path, text)
			}
		}
	})
}

// fuzzed sends a body and holds the reply against what any reply is.
func fuzzed(t *testing.T, s http.Handler, d *dialect.Dialect, path, text string) {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(text))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(dialect.Header, d.Name())
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	if rec.Code != 200 && (rec.Code < 400 || rec.Code >= 500) {
		t.Fatalf("%s %q: %d %s", path, text, rec.Code, rec.Body)
	}
	if !utf8.Valid(rec.Body.Bytes()) {
		t.Fatalf("%s %q: the reply is no UTF-8: %q", path, text, rec.Body)
	}
	for _, line := range strings.Split(rec.Body.String(), "\n\n") {
		if line = strings.TrimPrefix(line, d.EventPrefix); line != "" && !json.Valid([]byte(line)) {
			t.Fatalf("%s %q: the reply is no JSON: %s", path, text, line)
		}
	}
}
