package load

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
)

// request is one that a client sends.
type request struct {
	path, kind string // kind is its Content-Type
	body       string
	// form is what a reply with status 200 looks like.
	form form
	// status is what the server must say to it, 0 for what depends on the others:
	// 200 or 429.
	status int
	// counted says that it comes as far as tgi_request_count: its body is one
	// that can be read.
	counted bool
	// leave is after how many events of the reply the client goes, -1 for never;
	// 0 is before the header, or while it waits for it.
	leave int
}

// form is a kind of reply.
type form int

const (
	whole      form = iota // one JSON value
	tgiStream              // events, the last of which has generated_text
	chatStream             // events with choices, then [DONE]
)

// sound returns a request that the server can answer.
func sound(rng *rand.Rand) request {
	prompt := fmt.Sprintf("<|im_start|>user\\nTell me a story about a fox and %d lanterns.<|im_end|>\\n<|im_start|>assistant\\n", rng.IntN(50))
	if rng.IntN(4) == 0 {
		prompt = strings.Repeat("Once upon a time there was an island. ", 1+rng.IntN(20))
	}
	n := 1 + rng.IntN(40)
	r := request{kind: "application/json", counted: true, leave: -1}
	native := fmt.Sprintf(`{"inputs":"%s","parameters":{"max_new_tokens":%d,"seed":%d,"details":true`, prompt, n,
		rng.Uint32())
	switch rng.IntN(7) {
	case 0:
		r.path, r.body = "/generate", native+`}}`
	case 1:
		r.path, r.body = "/generate", strings.Replace(native, `"seed"`, `"best_of":2,"do_sample":true,"unknown"`, 1)+
			`}}`
	case 2:
		r.path, r.body = "/", native+`}}`
	case 3, 4:
		r.path, r.body, r.form = "/generate_stream", native+`,"do_sample":true}}`, tgiStream
	case 5:
		r.path, r.body = "/v1/completions", fmt.Sprintf(`{"model":"tgi","prompt":"%s","max_tokens":%d}`, prompt, n)
	case 6:
		r.path, r.form = "/v1/chat/completions", chatStream
		r.body = fmt.Sprintf(`{"model":"tgi","messages":[{"role":"user","content":"Story %d"}],"max_tokens":%d,"n":%d,"stream":true}`, rng.IntN(50), n, 1+rng.IntN(2))
	}
	return r
}

// leaving returns a request whose client does not stay to the end.
func leaving(rng *rand.Rand) request {
	r := sound(rng)
	r.body = strings.NewReplacer(`"max_new_tokens":`, `"max_new_tokens":2`, `"max_tokens":`,
		`"max_tokens":2`).Replace(r.body)
	r.leave = 0
	if r.form != whole {
		r.leave = rng.IntN(12)
	}
	return r
}

// broken returns a request that the server must refuse, and how.
func broken(rng *rand.Rand) request {
	all := []request{
		{path: "/generate", body: `{"inputs":"x"`, status: http.StatusBadRequest},
		{path: "/generate", body: `{"inputs":7}`, status: http.StatusUnprocessableEntity},
		{path: "/generate", body: "\xff\xfe", status: http.StatusBadRequest},
		{path: "/generate", body: ``, status: http.StatusBadRequest},
		{path: "/generate", body: `{"inputs":"x"}`, kind: "text/plain", status: http.StatusUnsupportedMediaType},
		{path: "/generate", body: `{"inputs":"` + strings.Repeat("x", 3<<20) + `"}`,
			status: http.StatusRequestEntityTooLarge},
		{path: "/generate", body: `{"inputs":"x","parameters":{"temperature":-1}}`,
			status: http.StatusUnprocessableEntity, counted: true},
		{path: "/generate", body: `{"inputs":"x","parameters":{"max_new_tokens":100000}}`,
			status: http.StatusUnprocessableEntity, counted: true},
		{path: "/generate", body: `{"inputs":""}`, status: http.StatusUnprocessableEntity, counted: true},
		{path: "/generate_stream", body: `{"inputs":"x","parameters":{"top_p":1}}`, form: tgiStream,
			status: http.StatusUnprocessableEntity, counted: true},
		{path: "/v1/chat/completions", body: `{"messages":7,"stream":true}`, status: http.StatusUnprocessableEntity},
		{path: "/v1/completions", body: `{"prompt":"x","max_tokens":100000}`, status: http.StatusUnprocessableEntity,
			counted: true},
	}
	r := all[rng.IntN(len(all))]
	if r.kind == "" {
		r.kind = "application/json"
	}
	r.leave = -1
	return r
}
