package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/dialect"
	"tgi/server/dispatch"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
	"tgi/server/wire"
)

func ptr[T any](v T) *T { return &v }

// ask sends body to path.
func ask(s *server.Server, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	return rec
}

const (
	chatPath       = "/v1/chat/completions"
	completionPath = "/v1/completions"
	hi             = `"messages":[{"role":"user","content":"Hi"}]`
)

// demo is a model without a service.
func demo() dispatch.Model {
	return dispatch.Model{ID: "demo", Limits: config.Limits{MaxClientBatchSize: 4}}
}

// completion decodes a call and gives it to demo.
func completion(text string) (*call, error) {
	c, err := decodeCompletion([]byte(text), 0, dialect.Default())
	if err == nil {
		m := demo()
		err = c.bind(&m)
	}
	return c, err
}

func TestDecodeChat(t *testing.T) {
	c, err := decodeChat([]byte(`{"model":"dummy","messages":[
  {"role":"developer","content":[{"type":"text","text":"Be "},{"type":"text","text":"kind."}]},
  {"role":"user","content":"a","name":"n"},
  {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"function":{"name":"g","arguments":{"y": 2}}}]},
  {"role":"tool","content":"b","tool_call_id":"c1"}],
 "frequency_penalty":-2,"presence_penalty":2,"logit_bias":{"7":-100},"max_tokens":5,"max_completion_tokens":6,"n":2,"seed":9,"stop":"x",
 "stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false},"temperature":0,"top_p":1,"top_k":-1,"min_p":0.1,"typical_p":0.9,
 "repetition_penalty":1.1,"ignore_eos":true,"logprobs":true,"top_logprobs":3,"chat_template_kwargs":{ "a":1 },"plugins":[{"name":"p"}],
 "tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none","parallel_tool_calls":true,"response_format":{"type":"text"},"modalities":["text"],
 "user":"u","metadata":{"a":"b"},"store":true,"service_tier":"auto","min_tokens":0,"bad_words":[],"use_beam_search":false,"audio":null,"functions":[]}`), dialect.Default())
	if err != nil {
		t.Fatal(err)
	}
	want := generate.Draft{
		Rules: generate.OpenAI, Stream: true, N: ptr(uint64(2)), FrequencyPenalty: ptr(float32(-2)),
		PresencePenalty: ptr(float32(2)),
		LogitBias:       map[uint32]float32{7: -100}, MaxNewTokens: ptr(uint32(6)),
		LengthField: "max_completion_tokens", Seed: ptr(uint64(9)),
		Stop:        []string{"x"},
		Temperature: ptr(float32(0)),
		TopP:        ptr(float32(1)), TopK: ptr(int32(-1)), MinP: ptr(float32(0.1)), TypicalP: ptr(float32(0.9)),
		RepetitionPenalty: ptr(float32(1.1)),
		IgnoreEOS:         true, Tier: generate.TierDefault,
		TopNTokens: ptr(uint32(3)), Plugins: []generate.PluginCall{{Name: "p"}},
		Conversation: &generate.Conversation{
			Kwargs: []byte(`{ "a":1 }`), Parallel: true, ToolNames: []string{"f"},
			ToolPlaces: []string{"#/tools/0/function"}, ToolChoice: generate.ToolChoice{Mode: generate.ChooseNone},
			Tools: []byte(`[{"type":"function","function":{"name":"f"}}]`),
			Messages: []generate.Message{
				{Role: "developer", HasText: true,
					JSON: []byte(`{"role":"developer","content":[{"type":"text","text":"Be "},{"type":"text","text":"kind."}]}`)},
				{Role: "user", HasText: true, JSON: []byte(`{"role":"user","content":"a","name":"n"}`)},
				{Role: "assistant", Calls: true,
					JSON: []byte(`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":{"x":1},"arguments_text":"{\"x\":1}"}},{"function":{"name":"g","arguments":{"y": 2}}}]}`)},
				{Role: "tool", HasText: true, JSON: []byte(`{"role":"tool","content":"b","tool_call_id":"c1"}`)},
			},
		},
	}
	if !reflect.DeepEqual(c.drafts, []generate.Draft{want}) {
		t.Errorf("got\n%+v\nwant\n%+v", c.drafts, want)
	}
	if !c.stream || !c.usage || !c.shown.Logprobs || c.top != 3 || c.n != 2 || c.named != "dummy" || c.shown.KeepStop {
		t.Errorf("got %+v", c)
	}
}

// TestNulls: clients that send every field they know send null for most.
func TestNulls(t *testing.T) {
	fields := ""
	for _, name := range []string{
		"model", "frequency_penalty", "presence_penalty", "logit_bias", "max_tokens", "n", "seed", "stop", "stream",
		"stream_options", "temperature",
		"top_p", "top_k", "min_p", "typical_p", "repetition_penalty", "ignore_eos", "include_stop_str_in_output",
		"plugins", "response_format",
		"logprobs", "guided_json", "audio", "web_search_options",
	} {
		fields += `,"` + name + `":null`
	}
	chat, err := decodeChat([]byte(`{`+hi+fields+
		`,"max_completion_tokens":null,"top_logprobs":null,"chat_template_kwargs":null,"tools":null,"tool_choice":null,"modalities":null,"functions":null}`), dialect.Default())
	if err != nil {
		t.Fatal(err)
	}
	plain, err := decodeChat([]byte(`{`+hi+`}`), dialect.Default())
	chat.offer, plain.offer = nil, nil // functions, which compare with nothing
	if err != nil || !reflect.DeepEqual(chat, plain) {
		t.Errorf("got\n%+v, %v\nwant\n%+v", chat, err, plain)
	}
	if _, err = completion(`{"prompt":"x"` + fields + `,"best_of":null,"echo":null,"suffix":null}`); err != nil {
		t.Error(err)
	}
}

func TestDecodePrompts(t *testing.T) {
	for text, want := range map[string][]prompt{
		`"x"`:         {{text: "x"}},
		`["x","y"]`:   {{text: "x"}, {text: "y"}},
		`[1,2]`:       {{tokens: []llm.Token{1, 2}}},
		`[[1],[2,3]]`: {{tokens: []llm.Token{1}}, {tokens: []llm.Token{2, 3}}},
		`[[]]`:        {{tokens: []llm.Token{}}},
	} {
		c, err := completion(`{"prompt":` + text + `,"max_tokens":3,"logprobs":2,"best_of":2}`)
		if err != nil || len(c.drafts) != len(want) {
			t.Errorf("%s: got %+v, %v", text, c, err)
			continue
		}
		for i, d := range c.drafts {
			if d.Inputs != want[i].text || !reflect.DeepEqual(d.Tokens, want[i].tokens) || *d.MaxNewTokens != 3 ||
				*d.TopNTokens != 2 || *d.BestOf != 2 {
				t.Errorf("%s: prompt %d is %+v", text, i, d)
			}
		}
	}
}

func TestSeeds(t *testing.T) {
	for text, want := range map[string]uint64{"18446744073709551615": 1<<64 - 1, "-1": 1<<64 - 1, "0": 0} {
		c, err := decodeChat([]byte(`{`+hi+`,"seed":`+text+`}`), dialect.Default())
		if err != nil || *c.drafts[0].Seed != want {
			t.Errorf("%s: got %+v, %v", text, c, err)
		}
	}
}

// TestChatDraft: other APIs get the conversation, and errors that the server's table knows.
func TestChatDraft(t *testing.T) {
	d, model, err := ChatDraft([]byte(`{"model":"m",`+hi+`,"max_tokens":3}`), dialect.Default())
	if err != nil || model != "m" || len(d.Conversation.Messages) != 1 || *d.MaxNewTokens != 3 {
		t.Errorf("got %+v of %q, %v", d, model, err)
	}
	for body, want := range map[string]error{`{}`: wire.ErrShape, `{` + hi + `,"tool_choice":"f"}`: llm.ErrInvalid} {
		if _, _, err := ChatDraft([]byte(body), dialect.Default()); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", body, err, want)
		}
	}
}

// TestRefusals holds bodies against what OpenAI's clients see of the error.
func TestRefusals(t *testing.T) {
	const unfit = "Failed to deserialize the JSON body into the target type: "
	const rule = "Input validation error: "
	for _, c := range []struct {
		path, body        string
		status            int
		text, param, code string
	}{
		{chatPath, `{`, 400, "Failed to parse the request body as JSON: EOF while parsing an object at line 1 column 1",
			"", "bad_request"},
		{chatPath, `{}`, 422, unfit + "missing field `messages` at line 1 column 2", "", "validation"},
		{chatPath, `{` + hi + `,"seed":-1.5}`, 422,
			unfit + "seed: invalid type: floating point `-1.5`, expected u64 at line 1 column 56", "seed",
			"validation"},
		{chatPath, `{` + hi + `,"stop":5}`, 422,
			unfit + "stop: invalid type: integer `5`, expected a sequence at line 1 column 53", "stop", "validation"},
		{chatPath, `{` + hi + `,"stop":["a",5]}`, 422,
			unfit + "stop[1]: invalid type: integer `5`, expected a string at line 1 column 58", "stop[1]",
			"validation"},
		{chatPath, `{` + hi + `,"logit_bias":[1]}`, 422,
			unfit + "logit_bias[0]: invalid type: sequence, expected a map from token ids to numbers at line 1 column 59", "logit_bias[0]", "validation"},
		{chatPath, `{"messages":[{"content":"x"}]}`, 422,
			unfit + "messages[0]: missing field `role` at line 1 column 28", "messages[0]", "validation"},
		{chatPath, `{"messages":[{"role":"user"}]}`, 422,
			unfit + "messages[0]: missing field `content` at line 1 column 28", "messages[0]", "validation"},
		{
			chatPath, `{"messages":[{"role":"user","content":null}]}`, 422,
			unfit + "messages[0]: `content` must not be null in a message of role `user` at line 1 column 43",
			"messages[0]", "validation",
		},
		{chatPath, `{"messages":[{"role":"user","content":[{"type":"text"}]}]}`, 422,
			unfit + "messages[0].content[0]: missing field `text` at line 1 column 54", "messages[0].content[0]",
			"validation"},
		{chatPath, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`, 422,
			rule + "`messages[0].content[0]`: this model reads text only, and so do all others here; SmolVLM, LLaVA, Qwen2.5-VL and Gemma 3 read images",
			"messages", "validation"},
		{chatPath, `{` + hi + `,"modalities":["text","audio"]}`, 422, rule + "`modalities` is not supported",
			"modalities", "validation"},
		{chatPath, `{` + hi + `,"min_tokens":3}`, 422, rule + "`min_tokens` is not supported", "min_tokens",
			"validation"},
		{chatPath, `{` + hi + `,"use_beam_search":true}`, 422,
			rule + "`use_beam_search` needs `num_beams` or `n` > 1", "use_beam_search", "validation"},
		{completionPath, `{"prompt":"a","use_beam_search":true,"best_of":1}`, 422,
			rule + "`use_beam_search` needs `num_beams`, `best_of` or `n` > 1", "use_beam_search", "validation"},
		{completionPath, `{"prompt":"a","use_beam_search":true,"best_of":65}`, 422,
			rule + "`best_of` must be >= 1 and <= 8. Given: 65", "best_of", "validation"},
		{chatPath, `{` + hi + `,"use_beam_search":true,"n":65}`, 422,
			rule + "`n` must be >= 1 and <= 8. Given: 65", "n", "validation"},
		{chatPath, `{` + hi + `,"chat_template_kwargs":{"a":1,"tools":5}}`, 422,
			rule + "`chat_template_kwargs` must not hold `tools`, which is a member of the request itself",
			"chat_template_kwargs", "validation"},
		{chatPath, `{` + hi + `,"response_format":{"type":"json_object"}}`, 422, rule + "grammar is not supported",
			"response_format", "validation"},
		{chatPath, `{` + hi + `,"guided_regex":"a"}`, 422, rule + "grammar is not supported", "guided_regex",
			"validation"},
		{chatPath, `{` + hi + `,"temperature":-1}`, 422, rule + "`temperature` must be >= 0.0. Given: -1",
			"temperature",
			"validation"},
		{chatPath, `{` + hi + `,"presence_penalty":3}`, 422,
			rule + "`presence_penalty` must be >= -2.0 and <= 2.0. Given: 3", "presence_penalty", "validation"},
		{chatPath, `{` + hi + `,"top_logprobs":21,"logprobs":true}`, 422,
			rule + "`top_logprobs` must be >= 0 and <= 20. Given: 21", "top_logprobs", "validation"},
		{chatPath, `{` + hi + `,"n":0}`, 422, rule + "`n` must be >= 1 and <= 8. Given: 0", "n", "validation"},
		{chatPath, `{` + hi + `,"n":18446744073709551615}`, 422,
			rule + "`n` must be >= 1 and <= 8. Given: 18446744073709551615", "n", "validation"},
		{completionPath, `{"prompt":"a","max_tokens":0}`, 422, rule + "`max_tokens` must be strictly positive",
			"max_tokens", "validation"},
		{completionPath, `{"prompt":"a","logprobs":21}`, 422, rule + "`logprobs` must be >= 0 and <= 20. Given: 21",
			"logprobs", "validation"},
		{chatPath, `{` + hi + `,"max_tokens":0}`, 422, rule + "`max_tokens` must be strictly positive",
			"max_tokens", "validation"},
		{chatPath, `{` + hi + `,"max_completion_tokens":0}`, 422,
			rule + "`max_completion_tokens` must be strictly positive",
			"max_completion_tokens", "validation"},
		{chatPath, `{` + hi + `,"chat_template":"{{ x }}"}`, 422,
			rule + "`chat_template` takes the name of one of the " +
				"model's templates; another template is installed as a plugin of kind template. Given: \"{{ x }}\"",
			"chat_template", "validation"},
		{chatPath, `{` + hi + `,"max_completion_tokens":20}`, 422,
			rule + "`inputs` tokens + `max_new_tokens` must be <= 20. Given: 1 `inputs` tokens and 20 `max_new_tokens`",
			"messages", "context_length_exceeded"},
		{chatPath, `{` + hi + `,"stop":["a","b","c","d","e"]}`, 422,
			rule + "`stop` supports up to 4 stop sequences. Given: 5", "stop", "validation"},
		{chatPath, `{` + hi + `,"plugins":[{"name":"a"}]}`, 422, rule + "plugin `a` is not installed", "plugins",
			"validation"},
		{chatPath, `{"messages":[]}`, 422, "Template error: `messages` must hold at least one message", "messages",
			"template_error"},
		{chatPath, `{"messages":[{"role":"hermit","content":"x"}]}`, 422, "Template error: no role hermit", "messages",
			"template_error"},
		{completionPath, `{"prompt":[]}`, 422,
			unfit + "prompt: Empty array detected. Do not use an empty array for the prompt. at line 1 column 12",
			"prompt", "validation"},
		{completionPath, `{"prompt":["a",1]}`, 422,
			unfit + "prompt[1]: invalid type: integer `1`, expected a string at line 1 column 16", "prompt[1]",
			"validation"},
		{completionPath, `{"prompt":["a","b","c","d","e"]}`, 422,
			"Number of prompts exceeds the maximum allowed batch size of 4", "prompt", "batch size exceeded"},
		{completionPath, `{"prompt":"a","suffix":"b"}`, 422,
			"Suffix is not supported and can be achieved by preprocessing the prompt.", "suffix",
			"suffix not supported"},
		{completionPath, `{"prompt":""}`, 422, rule + "`inputs` cannot be empty", "prompt", "validation"},
		{completionPath, `{"prompt":["a",""]}`, 422, rule + "prompt[1]: `inputs` cannot be empty", "prompt",
			"validation"},
		{completionPath, `{"prompt":[[]]}`, 422, rule + "`inputs` must have at least one token", "prompt",
			"validation"},
		{completionPath, `{"prompt":[3,1000]}`, 422,
			rule + "`inputs` must hold token ids < 1000. Given: 1000 in place 1", "prompt", "validation"},
		{completionPath, `{"prompt":"a","best_of":1,"n":2}`, 422, rule + "`best_of` must be >= `n`. Given: 1 and `n` 2",
			"best_of", "validation"},
		{completionPath, `{"prompt":"a","best_of":3}`, 422, rule + "`best_of` must be > 0 and <= 2. Given: 3",
			"best_of", "validation"},
		{completionPath, `{"prompt":"a","best_of":2,"stream":true}`, 422,
			rule + "`best_of` > `n` is not supported when streaming tokens", "best_of", "validation"},
		{completionPath, `{"prompt":"a","echo":true,"logprobs":0,"n":2,"stream":true}`, 422,
			rule + "`echo` with log-probabilities or token ids is not supported when streaming `n` > 1", "echo",
			"validation"},
		{completionPath, `{"prompt":["a","b","c","d"],"n":3}`, 422,
			rule + "`prompt` must have at most 2 entries with as many sequences each: together they may be 8, " +
				"half of max_concurrent_requests. Given: 4", "prompt", "validation"},
		{completionPath, `{"prompt":["a","b"],"n":100}`, 422, rule + "`n` must be >= 1 and <= 8. Given: 100", "n",
			"validation"},
		{completionPath, `{"prompt":["a","b"],"best_of":1,"n":2}`, 422,
			rule + "`best_of` must be >= `n`. Given: 1 and `n` 2", "best_of", "validation"},
		{completionPath, `{"prompt":["a","b"]}`, 429, "Model is overloaded", "", "overloaded"},
	} {
		e := &generatetest.Engine{}
		if c.status == 429 {
			e.Refuse = llm.ErrOverloaded
		}
		rec := ask(newServer(e), c.path, c.body)
		var reply struct {
			Error struct {
				Message, Type string
				Param, Code   *string
			}
			Kind string `json:"error_type"`
		}
		if err := json.Unmarshal(rec.Body.Bytes(), &reply); err != nil {
			t.Errorf("%s: %v in %s", c.body, err, rec.Body)
			continue
		}
		got := reply.Error
		kind := "invalid_request_error"
		if c.status == 429 {
			kind = "rate_limit_error"
			if rec.Header().Get("Retry-After") == "" {
				t.Errorf("%s: no Retry-After", c.body)
			}
		}
		if (got.Param == nil) != (c.param == "") || got.Param != nil && *got.Param != c.param {
			t.Errorf("%s: param is %s, want %q", c.body, rec.Body, c.param)
		}
		if rec.Code != c.status || got.Message != c.text || got.Type != kind || got.Code == nil || *got.Code != c.code {
			t.Errorf("%s\n got %d %s\nwant %d %s (%s, %s)", c.body, rec.Code, rec.Body, c.status, c.text, kind, c.code)
		}
	}
}

func TestMediaType(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(`{`+hi+`}`))
	rec := httptest.NewRecorder()
	newServer(&generatetest.Engine{}).ServeHTTP(rec, r)
	if rec.Code != 415 || !strings.HasPrefix(rec.Body.String(), `{"error":{"message":"Expected request with`) {
		t.Errorf("got %d %s", rec.Code, rec.Body)
	}
}

// TestModels: a reply names the model that is served, or what was asked for in
// dialects where TGI does, but for names that clients send for want of a better one.
func TestModels(t *testing.T) {
	for _, c := range []struct{ name, dialect, chat string }{
		{`"demo"`, "tgi-3", "demo"}, {`"tgi"`, "tgi-3", "demo"}, {`"dummy"`, "tgi-3", "demo"}, {`""`, "tgi-3", "demo"},
		{`null`, "tgi-3", "demo"},
		{`"<MODEL_NAME>"`, "tgi-3", "demo"}, {`"http://127.0.0.1:3000"`, "tgi-3", "demo"},
		{`"org/other"`, "tgi-3", "org/other"}, {`"org/other"`, "tgi-2.2", "demo"},
	} {
		s := newServer(&generatetest.Engine{})
		for path, want := range map[string]string{chatPath: c.chat, completionPath: "demo"} {
			r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"model":`+c.name+
				`,"max_tokens":1,"prompt":"a",`+hi+`}`))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set(dialect.Header, c.dialect)
			rec := httptest.NewRecorder()
			s.ServeHTTP(rec, r)
			var reply struct{ Model string }
			_ = json.Unmarshal(rec.Body.Bytes(), &reply)
			if reply.Model != want {
				t.Errorf("%s in %s: %d %s, want model %q", c.name, path, rec.Code, rec.Body, want)
			}
		}
	}
}

// TestRefuse: what is wrong with a request before its call is read has the shape of
// the route and of the dialect.
func TestRefuse(t *testing.T) {
	const text = "The model `x` does not exist"
	object := func(text, class, param, code string) string {
		return `{"error":{"message":"` + text + `","type":"` + class + `","param":` + param + `,"code":"` + code +
			`"},"error_type":"` + code + `"}`
	}
	for _, c := range []struct {
		err     error
		dialect string
		status  int
		body    string
		retry   string
	}{
		{&server.NoModel{ID: "x"}, "tgi-3", 404, object(text, "invalid_request_error", `"model"`, "model_not_found"),
			""},
		{fmt.Errorf("%w: secret", &server.NoModel{ID: "x"}), "tgi-3", 404, object(text, "invalid_request_error",
			`"model"`, "model_not_found"), ""},
		{&server.NoModel{ID: "x"}, "tgi-2.2", 404, `{"error":"` + text + `","error_type":"model_not_found"}`, ""},
		{server.ErrModelKey, "tgi-3", 403, object("the key given is not for this model", "invalid_request_error",
			"null", "forbidden"), ""},
		{&server.NotServing{ID: "x", Loading: true, RetryAfter: 2 * time.Second}, "none", 503,
			object("Model `x` is loading", "server_error", "null", "loading"), "2"},
	} {
		for _, route := range New(Options{}).Routes() {
			r := httptest.NewRequest(route.Method, route.Path, nil)
			r.Header.Set(dialect.Header, c.dialect)
			rec := httptest.NewRecorder()
			route.Refuse(rec, r, c.err)
			if rec.Code != c.status || rec.Body.String() != c.body || rec.Header().Get("Retry-After") != c.retry {
				t.Errorf("%s: %v in %s: %d %v %s", route.Path, c.err, c.dialect, rec.Code, rec.Header(), rec.Body)
			}
		}
	}
}

// TestIDs: no two replies share one.
func TestIDs(t *testing.T) {
	a := New(Options{})
	c, err := decodeChat([]byte(`{`+hi+`}`), dialect.Default())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 1000 {
		id := a.id(c)
		if seen[id] || !strings.HasPrefix(id, "chatcmpl-") || len(id) < 30 {
			t.Fatalf("id %q", id)
		}
		seen[id] = true
	}
}

// FuzzBodies: whatever the body, the status is 200 or of the 400s and the reply
// is UTF-8; a stream ends with [DONE].
func FuzzBodies(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `{` + hi + `}`, `{` + hi + `,"stream":true,"n":2,"stop":["x"," "],"logprobs":true,"top_logprobs":2}`,
		`{"prompt":["a","b"],"echo":true,"logprobs":1,"stream":true,"stream_options":{"include_usage":true}}`,
		`{"prompt":[1,2],"echo":true,"max_tokens":0}`, `{"prompt":[[1],[2]],"best_of":2}`, `{"prompt":"` + "\xff" +
			`","echo":true}`,
		`{"messages":[{"role":"assistant","content":"x ","tool_calls":[{"function":{"name":"a","arguments":{}}}]}],"model":"` + "\xff" + `"}`,
		`{"messages":[{"role":"system","content":[]},{"role":"assistant","content":[{"type":"text","text":"a "}]}],"logit_bias":{"1":100},"seed":1}`,
		`{` + hi + `,"tools":[1],"tool_choice":{},"response_format":{"type":"text"},"min_tokens":0.0,"audio":{}}`,
	} {
		f.Add(s)
	}
	s := newServer(&generatetest.Engine{})
	f.Fuzz(func(t *testing.T, text string) {
		for _, path := range []string{chatPath, completionPath} {
			rec := ask(s, path, text)
			if rec.Code != 200 && (rec.Code < 400 || rec.Code >= 500) {
				t.Fatalf("%s %q: %d %s", path, text, rec.Code, rec.Body)
			}
			if !utf8.Valid(rec.Body.Bytes()) {
				t.Fatalf("%s %q: the reply is no UTF-8: %q", path, text, rec.Body)
			}
			if strings.HasPrefix(rec.Header().Get("Content-Type"), "text/event-stream") {
				if !strings.HasSuffix(rec.Body.String(), "data: [DONE]\n\n") {
					t.Fatalf("%s %q: the stream ends with %q", path, text, rec.Body)
				}
			} else if !json.Valid(rec.Body.Bytes()) {
				t.Fatalf("%s %q: no JSON: %s", path, text, rec.Body)
			}
		}
	})
}
