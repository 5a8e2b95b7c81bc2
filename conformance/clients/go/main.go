// Command go asks the servers through openai-go and prints a line of JSON per
// check, as the scripts in the folders beside it do: see python/checks.py.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"
)

var (
	url, keyedURL, key = os.Getenv("TGI_URL"), os.Getenv("TGI_KEYED_URL"), os.Getenv("TGI_KEY")

	client = connect(url, "any")
	keyed  = connect(keyedURL, key)
)

const (
	question = "Where does Mira live?"
	answer   = "old mill"
	prompt   = "<|im_start|>user\n" + question + "<|im_end|>\n<|im_start|>assistant\n"
	weather  = "What is the weather in Paris?"
	// longTokens is more than a client waits for.
	longTokens = 900
)

// endless has no token that ends a text.
var endless = map[string]int64{"0": -100, "2": -100}

var checks = []struct {
	name string
	hold func(context.Context) error
}{
	{"chat", chat},
	{"chat: stream and its accumulator", stream},
	{"chat: a schema", schema},
	{"chat: a tool is called, and its result answered in the second turn", tools},
	{"chat: a streamed call", streamedCall},
	{"chat: tool_choice", toolChoice},
	{"chat: logprobs, n, stop", choices},
	{"completions, whole and streamed", completions},
	{"models", models},
	{"errors", refusals},
	{"keys: the right and a wrong one", keys},
	{"overload: 429, and the client's own retries get through", overload},
	{"leaving a stream ends its request", leaving},
}

func main() {
	out := json.NewEncoder(os.Stdout)
	for _, c := range checks {
		line := struct {
			Check string `json:"check"`
			Error string `json:"error"`
		}{Check: c.name}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		if err := c.hold(ctx); err != nil {
			line.Error = err.Error()
		}
		cancel()
		if err := out.Encode(line); err != nil {
			panic(err)
		}
	}
}

func connect(url, key string) openai.Client {
	return openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey(key), option.WithMaxRetries(0))
}

// asked is the request that the checks start from.
func asked(words string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: "tgi", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(words)},
		Temperature: openai.Float(0),
	}
}

func chat(ctx context.Context) error {
	r, err := client.Chat.Completions.New(ctx, asked(question))
	if err != nil {
		return err
	}
	if c := r.Choices[0]; !strings.Contains(c.Message.Content, answer) || c.FinishReason != "stop" {
		return fmt.Errorf("got %+v", c)
	}
	if u := r.Usage; u.CompletionTokens < 2 || u.TotalTokens != u.PromptTokens+u.CompletionTokens {
		return fmt.Errorf("usage %+v", u)
	}
	return nil
}

func stream(ctx context.Context) error {
	whole, err := client.Chat.Completions.New(ctx, asked(question))
	if err != nil {
		return err
	}
	p := asked(question)
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	got, err := gather(ctx, p)
	if err != nil {
		return err
	}
	if got.Choices[0].Message.Content != whole.Choices[0].Message.Content ||
		got.Usage.TotalTokens != whole.Usage.TotalTokens {
		return fmt.Errorf("got %+v, whole %+v", got.ChatCompletion, whole)
	}
	return nil
}

// gather streams a reply into the client's accumulator.
func gather(ctx context.Context, p openai.ChatCompletionNewParams) (openai.ChatCompletionAccumulator, error) {
	var got openai.ChatCompletionAccumulator
	s := client.Chat.Completions.NewStreaming(ctx, p)
	defer s.Close()
	for s.Next() {
		if !got.AddChunk(s.Current()) {
			return got, fmt.Errorf("a chunk that does not fit: %s", s.Current().RawJSON())
		}
	}
	if s.Err() == nil && len(got.Choices) == 0 {
		return got, errors.New("a stream without a choice")
	}
	return got, s.Err()
}

func schema(ctx context.Context) error {
	p := asked(question)
	p.Temperature, p.MaxTokens = openai.Float(1), openai.Int(400)
	p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
		JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "place", Strict: openai.Bool(true),
			Schema: map[string]any{
				"type": "object", "required": []string{"rooms"}, "additionalProperties": false,
				"properties": map[string]any{"rooms": map[string]any{"type": "integer", "minimum": 1, "maximum": 9}},
			}},
	}
	for seed := range 3 {
		p.Seed = openai.Int(int64(seed))
		r, err := client.Chat.Completions.New(ctx, p)
		if err != nil {
			return err
		}
		var place struct{ Rooms int }
		if err := json.Unmarshal([]byte(r.Choices[0].Message.Content), &place); err != nil || place.Rooms < 1 ||
			place.Rooms > 9 {
			return fmt.Errorf("got %q: %v", r.Choices[0].Message.Content, err)
		}
	}
	return nil
}

func withTool(p openai.ChatCompletionNewParams) openai.ChatCompletionNewParams {
	p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "get_weather", Description: openai.String("Get the weather of a city"),
		Parameters: shared.FunctionParameters{
			"type": "object", "required": []string{"city"},
			"properties": map[string]any{"city": map[string]any{"type": "string"}},
		},
	})}
	return p
}

// parisCalled holds that the one call of a choice is the one that the question asks for.
func parisCalled(c openai.ChatCompletionChoice) error {
	if c.FinishReason != "tool_calls" || len(c.Message.ToolCalls) != 1 {
		return fmt.Errorf("got %+v", c)
	}
	call := c.Message.ToolCalls[0]
	var args struct{ City string }
	if err := json.Unmarshal([]byte(call.Function.Arguments), &args); err != nil ||
		call.Function.Name != "get_weather" || args.City != "Paris" {
		return fmt.Errorf("got %+v: %v", call, err)
	}
	return nil
}

func tools(ctx context.Context) error {
	p := withTool(asked(weather))
	r, err := client.Chat.Completions.New(ctx, p)
	if err != nil {
		return err
	}
	m := r.Choices[0].Message
	if err := parisCalled(r.Choices[0]); err != nil {
		return err
	}
	p.Messages = append(p.Messages, m.ToParam(), openai.ToolMessage(`{"city": "Paris", "weather": "sunny"}`,
		m.ToolCalls[0].ID))
	r, err = client.Chat.Completions.New(ctx, p)
	if err != nil {
		return err
	}
	return holds(r.Choices[0].Message.Content, "sunny")
}

func streamedCall(ctx context.Context) error {
	got, err := gather(ctx, withTool(asked(weather)))
	if err != nil {
		return err
	}
	return parisCalled(got.Choices[0])
}

func toolChoice(ctx context.Context) error {
	function := openai.ChatCompletionNamedToolChoiceFunctionParam{Name: "get_weather"}
	named := openai.ToolChoiceOptionFunctionToolChoice(function)
	required := openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: param.NewOpt("required")}
	p := withTool(asked(question))
	p.Temperature, p.Seed, p.MaxTokens = openai.Float(1), openai.Int(1), openai.Int(400)
	for _, p.ToolChoice = range []openai.ChatCompletionToolChoiceOptionUnionParam{named, required} {
		r, err := client.Chat.Completions.New(ctx, p)
		if err != nil {
			return err
		}
		if calls := r.Choices[0].Message.ToolCalls; len(calls) != 1 || calls[0].Function.Name != "get_weather" {
			return fmt.Errorf("got %+v", r.Choices[0])
		}
	}
	p = withTool(asked(question))
	p.ToolChoice.OfAuto = param.NewOpt("none")
	r, err := client.Chat.Completions.New(ctx, p)
	if err != nil {
		return err
	}
	return holds(r.Choices[0].Message.Content, answer)
}

func choices(ctx context.Context) error {
	p := asked(question)
	p.N, p.Temperature, p.Seed, p.MaxTokens = openai.Int(2), openai.Float(1), openai.Int(7), openai.Int(5)
	p.Logprobs, p.TopLogprobs, p.LogitBias = openai.Bool(true), openai.Int(2), endless
	r, err := client.Chat.Completions.New(ctx, p)
	if err != nil {
		return err
	}
	if len(r.Choices) != 2 {
		return fmt.Errorf("%d choices", len(r.Choices))
	}
	for _, c := range r.Choices {
		if len(c.Logprobs.Content) != 5 || len(c.Logprobs.Content[0].TopLogprobs) != 2 || c.FinishReason != "length" {
			return fmt.Errorf("got %+v", c)
		}
	}
	p = asked(question)
	p.Stop.OfStringArray = []string{answer}
	if r, err = client.Chat.Completions.New(ctx, p); err != nil {
		return err
	}
	if c := r.Choices[0]; strings.Contains(c.Message.Content, answer) || c.FinishReason != "stop" {
		return fmt.Errorf("stopped: got %+v", c)
	}
	return nil
}

func completions(ctx context.Context) error {
	p := openai.CompletionNewParams{
		Model: "tgi", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String(prompt)},
		Temperature: openai.Float(0), MaxTokens: openai.Int(50),
	}
	r, err := client.Completions.New(ctx, p)
	if err != nil {
		return err
	}
	s := client.Completions.NewStreaming(ctx, p)
	defer s.Close()
	var text strings.Builder
	for s.Next() {
		for _, c := range s.Current().Choices {
			text.WriteString(c.Text)
		}
	}
	if s.Err() != nil || text.String() != r.Choices[0].Text {
		return fmt.Errorf("streamed %q, whole %q: %v", text.String(), r.Choices[0].Text, s.Err())
	}
	return holds(r.Choices[0].Text, answer)
}

func models(ctx context.Context) error {
	list, err := client.Models.List(ctx)
	if err != nil {
		return err
	}
	if len(list.Data) == 0 {
		return errors.New("no models")
	}
	for _, m := range list.Data {
		if got, err := client.Models.Get(ctx, m.ID); err != nil || got.ID != m.ID {
			return fmt.Errorf("%s: got %+v: %v", m.ID, got, err)
		}
	}
	_, err = client.Models.Get(ctx, "no-such-model")
	return refused(err, http.StatusNotFound, "no-such-model")
}

func refusals(ctx context.Context) error {
	p := asked(question)
	p.MaxTokens = openai.Int(100000)
	_, err := client.Chat.Completions.New(ctx, p)
	if err := refused(err, http.StatusUnprocessableEntity, "max"); err != nil {
		return err
	}
	_, err = gather(ctx, p)
	return refused(err, http.StatusUnprocessableEntity, "max")
}

func keys(ctx context.Context) error {
	r, err := keyed.Chat.Completions.New(ctx, asked(question))
	if err != nil {
		return err
	}
	if err := holds(r.Choices[0].Message.Content, answer); err != nil {
		return err
	}
	wrong := connect(keyedURL, "wrong")
	_, err = wrong.Chat.Completions.New(ctx, asked(question))
	return refused(err, http.StatusUnauthorized, "")
}

func overload(ctx context.Context) error {
	crowd := func(retries int) (failed []error) {
		p := asked(question)
		p.MaxTokens, p.LogitBias = openai.Int(200), endless
		errs := make([]error, 8)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { _, errs[i] = keyed.Chat.Completions.New(ctx, p, option.WithMaxRetries(retries)) })
		}
		all.Wait()
		for _, err := range errs {
			if err != nil {
				failed = append(failed, err)
			}
		}
		return failed
	}
	failed := crowd(0)
	if len(failed) == 0 {
		return errors.New("eight at once were taken where two may run")
	}
	for _, err := range failed {
		if err := refused(err, http.StatusTooManyRequests, ""); err != nil {
			return err
		}
	}
	return errors.Join(crowd(20)...)
}

// leaving holds that the server drops a request whose stream its client leaves.
// Some attempts: on a busy machine the text may be complete before that.
func leaving(ctx context.Context) error {
	p := asked(question)
	p.MaxTokens, p.LogitBias = openai.Int(longTokens), endless
	for range 5 {
		before, err := metric(ctx, `tgi_request_failure{err="dropped"}`)
		if err != nil {
			return err
		}
		s := client.Chat.Completions.NewStreaming(ctx, p)
		if !s.Next() {
			return fmt.Errorf("no first chunk: %w", s.Err())
		}
		s.Close()
		if dropped, err := counted(ctx, before); dropped || err != nil {
			return err
		}
	}
	return errors.New("no request counts as dropped after the client left five streams")
}

// counted waits until nothing runs, and a moment longer: the handler reports a
// little later than the engine.
func counted(ctx context.Context, before float64) (bool, error) {
	for idle := 0; idle < 50; time.Sleep(20 * time.Millisecond) {
		running, err := metric(ctx, "tgi_batch_current_size")
		if err != nil {
			return false, err
		}
		if running > 0 {
			continue
		}
		idle++
		if now, err := metric(ctx, `tgi_request_failure{err="dropped"}`); now > before || err != nil {
			return true, err
		}
	}
	return false, nil
}

// metric is the value of one of the server's figures, 0 while there is none.
func metric(ctx context.Context, name string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\S+)$`).FindSubmatch(b)
	if found == nil {
		return 0, nil
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

// refused holds that err is the client's for a status, with words of the server's in it if there are to be any.
func refused(err error, status int, words string) error {
	var e *openai.Error
	if !errors.As(err, &e) || e.StatusCode != status || !strings.Contains(e.Message, words) {
		return fmt.Errorf("got %v, want status %d with %q", err, status, words)
	}
	return nil
}

func holds(text, part string) error {
	if !strings.Contains(text, part) {
		return fmt.Errorf("got %q, want %q in it", text, part)
	}
	return nil
}
