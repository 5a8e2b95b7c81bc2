package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// fake is a server inside the process: a RoundTripper whose answers take time of
// the test's clock. Its tokenizer puts a BOS before the text and cuts words into
// pieces of at most most letters.
type fake struct {
	most int
	// stream writes the answer to the n-th request (from 0) with a prompt.
	stream func(w io.Writer, n int, prompt string)
	// refuses is the status of all answers, says their body; 0 for answers that say something.
	refuses int
	says    string
	// total is what a prompt and its output may have together, as GET /info has it; 0 where there is no such route.
	total int

	mu      sync.Mutex
	prompts []string
	sent    []time.Time
	outputs []int // max_new_tokens of those that ignore the end of a text
}

func (f *fake) tokens(text string) []piece {
	list := []piece{{0, 0}}
	at := 0
	for _, word := range strings.Split(text, " ") {
		start := max(at-1, 0) // the space belongs to the word
		for end := at + len(word); at < end; {
			at = min(at+f.most, end)
			list = append(list, piece{start, at})
			start = at
		}
		at++
	}
	return list
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	var body struct {
		Inputs     string
		Parameters struct {
			MaxNewTokens int   `json:"max_new_tokens"`
			DoSample     *bool `json:"do_sample"`
			IgnoreEOS    bool  `json:"ignore_eos"`
			Details      bool
		}
	}
	if r.URL.Path == "/info" && f.total > 0 {
		info := fmt.Sprintf(`{"max_total_tokens":%d}`, f.total)
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(info))}, nil
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	resp := &http.Response{StatusCode: http.StatusOK, Request: r, Header: http.Header{}}
	if f.refuses != 0 {
		resp.StatusCode, resp.Body = f.refuses, io.NopCloser(strings.NewReader(f.says))
		return resp, nil
	}
	switch r.Method + " " + r.URL.Path {
	case "POST /tokenize":
		type wire struct {
			ID    int    `json:"id"`
			Text  string `json:"text"`
			Start int    `json:"start"`
			Stop  int    `json:"stop"`
		}
		var list []wire
		for _, p := range f.tokens(body.Inputs) {
			list = append(list, wire{1, body.Inputs[p.Start:p.Stop], p.Start, p.Stop})
		}
		data, err := json.Marshal(list)
		resp.Body = io.NopCloser(strings.NewReader(string(data)))
		return resp, err
	case "POST /generate_stream":
		if body.Parameters.DoSample == nil || *body.Parameters.DoSample || !body.Parameters.Details ||
			body.Parameters.MaxNewTokens < 1 {
			return nil, fmt.Errorf("parameters %+v", body.Parameters)
		}
		f.mu.Lock()
		n := len(f.prompts)
		f.prompts, f.sent = append(f.prompts, body.Inputs), append(f.sent, time.Now())
		if body.Parameters.IgnoreEOS {
			f.outputs = append(f.outputs, body.Parameters.MaxNewTokens)
		}
		f.mu.Unlock()
		in, out := io.Pipe()
		go func() {
			f.stream(out, n, body.Inputs)
			out.Close()
		}()
		stop := make(chan struct{})
		go func() { // a real transport breaks the body off when the context ends
			select {
			case <-r.Context().Done():
				in.CloseWithError(r.Context().Err())
			case <-stop:
			}
		}()
		resp.Body = &closer{in, stop, sync.Once{}}
		return resp, nil
	}
	return nil, fmt.Errorf("unexpected request %s %s", r.Method, r.URL.Path)
}

type closer struct {
	*io.PipeReader
	stop chan struct{}
	once sync.Once
}

func (c *closer) Close() error {
	c.once.Do(func() { close(c.stop) })
	return c.PipeReader.Close()
}

// steady answers with count tokens: the first after first, the others every gap.
func steady(count int, first, gap time.Duration) func(io.Writer, int, string) {
	return func(w io.Writer, _ int, prompt string) {
		time.Sleep(first)
		for i := range count - 1 {
			fmt.Fprintf(w, "data: %s\n\n", token(i))
			time.Sleep(gap)
		}
		fmt.Fprintf(w, "data: %s\n\n", final(count, 5))
	}
}

func token(i int) string {
	return fmt.Sprintf(`{"index":%d,"token":{"id":%d,"text":" a","logprob":-0.5,"special":false},"generated_text":null,"details":null}`, i+1, i)
}

func final(count, input int) string {
	return fmt.Sprintf(`{"index":%d,"token":{"id":2,"text":"</s>","logprob":0,"special":true},"generated_text":" a a","details":{"finish_reason":"eos_token","generated_tokens":%d,"seed":null,"input_length":%d}}`, count, count, input)
}
