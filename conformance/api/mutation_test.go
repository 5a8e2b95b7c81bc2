package api

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// mutation breaks replies of a sound server: the pattern is replaced in the
// status, headers and body of replies to a path.
type mutation struct {
	// on is the path, or "" for all; a dialect may stand before it ("tgi-2.2 /info"),
	// with a ! for TGI itself.
	on, old, new string
}

// mutant is a server whose replies are mutated.
type mutant struct {
	sound http.Handler
	path  string
	old   *regexp.Regexp
	new   string
	hits  atomic.Int32
}

func (m *mutant) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m.path != "" && r.URL.Path != m.path || r.URL.Path == "/info" && r.Header.Get(dialectHeader) == "none" {
		m.sound.ServeHTTP(w, r)
		return
	}
	rec := httptest.NewRecorder()
	m.sound.ServeHTTP(rec, r)
	var text bytes.Buffer
	fmt.Fprintf(&text, "%d\n", rec.Code)
	for _, name := range sorted(rec.Header()) {
		fmt.Fprintf(&text, "%s: %s\n", name, strings.Join(rec.Header()[name], ","))
	}
	text.WriteString("\n")
	text.Write(rec.Body.Bytes())
	changed := m.old.ReplaceAll(text.Bytes(), []byte(m.new))
	if !bytes.Equal(changed, text.Bytes()) {
		m.hits.Add(1)
	}
	lines := textproto.NewReader(bufio.NewReader(bytes.NewReader(changed)))
	status, _ := lines.ReadLine()
	header, _ := lines.ReadMIMEHeader()
	for name, values := range header {
		w.Header()[name] = values
	}
	code := 0
	fmt.Sscan(status, &code)
	w.WriteHeader(code)
	_, _ = lines.R.WriteTo(w)
}

// mutations has, for each case, servers that only break its rule, or break it
// among others.
var mutations = map[string][]mutation{
	"health":      {{"/health", `^200`, "204"}, {"/health", `\n\n`, "\n\nok"}},
	"ping":        {{"/ping", `^200`, "503"}},
	"health-root": {{"/", `^200`, "404"}},
	"not-found":   {{"/no/such/route", `^404`, "200"}, {"/no/such/route", `\n\n`, "\n\nnot found"}},
	"wrong-method": {{"/generate", `^405`, "404"}, {"/generate", `Allow: .*\n`, ""},
		{"/generate", `\n\n`, "\n\nno"}},
	"media-type": {{"/generate", `^415`, "400"}, {"/generate", "application/json` *\"",
		"application/json` please\""}, {"! /generate", `text/plain; charset=utf-8`, "application/json"}},
	"media-type-suffix": {{"/generate", `^200`, "415"}},
	"syntax": {{"/generate", `^400`, "422"}, {"/generate_stream", `column 10`, "column 9"},
		{"! /generate", `Failed to`, "Could not"}},
	"missing-inputs": {{"/generate", `^422`, "400"}, {"/", `column 2`, "column 1"}, {"/generate_stream", "`inputs`",
		"`input`"}},
	"wrong-type":     {{"/generate", `parameters\.seed: `, ""}, {"/generate", `expected u32`, "expected i32"}},
	"null-refused":   {{"/generate", `(?s)^422.*parameters\.stop: .*`, "200\nContent-Type: application/json\n\n{}"}},
	"null-taken":     {{"/generate", `^200`, "422"}},
	"unknown-fields": {{"/generate", `^200`, "422"}},
	"payload-limit":  {{"/generate", `^413`, "400"}, {"/generate", `length limit exceeded`, "too long"}},
	"cors":           {{"/health", `Access-Control-Allow-Origin: \*\n`, ""}},
	"cors-preflight": {{"/generate", `GET,POST`, "GET"}, {"/generate", `Access-Control-Allow-Headers: .*\n`, ""},
		{"/generate", `^200`, "405"}},
	"cors-key": {{"/generate", `,authorization`, ""}},
	"request-id": {{"/health", `X-Request-Id: .*\n`, "X-Request-Id: 1\n"}, {"/info", `X-Request-Id: .*\n`,
		"X-Request-Id: 1\n"}},
	"dialect-unknown": {{"/generate", `^422`, "200"}, {"/v1/completions", `tgi-2.2, `, ""}},
	"key-missing":     {{"/tokenize", `^401`, "200"}, {"/vertex", `(?s)^401(.*)\n\n`, "401$1\n\nno key"}},
	"key-wrong":       {{"/generate", `^401`, "403"}},
	"key-everywhere":  {{"/info", `^401`, "200"}, {"/chat_tokenize", `^401`, "422"}},
	"info": {
		{"/info", `"docker_label":null,?`, ""}, {"/info", `"model_sha":null`, `"model_sha":7`},
		{"/info", `"max_input_tokens":139`, `"max_input_tokens":140`},
		{"/info", `text-generation-router`, "router"}, {"tgi-0.6 /info", `"sha":null,?`, ""},
		{"/info", `"max_best_of":2`, `"max_best_of":-2`},
	},
	"docs": {{"/docs", `text/html`, "text/plain"}},
	"openapi": {{documentPath, `"3.0.3"`, `"2.0"`}, {documentPath, `"/tokenize":`, `"/tokenise":`},
		{documentPath, `"type":"string"`, `"contains":{}`}},
	"tokenize": {{"/tokenize", `"stop":\d`, `"stop":1`}, {"/tokenize", `\n\n(.*)`,
		"\n\n{\"tokens\":$1}"}, {"/tokenize", `"text":" quick"`, `"text":"quick"`},
		{"/tokenize", `,[^,]*,[^,]*,[^,]*,[^,]*\]`, "]"}},
	"tokenize-characters": {{"/tokenize", `"start":3,"stop":9`, `"start":4,"stop":11`}},
	"tokenize-headers":    {{"/tokenize", `\n\n`, "\nX-Total-Time: 1\n\n"}},
	"chat-tokenize": {{"/chat_tokenize", `"templated_text":"[^"]*"`, `"templated_text":""`},
		{"/chat_tokenize", `tokenize_response`, "tokens"}},
	"generate": {{"/generate", `"generated_text"`, `"text"`}, {"/generate", `\{"generated`,
		`{"details":null,"generated`}, {"/generate", `":" .*"`, `":""`}, {"/generate", `application/json`,
		"text/plain"}},
	"generate-details": {{"/generate", `"generated_tokens":6`, `"generated_tokens":5`},
		{"/generate", `"seed":null`, `"seed":1`}, {"/generate", `"logprob":-0.5,`, `"logprob":-0.100000001490116119,`},
		{"/generate", `"special":false,`, ""}, {"/generate", `"prefill":\[\]`,
			`"prefill":[{"id":1,"text":"a","logprob":null}]`}, {"tgi-0.6 /generate", `"prefill":\[[^\]]*\]`,
			`"prefill":[]`}, {"/generate", `"tokens":\[`, `"top_tokens":[],"tokens":[`}, {"/generate", `"length"`,
			`"max_length"`}},
	"generate-prefill": {{"/generate", `"logprob":null`, `"logprob":-1`}, {"/generate", `"prefill":\[[^\]]*\]`,
		`"prefill":[]`}},
	"generate-length":  {{"/generate", `"length"`, `"eos_token"`}},
	"generate-sampled": {{"/generate", `"seed":\d+`, `"seed":null`}, {"/generate", `"seed":null`, `"seed":0`}},
	"generate-seed":    {{"/generate", `18446744073709551615`, "18446744073709552000"}},
	"generate-top": {{"/generate", `"logprob":-1.25`, `"logprob":-0.1`}, {"/generate", `"top_tokens":\[\[`,
		`"top_tokens":[[],[`}, {"/generate", `"id":5,`, `"id":5,"rank":2,`}},
	"generate-best-of": {{"/generate", `"best_of_sequences":\[.*?"tokens":\[\]\}\],`, ""},
		{"/generate", `"generated_tokens":0`, `"generated":0`}},
	"generate-stop": {{"/generate", `stop_sequence`, "eos_token"},
		{"/generate", `("generated_text":"[^"]*) \w+"`, `$1"`}},
	"generate-eos": {{"/generate", `"special":true`, `"special":false`},
		{"/generate", `("generated_text":"[^"]*)"`, `$1</s>"`}, {"/generate", `"length"`, `"eos_token"`}},
	"generate-full-text": {{"/generate", `"Once upon a time`, `"`}},
	"generate-truncate": {{"/generate", `("prefill":\[.*\{"id":)\d+(.*\],"seed")`, "${1}7$2"},
		{"/generate", `X-Prompt-Tokens: 2`, "X-Prompt-Tokens: 4"}, {"/generate", `"prefill":\[[^\]]*\]`,
			`"prefill":[]`}},
	"generate-headers": {{"/generate", `X-Compute-Characters: 8`, "X-Compute-Characters: 9"},
		{"/generate", `X-Queue-Time: .*\n`, ""}, {"/generate", `X-Total-Time: 1\n`, "X-Total-Time: 1.5\n"},
		{"/generate", `X-Compute-Time: .*\n`, "X-Compute-Time: 1\n"}, {"tgi-0.6 /generate", `X-Compute-Time: .*\n`,
			"X-Compute-Time: 0.1\n"}, {"tgi-0.6 /generate", `\n\n`, "\nX-Prompt-Tokens: 2\n\n"},
		{"/generate", `X-Generated-Tokens: 3`, "X-Generated-Tokens: 2"}, {"/generate", `X-Prompt-Tokens: 2`,
			"X-Prompt-Tokens: 3"}, {"/generate", `X-Compute-Type: .*\n`, ""}},
	"generate-default-length": {{"tgi-0.6 /generate", `"generated_tokens":20`, `"generated_tokens":100`},
		{"tgi-2.2 /generate", `"generated_tokens":100`, `"generated_tokens":20`}},
	"generate-null-length": {{"/generate", `^200`, "422"}, {"tgi-0.6 /generate", `(?s)^422.*`, "200\n\n{}"}},
	"generate-all-fields":  {{"/generate", `^200`, "422"}},
	"compat": {{"/", `\n\n\[(.*)\]`, "\n\n$1"}, {"/", `"Once upon a time`, `"`},
		{"/", `"generated_text":" `, `"generated_text":"Once `}},

	"check-total": {{"/generate", `Given: 4`, "Given: 5"}, {"/generate", `"validation"`, `"generation"`},
		{"/generate", `"Input validation error: `, `"`}},
	"check-input": {{"/generate", "`truncate`", "`cut`"}, {"/generate", `Given: \d+ .inputs`,
		"Given: 140 `inputs"}},
	"check-stream-best-of": {{"/generate_stream", "`best_of`", "`n`"}, {"/generate_stream", `^200`, "422"}},
	"check-stream-prefill": {{"/generate_stream", `prefill|decoder_input_details`, "details"}},
	"check-whitespace":     {{"/generate", `^200`, "422"}},

	"stream": {{"/generate_stream", `"index":(\d)`, `"index":0`},
		{"/generate_stream", `"generated_text":null,`, ""}, {"/generate_stream", `"details":null,`, ""},
		{"/generate_stream", `"generated_text":" `, `"generated_text":"`}, {"/generate_stream", `\n\n$`,
			"\n\ndata: [DONE]\n\n"}, {"/generate_stream", `data: `, "data:"}, {"/generate_stream", `data: `,
			"event: token\ndata: "}, {"/generate_stream", `\n\n$`, "\n"}, {"tgi-0.6 /generate_stream", `data:`,
			"data: "}, {"tgi-0.6 /generate_stream", `"details":null,`, `"details":null,"index":1,`},
		{"/generate_stream", `text/event-stream`, "text/plain"}, {"/generate_stream", `"special":false,`, ""},
		{"/generate_stream", `"generated_text":null`, `"generated_text":""`}},
	"stream-details": {{"/generate_stream", `"input_length":4`, `"input_length":3`},
		{"/generate_stream", `"generated_tokens":6`, `"generated_tokens":5`}, {"/generate_stream", `"seed":7`,
			`"seed":null`}, {"tgi-2.2 /generate_stream", `"seed":7`, `"seed":7,"input_length":4`}},
	"stream-headers": {{"/generate_stream", `X-Accel-Buffering: .*\n`, ""},
		{"/generate_stream", `Cache-Control: .*\n`, ""}, {"/generate_stream", `\n\n`, "\nX-Total-Time: 1\n\n"},
		{"/generate_stream", `X-Compute-Characters: 16`, "X-Compute-Characters: 4"},
		{"/generate_stream", `X-Compute-Type: .*\n`, ""}},
	"stream-invalid": {{"/generate_stream", `^200`, "422"}, {"/generate_stream", `"validation"`, `"invalid"`},
		{"/generate_stream", `\n\n$`, "\n\ndata: {}\n\n"}},
	"stream-full-text":      {{"/generate_stream", `Once upon a time`, ""}},
	"stream-top":            {{"/generate_stream", `top_tokens`, "tops"}},
	"stream-no-done":        {{"/", `\n\n$`, "\n\ndata: [DONE]\n\n"}},
	"stream-compat":         {{"/", `"generated_text":" `, `"generated_text":"Once `}},
	"stream-default-length": {{"/generate_stream", `(?s)data: \{[^\n]*"index":100,.*`, `data: {"index":100}` + "\n\n"}},

	"vertex": {{"/vertex", `\[("[^"]*"),"[^"]*",("[^"]*")\]`, "[$1,$2]"}, {"/vertex", `predictions`,
		"texts"}},
	"vertex-empty": {{"/vertex", `^422`, "200"}, {"/vertex", `"error_type":"[^"]*"`,
		`"error_type":"validation"`}},
	"vertex-failure":         {{"/vertex", `^500`, "422"}},
	"vertex-chat":            {{"/vertex", `^200`, "422"}},
	"invocations":            {{"/invocations", `\n\n\[(.*)\]`, "\n\n$1"}, {"/invocations", `"index":1,`, ""}},
	"invocations-chat":       {{"/invocations", `chat.completion`, "text_completion"}},
	"invocations-completion": {{"/invocations", `^200`, "422"}},
	"invocations-none":       {{"/invocations", `SagemakerRequest`, "Request"}, {"/invocations", `^422`, "400"}},
	"kserve-server":          {{"/v2", `"metrics"`, `"figures"`}, {"/v2", `"text-generation-inference"`, `"tgi"`}},
	"kserve-health":          {{"/v2/health/ready", `true`, "false"}, {"/v2/health/live", `^200`, "204"}},
	"kserve-model":           {{"/v2/models/some-model/versions/7", `"7"`, `"1"`}},
	"kserve-infer": {{"/v2/models/m/versions/1/infer", `BYTES`, "UINT8"}, {"/v2/models/m/versions/1/infer",
		`"name":"out"`, `"name":"in"`}, {"/v2/models/m/versions/1/infer", `\[1,`, "[2,"},
		{"/v2/models/m/versions/1/infer", `"data":\[32,`, `"data":[33,`}, {"/v2/models/m/versions/1/infer", `"id":"7"`,
			`"id":"8"`}},
	"kserve-length": {{"/v2/models/m/versions/1/infer", `length mismatch"`, `mismatch"`}},
	"kserve-utf8": {{"/v2/models/m/versions/1/infer", `"utf8"`, `"validation"`},
		{"/v2/models/m/versions/1/infer", `index 1`, "index 0"}},

	"models": {{modelsPath, `"id":"fake"`, `"id":"other"`}, {modelsPath, `"list"`, `"models"`}},
	"models-one": {{modelsPath + "/fake", `"id":"fake"`, `"id":"other"`}, {modelsPath + "/no-such/model",
		`^404`, "200"}, {modelsPath + "/no-such/model", `"code":"[^"]*"`, `"code":null`}},
	"chat": {{chatPath, `"total_tokens":\d+`, `"total_tokens":1`}, {chatPath, `"created":(\d+)`,
		`"created":${1}000`}, {chatPath, `"index":0`, `"index":1`}, {chatPath, `-native`, ""},
		{chatPath, `"content":"[^"]*"`, `"content":""`}, {chatPath, `"logprobs":null`, `"logprobs":{"content":[]}`},
		{chatPath, `X-Total-Time: .*\n`, ""}, {chatPath, `"chat.completion"`, `"text_completion"`},
		{chatPath, `"model":"fake"`, `"model":""`}},
	"chat-ids": {{chatPath, `"id":"[^"]*"`, `"id":"chatcmpl-00000000"`}, {chatPath, `"id":"[^"]*"`,
		`"id":""`}, {"tgi-2.2 " + chatPath, `"id":""`, `"id":"x"`}},
	"chat-end": {{chatPath, `"length"`, `"stop"`}, {chatPath, `"stop"`, `"eos_token"`},
		{"tgi-2.2 " + chatPath, `"eos_token"`, `"stop"`}},
	"chat-parts": {{chatPath, `^200`, "422"}},
	"chat-model": {{chatPath, `"model":"some/adapter"`, `"model":"fake"`}, {"tgi-2.2 " + chatPath,
		`"model":"fake"`, `"model":"dummy"`}},
	"chat-most-tokens": {{chatPath, `"completion_tokens":3`, `"completion_tokens":100`}},
	"chat-stop": {{chatPath, `("content":"[^"]*)"(,"role":"assistant"},"finish_reason"|},"finish|)`,
		`$1 stop"$2`}, {chatPath, `"finish_reason":"stop"`, `"finish_reason":"stop_sequence"`}, {"tgi-2.2 " + chatPath,
		`stop_sequence`, "stop"}},
	"chat-logprobs": {{chatPath, `"top_logprobs":\[\{.*?\}\]`, `"top_logprobs":[]`}, {chatPath, `"bytes":\[1\],`,
		""}, {chatPath, `"logprob":-0.25`, `"logprob":0.25`}},
	"chat-n":       {{chatPath, `"index":2`, `"index":1`}},
	"chat-top-p":   {{chatPath, `^200`, "422"}, {"! " + chatPath, `^422`, "400"}},
	"chat-penalty": {{chatPath, `^200`, "422"}},
	"chat-error": {{chatPath, `"error":\{"code":"[^"]*","message":("[^"]*"),[^}]*\}`, `"error":$1`},
		{"tgi-2.2 " + chatPath, `"error":("[^"]*")`, `"error":{"message":$1}`}, {chatPath, `strictly positive`,
			"positive"}, {chatPath, `^422`, "400"}},
	"chat-error-body": {{chatPath, "`messages`", "`message`"}, {chatPath, `^415`, "400"},
		{chatPath, `^400`, "422"}},
	"chat-stream": {{chatPath, `,"role":"assistant"`, ""}, {chatPath, `\{"content":" `,
		`{"role":"assistant","content":" `}, {"tgi-2.2 " + chatPath, `,"role":"assistant"`, ""},
		{chatPath, `data: \[DONE\]\n\n`, ""}, {chatPath, `"finish_reason":"length"`, `"finish_reason":null`},
		{chatPath, `"finish_reason":null`, `"finish_reason":"length"`}, {chatPath, `"object":"chat.completion.chunk"`,
			`"object":"chat.completion.chunk","usage":null`}, {"! " + chatPath, `"usage":null`, `"usages":null`},
		{chatPath, `(?s)data: [^\n]*\n\n(data: \[)`, `data: {"choices":[]}` + "\n\n$1"},
		{chatPath, `"finish_reason":null,`, ""}, {chatPath, `Cache-Control: .*\n`, ""}, {chatPath, `"created":(\d+)`,
			`"created":"$1"`}, {"tgi-2.2 " + chatPath, `data: `, "data:"}, {chatPath, `(\{"content":") (\w)`, `$1$2`}},
	"chat-stream-usage": {{chatPath, `(?s)data: [^\n]*\n\n(data: \[)`, "$1"}, {chatPath, `"usage":null`,
		`"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}`}, {chatPath, `"choices":\[\]`,
		`"choices":null`}, {"tgi-2.2 " + chatPath, `data: \[DONE`, `data: {"choices":[]}` + "\n\ndata: [DONE"},
		{chatPath, `"total_tokens":\d+`, `"total_tokens":1`}},
	"chat-stream-n":        {{chatPath, `"index":1`, `"index":0`}, {chatPath, `(\{"content":") (\w)`, `$1$2`}},
	"chat-stream-logprobs": {{chatPath, `"logprobs":\{.*?\}\]\}\]\}`, `"logprobs":null`}},
	"chat-stream-error": {{chatPath, `^422`, "200"}, {"tgi-2.2 " + chatPath, `^200`, "422"}, {"tgi-2.2 " + chatPath,
		`data: \[DONE\]\n\n`, ""}, {"!tgi-3 " + chatPath, `,"message"`, `,"text"`}, {"!tgi-3 " + chatPath,
		`"http_status_code":422`, `"http_status_code":500`}},
	"chat-stream-template": {{chatPath, `Template error: `, ""}, {chatPath, `"template_error"`, `"validation"`},
		{"tgi-2.2 " + chatPath, `(?s)application/json(.*\n\n)(.*)`, "text/event-stream${1}data: $2\n\n"}},

	"tools": {{chatPath, `"id":"call_00000001"`, `"id":""`}, {chatPath, `"name":"get_time"`,
		`"name":"get_date"`}, {chatPath, `"arguments":"[^}]*\}"`, `"arguments":{}`}, {chatPath, `"arguments":"\{`,
		`"arguments":"`}, {chatPath, `"content":null,`, ""}, {chatPath, `"tool_calls"(,"index"|\})`, `"stop"$1`},
		{"tgi-2.2 " + chatPath, `"id":"0"`, `"id":"1"`}, {"tgi-2.2 " + chatPath, `"arguments":\{[^}]*\}`,
			`"arguments":"{}"`}},
	"tools-stream": {{chatPath, `"index":0,"type"`, `"index":1,"type"`}, {chatPath, `"arguments":"e`,
		`"arguments":null,"x":"e`}, {chatPath, `CET\\"\}"\},"index"`, `CET\"x}"},"index"`}, {"tgi-2.2 " + chatPath,
		`"name":null`, `"name":"get_time"`}, {chatPath, `"id":"call_00000001",("index")`, `$1`}},
	"tools-required": {{chatPath, `"name":"get_time"`, `"name":"get-weather.now"`},
		{chatPath, `"tool_calls":\[[^\]]*\]`, `"tool_calls":[]`}, {chatPath, `(?s)^200.*`,
			"422\nContent-Type: application/json\n\n" +
				`{"error":{"message":"no","type":"t","param":null,"code":null},"error_type":"tool_error"}`}},
	"tools-none": {{chatPath, `("content":"[^"]*")`, `$1,"tool_calls":[]`}},
	"tools-unknown": {{chatPath, `^422`, "400"}, {chatPath, `"tool_error"`, `"validation"`},
		{chatPath, `no_such`, "it"}},
	"tools-refused": {{chatPath, `tools\[1\]`, "tools[0]"}, {chatPath, `tools\[0\]\.type`, "type"},
		{chatPath, "`functions`", "`function`"}, {chatPath, `^422`, "200"}},
	"tools-results": {{chatPath, `^200`, "422"}},

	"grammar-regex": {{"/generate", `"generated_text":"`, `"generated_text":" `}, {"/generate", `eos_token`,
		"length"}, {"/generate", `-42`, "-4x"}},
	"grammar-json": {{"/generate", `\\"cat\\"`, `\"cow\"`}, {"/generate", `true\}`, "1}"},
		{"/generate", `"generated_text":"\{`, `"generated_text":"`}},
	"grammar-stream": {{"/generate_stream", `"generated_text":"red`, `"generated_text":"green`}},
	"grammar-shape":  {{"/generate", `^422`, "200"}, {"/generate", `parameters\.grammar: missing`, "missing"}},
	"grammar-invalid": {{"/generate", `^422`, "424"}, {"/generate", `grammar is not valid`, "no"},
		{"/generate", `line 1, column 1: `, ""}, {"/generate", `#/properties/a`, "#"}, {"/generate", `"validation"`,
			`"grammar"`}},
	"grammar-chat":   {{chatPath, `\\"cat\\"`, `7`}, {chatPath, `^200`, "422"}},
	"grammar-guided": {{completionPath, `"text":"yes`, `"text":"maybe`}, {completionPath, `"text":"blue`, `"text":"`}},

	"completion": {{completionPath, `"text":" `, `"text":"`}, {completionPath, `"prompt_tokens":4`,
		`"prompt_tokens":3`}, {completionPath, `cmpl-`, "x-"}, {completionPath, `"usage":`, `"use":`},
		{completionPath, `"logprobs":null`, `"logprobs":[]`}},
	"completion-prompts": {{completionPath, `"index":1`, `"index":2`},
		{completionPath, `("index":0,.*"text":"[^"]*)`, "${1}!"}},
	"completion-prompts-most": {{completionPath, `batch size exceeded`, "validation"}, {completionPath, `size of 4`,
		"size of 5"}},
	"completion-prompts-none": {{completionPath, `Empty array`, "Nothing"}, {completionPath, `^422`, "200"}},
	"completion-suffix":       {{completionPath, `suffix not supported`, "validation"}},
	"completion-stream": {{completionPath, `data: \[DONE\]\n\n`, ""},
		{completionPath, `(data: .*)"finish_reason":"length"`, `$1"finish_reason":"stop"`},
		{"tgi-2.2 " + completionPath, `"finish_reason":""`, `"finish_reason":null`},
		{completionPath, `"finish_reason":null`, `"finish_reason":""`}, {"!tgi-3 " + completionPath,
			`(data: .*)"finish_reason":"length"`, `$1"finish_reason":""`}, {completionPath, `"object"`,
			`"usage":null,"object"`}, {completionPath, `"text":" `, `"text":"`}},
	"completion-stream-prompts": {{completionPath, `"index":1`, `"index":0`}},
	"completion-stream-usage": {{completionPath, `"choices":\[\]`, `"choices":null`}, {completionPath, `"usage":null`,
		`"use":null`}},
	"completion-tokens": {{completionPath, `^200`, "422"}},
	"completion-echo":   {{completionPath, `Once upon a time`, ""}},
	"completion-logprobs": {{completionPath, `"text_offset":\[0,`, `"text_offset":[1,`},
		{completionPath, `"token_logprobs":\[[^,]*,`, `"token_logprobs":[`}, {completionPath, `"top_logprobs"`,
			`"tops"`}},
	"completion-end": {{completionPath, `"length"`, `"stop"`}},

	"shared": {{sharedPath + "/generate", `"generated_tokens":5`, `"generated_tokens":4`},
		{sharedPath + "/generate_stream", `"index":2`, `"index":7`}, {sharedPath + "/generate", `^422`, "400"},
		{sharedPath + "/generate", `X-Queue-Time: .*\n`, ""}},
	"shared-example": {{sharedPath + "/generate", `^200`, "422"}, {"/generate", `"seed":\d+`, `"seed":null`},
		{sharedPath + "/generate_stream", `"error_type":"validation"`, `"error_type":"x"`},
		{"/generate", `"prefill":\[[^\]]*\]`, `"prefill":[]`}},
	"shared-default": {{"/info", `"model_id":"fake"`, `"model_id":"other"`}, {"/", `Once upon`, "Twice upon"},
		{sharedPath + "/generate", `"generated_text":" `, `"generated_text":"`}, {"/generate", `expected a string`,
			"expected text"}},
	"shared-unknown": {{"/generate", `^404`, "422"}, {chatPath, `"code":"model_not_found","message"`, `"message"`},
		{chatPath, `model_not_found"\}$`, `not_found"}`}, {"/info", `^404`, "400"}, {onePath, `text/plain`,
			"application/json"}, {"/tokenize", `"model_not_found"`, `"not_found"`}, {"/invocations", `does not exist`,
			"is none"}},
	"shared-continue": {{onePath, `^400`, "409"}, {onePath, `generated by`, "told by"}, {onePath, `\n\n (\w)`,
		"\n\n!$1"}, {onePath, `text/plain`, "application/json"}},
	"shared-models": {{"/info", `"model_id":"org/second"`, `"model_id":"fake"`}, {chatPath, `"model":"org/second"`,
		`"model":"fake"`}, {completionPath, `"model":"fake"`, `"model":"org/second"`}},

	"models-list": {{modelsPath, `"source_url":"urn`, `"source_url":"/urn`}, {modelsPath, `"status":"running"`,
		`"status":"on"`}, {modelsPath, `"id":"org/second"`, `"id":"fake"`}, {modelsPath, `^422`, "200"},
		{modelsPath, `"version":"1"`, `"version":1`}, {modelsPath, `"error_type":"validation",?`, ""}},
	"models-get": {{modelsPath + "/fake", `"parameters":\{[^}]*\},`, ""}, {modelsPath + "/org/second",
		`"id":"org/second"`, `"id":"fake"`}, {modelsPath + "/fake", `"n_parallel":8`, `"n_parallel":16`},
		{modelsPath + "/tgi", `"id":"fake"`, `"id":"tgi"`}, {modelsPath + "/no-such/model", `^404`, "400"},
		{modelsPath + "/fake", `"status":"running"`, `"status":"stopped"`}, {modelsPath + "/fake", `"temperature":1,`,
			`"temperature":3,`}},
	"models-keys": {{modelsPath + "/start", `^403`, "202"}, {modelsPath + "/no-such/model", `^403`, "200"},
		{modelsPath + "/pull", `^403`, "500"}},
	"models-refused": {{modelsPath + "/stop", `^404`, "200"}, {modelsPath + "/fake", `^409`, "200"},
		{modelsPath + "/pull", `^422`, "202"}, {modelsPath + "/import", `"message":"no"\}`, `"message":"yes"}`},
		{modelsPath + "/start", `"bad_request"`, `"validation"`}},
	"models-stop-start": {{modelsPath + "/org/second/stop", `^202`, "204"}, {modelsPath + "/org/second/start", `^200`,
		"202"}, {"/generate", `Retry-After: .*\n`, ""}, {chatPath, `"model_stopped"\}$`, `"loading"}`},
		{modelsPath + "/start", `ignored: ngl`, ""}, {modelsPath + "/org/second", `"state":"stopped"`,
			`"state":"running"`}},

	"inference-one": {{onePath, `text/plain`, "application/json"}, {onePath, `X-Finish-Reason: length`,
		"X-Finish-Reason: stop"}, {onePath, `X-Generated-Tokens: 4`, "X-Generated-Tokens: 5"},
		{onePath, `\n\n(.)`, "\n\n!$1"}, {onePath, `^200`, "206"}},
	"inference-continue": {{onePath, `\n\n(Once)`, "\n\n"}, {onePath, `\n\n (\w)`, "\n\n!$1"}},
	"inference-end":      {{onePath, `</s>`, ""}, {onePath, `\n\n`, "\n\n "}},
	"inference-batch": {{batchPath, `^206`, "200"}, {batchPath, `"prompt":"[^"]*",`, ""},
		{batchPath, `"response":" `, `"response":"`}, {batchPath, `"request_id":"[^"]*"`, `"request_id":"x"`},
		{batchPath, `"prompt"`, `"inputs"`}},
	"inference-refused": {{onePath, `^400`, "422"}, {batchPath, `Duplicate`, "Equal"}, {onePath, `Invalid JSON format`,
		"Invalid Data Format"}, {batchPath, `Invalid Data Format`, "[]"}, {onePath, `given 0`, "given zero"}},
	"inference-probes": {{"/api/alive", `^200`, "401"}, {"/api/ready", `\n\nready`, "\n\nalive"}},

	"responses": {{responsesPath, `"total_tokens":\d+`, `"total_tokens":1`}, {responsesPath, `"id":"resp_`, `"id":"r_`},
		{responsesPath, `"output_text"`, `"text"`}, {responsesPath, `"incomplete"`, `"completed"`}, {responsesPath,
			`"a":"b"`, `"a":"c"`}, {responsesPath, `"object":"response"`, `"object":"reply"`}},
	"responses-stream": {{responsesPath, `"sequence_number":3`, `"sequence_number":4`}, {responsesPath,
		`event: response.created`, "event: created"}, {responsesPath, `"delta":"[^"]*"`, `"delta":"x"`},
		{responsesPath, `response.output_item.done`, "response.output_item.over"}, {responsesPath,
			`(?s)event: response.incomplete.*`, ""}},
	"responses-kept": {{responsesPath + "/resp_1", `^200`, "404"}, {responsesPath + "/resp_1", `^404`, "200"},
		{responsesPath + "/resp_1/input_items", `Tell me`, "Told"}, {responsesPath, `"input_tokens":\d+`,
			`"input_tokens":3`}, {responsesPath + "/resp_3", `^404`, "200"}},
	"responses-background": {{responsesPath, `"queued"`, `"completed"`}, {responsesPath + "/resp_1",
		`"output_text"`, `"text"`}, {responsesPath + "/resp_1", `"sequence_number":3`, `"sequence_number":2`}},
	"responses-refused": {{responsesPath, `^400`, "422"}, {responsesPath, `web_search`, "it"}, {responsesPath,
		`"invalid_request_error"`, `"server_error"`}},
	"messages": {{messagesPath, `"max_tokens"`, `"end_turn"`}, {messagesPath, `Request-Id: .*\n`, ""},
		{messagesPath, `"input_tokens":\d+`, `"input_tokens":1`}, {messagesPath + "/count_tokens", `\d+\}`, "1}"},
		{messagesPath, `"type":"text"`, `"kind":"text"`}},
	"messages-stream": {{messagesPath, `event: message_stop`, "event: stop"},
		{messagesPath, `content_block_stop`, "content_block_end"},
		{messagesPath, `"delta":\{"text":"[^"]*"`,
			`"delta":{"text":"x"`}},
	"messages-refused": {{messagesPath, `^400`, "422"}, {messagesPath, `"type":"error"`, `"type":"failure"`},
		{messagesPath, `"request_id":"[^"]*"`, `"request_id":"1"`}, {messagesPath, `web_search_20250305`, "it"}},

	"texts-refused": {{embeddingsPath, `^422`, "400"}, {embeddingsPath, `encoding_format`, "it"},
		{rerankPath, `^422`, "400"}, {rerankPath, `top_n`, "it"}, {embedPath, `^413`, "400"},
		{embedPath, `"Validation"`, `"validation"`}},
	"texts-embeddings": {{embeddingsPath, `"index":1`, `"index":0`},
		{embeddingsPath, `"embedding":\[`, `"embedding":[0.5,`},
		{embeddingsPath, `"embedding":"...`, `"embedding":"AAA`},
		{embeddingsPath, `"total_tokens":`, `"total_tokens":1`},
		{embedPath, `0\.`, "1."}},
	"texts-similarity": {{similarPath, `\[`, "[0.1,"}, {similarPath, `,1`, ",0.9"}},
	"texts-rerank": {{teiRankPath, `"index":2`, `"index":5`}, {teiRankPath, `"index":1`, `"index":0`},
		{teiRankPath, `"text":"a"`, `"text":"b"`}, {rerankPath, `"index":[^,]*,`, `"index":3,`}},

	"files": {{filesPath, `"bytes":\d+`, `"bytes":3`}, {filesPath, `"filename":"[^"]*"`, `"filename":"x"`},
		{filesPath, `file-(\d)"`, `file-1$1"`}, {filesPath + "/file-1", `^404`, "200"},
		{filesPath + "/file-1/content", `custom_id`, "custom"}, {filesPath + "/file-1/content", `^404`, "200"},
		{filesPath + "/file-1", `"deleted":true`, `"deleted":false`}},
	"batches": {{batchesPath, `"batch_`, `"b_`}, {batchesPath, `"a":"b"`, `"a":"c"`},
		{batchesPath, `"data":\[`, `"data":[{},`}},
	"batches-refused": {{batchesPath, `^400`, "422"}, {batchesPath, `completion_window`, "it"},
		{batchesPath, `file-none`, "it"}, {filesPath, `purpose. must`, "it must"}, {batchesPath + "/batch_none", `^404`,
			"200"}, {batchesPath, `"invalid_request_error"`, `"server_error"`}},

	"ollama-chat": {{ollamaChat, `"length"`, `"stop"`}, {ollamaChat, `"eval_count":\d+`, `"eval_count":1`},
		{ollamaChat, `"content":"[^"]*"`, `"content":"x"`}, {ollamaChat, `"done":false`, `"done":true`},
		{ollamaChat, `application/x-ndjson`, "application/json"}, {ollamaChat, `"load_duration":1,`, ""},
		{ollamaChat, `"model":"tgi"`, `"model":"demo"`}},
	"ollama-generate": {{ollamaGenerate, `"response":"[^"]*"`, `"response":"x"`}, {ollamaGenerate,
		`"context":\[[^\]]*\],`, ""}, {ollamaGenerate, `"load"`, `"stop"`},
		{ollamaGenerate, `"done":`, `"context":[1],"done":`}},
	"ollama-refused": {{ollamaChat, `^400`, "422"}, {ollamaChat, `options.top_p`, "top_p"},
		{ollamaGenerate, `insert`, "it"}, {"/api/copy", `"error"`, `"message"`}},

	"metrics": {{"/metrics", `# TYPE tgi_queue_size gauge\n`, ""}, {"/metrics", `(tgi_queue_size) \d+`, "$1"},
		{"/metrics", `text/plain`, "application/json"}},
	"metrics-names": {{"/metrics", `tgi_request_queue_duration`, "tgi_queue_duration"},
		{"/metrics", `TYPE tgi_request_count counter`, "TYPE tgi_request_count gauge"},
		{"tgi-0.6 !/metrics", `tgi_batch_next_size`, "tgi_batch_size"}},
	"metrics-counts": {{"/metrics", `\ntgi_request_success \d+`, "\ntgi_request_success 1"},
		{"/metrics", `err="validation"`, `err="invalid"`}, {"/metrics", `method="prefill"`, `method="x"`}},
	"metrics-more": {{"/metrics", `tgi_kv_usage gauge`, "tgi_kv_usage counter"}, {"/metrics", `tgi_kv_usage 0`,
		"tgi_kv_usage 7"}, {"/metrics", `token_duration_count \d+`, "token_duration_count 0"}},
	"metrics-buckets": {{"/metrics", `le="0.00015[^"]*"`, `le="0.0002"`},
		{"/metrics", `(?m)^tgi_request_input_length_bucket\{le="1.39"\} 0\n`, ""}},
}

// target splits what a mutation is on.
func (m mutation) target() (dialect string, this bool, path string) {
	dialect, this, path = TGI3, !strings.Contains(m.on, "!"), strings.ReplaceAll(m.on, "!", "")
	if before, after, ok := strings.Cut(path, " "); ok {
		path = after
		if before != "" {
			dialect = before
		}
	}
	return dialect, this, path
}

// TestMutants: every rule that is broken is reported by its case.
func TestMutants(t *testing.T) {
	table, broken := map[string][]mutation{}, broken()
	for id, list := range mutations {
		table[id] = list
	}
	for _, c := range checks { // alone, and in the place of a later rule
		table["check-"+c.id] = []mutation{{"/generate", `^422`, "200"}, {"/generate", `"error_type":"validation"`,
			`"error_type":"invalid"`}, {"/generate", `("error":"Input validation error: )[^"]*`, "${1}no"}}
	}
	for _, c := range Cases() {
		if len(table[c.ID])+len(broken[c.ID]) == 0 {
			t.Errorf("nothing breaks %s", c.ID)
		}
		for _, m := range table[c.ID] {
			dialect, this, path := m.target()
			server := &mutant{sound: &fake{ours: this, name: dialect, key: "k", plural: several(c.ID)}, path: path,
				old: regexp.MustCompile(m.old), new: m.new}
			expect(t, fmt.Sprintf("%+v", m), server, dialect, c.ID)
			if server.hits.Load() == 0 {
				t.Errorf("%s: %+v changes nothing", c.ID, m)
			}
		}
		for name, f := range broken[c.ID] {
			f.key, f.ours, f.name = "k", true, TGI3
			expect(t, name, f, TGI3, c.ID)
		}
		delete(table, c.ID)
	}
	for _, c := range checks {
		if !c.alone && c.inputs == nil && c.id != "truncate" {
			expect(t, "a later rule comes first", &fake{key: "k", ours: true, name: TGI3, hasty: true}, TGI3,
				"check-"+c.id)
		}
	}
	for id := range table {
		t.Errorf("no case %s", id)
	}
}

// several says whether a case is about servers with several models.
func several(id string) bool {
	return strings.HasPrefix(id, "shared") || strings.HasPrefix(id, "models-") && id != "models-one"
}

// expect runs one case against a server that breaks its rule.
func expect(t *testing.T, name string, h http.Handler, dialect, id string) {
	t.Helper()
	target := serve(t, h, dialect, "k")
	if id == "overloaded" {
		target.Timeout = 2 * time.Second // for the server that never has room again
	}
	report := run(t, target, func(one string) bool { return one == id })
	if len(report.Violations()) == 0 {
		t.Errorf("%s: %s is not reported (left out: %q)", id, name, report.Results[0].Skipped)
	}
}
