package host

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tgi/models/vision/visiontest"
	"tgi/server/config"
)

// dataURI returns a picture as a data: URI of a PNG.
func dataURI(t testing.TB, size [3]int) string {
	t.Helper()
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(pngOf(t, size))
}

func pngOf(t testing.TB, size [3]int) []byte {
	t.Helper()
	file, err := visiontest.PNG(size[0], size[1], size[2])
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// openSeeing opens a server with a golden of a model that reads images.
func openSeeing(t testing.TB, name string, change func(*config.Config)) (*plugged, visiontest.Golden) {
	t.Helper()
	g, err := visiontest.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	return openChat(t, func(c *config.Config) {
		c.Model.Path, c.Model.Weights = g.Dir, "fp32"
		c.Server.PayloadLimit = 4 << 20
		if change != nil {
			change(c)
		}
	}), g
}

// chatOf is a request with the conversation of a golden, whose images are at the given URLs.
func chatOf(t testing.TB, messages json.RawMessage, urls []string, more string) []byte {
	t.Helper()
	var list []map[string]any
	if err := json.Unmarshal(messages, &list); err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		for _, part := range m["content"].([]any) {
			if p := part.(map[string]any); p["type"] == "image" {
				p["type"], p["image_url"] = "image_url", map[string]any{"url": urls[0]}
				urls = urls[1:]
			}
		}
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, `{"messages":%s,"max_tokens":32,"temperature":0,"ignore_eos":true%s}`, text, more)
}

// imageReply is a reply of the chat API.
type imageReply struct {
	Choices []struct{ Message struct{ Content string } }
	Usage   struct {
		Prompt  int `json:"prompt_tokens"`
		Details struct {
			Cached int `json:"cached_tokens"`
			Images int `json:"image_tokens"`
		} `json:"prompt_tokens_details"`
	}
}

func (p *plugged) chatImages(t testing.TB, body []byte) (r imageReply) {
	t.Helper()
	status, text := p.call(t, http.MethodPost, "/v1/chat/completions", body)
	if err := json.Unmarshal([]byte(text), &r); err != nil || status != http.StatusOK || len(r.Choices) == 0 {
		t.Errorf("%d %s", status, text)
		r.Choices = append(r.Choices, struct{ Message struct{ Content string } }{})
	}
	return r
}

// TestImagesOfTransformers: pictures in chats, and in the inputs of TGI's API, give the tokens of transformers, from
// the picture's file to the text; together with others, again from the caches, and streamed from an address.
func TestImagesOfTransformers(t *testing.T) {
	for _, name := range visiontest.Names {
		t.Run(name, func(t *testing.T) {
			files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var size [3]int
				if _, err := fmt.Sscanf(r.URL.Path, "/%d/%d/%d", &size[0], &size[1], &size[2]); err != nil {
					t.Error(err)
				}
				w.Write(pngOf(t, size))
			}))
			defer files.Close()
			p, g := openSeeing(t, name, func(c *config.Config) {
				c.Images.Hosts, c.Images.PrivateAddresses = []string{strings.TrimPrefix(files.URL, "http://")}, true
			})
			tok := p.defaultModel().tokenizer
			var wg sync.WaitGroup
			for range 2 {
				for i, run := range g.Runs {
					var data, addresses []string
					for _, size := range run.Pictures {
						data = append(data, dataURI(t, size))
						addresses = append(addresses, fmt.Sprintf("%s/%d/%d/%d", files.URL, size[0], size[1], size[2]))
					}
					want, tokens := tok.Decode(run.Greedy, true), 0
					for _, n := range run.Tokens {
						tokens += n
					}
					for kind, urls := range map[string][]string{"data": data, "address": addresses} {
						wg.Go(func() {
							r := p.chatImages(t, chatOf(t, run.Messages, urls, ""))
							if got := r.Choices[0].Message.Content; got != strings.TrimSpace(want) && got != want {
								t.Errorf("run %d, %s: %q, want %q", i, kind, got, want)
							}
							if r.Usage.Prompt != len(run.IDs) || r.Usage.Details.Images != tokens {
								t.Errorf("run %d: %+v, want %d tokens, %d of images", i, r.Usage, len(run.IDs), tokens)
							}
						})
					}
					wg.Go(func() {
						inputs := run.Prompt
						for _, url := range data {
							inputs = strings.Replace(inputs, p.defaultModel().images.Placeholder(), "![]("+url+")", 1)
						}
						body, err := json.Marshal(map[string]any{"inputs": inputs, "parameters": map[string]any{
							"max_new_tokens": 32, "details": true, "decoder_input_details": false}})
						if err != nil {
							t.Error(err)
						}
						_, text := p.call(t, http.MethodPost, "/generate", body)
						var r struct {
							Details struct{ Tokens []struct{ ID uint32 } }
						}
						if err := json.Unmarshal([]byte(text), &r); err != nil || len(r.Details.Tokens) == 0 {
							t.Errorf("%v: %.300s", err, text)
							return
						}
						for k, one := range r.Details.Tokens { // until an end of sequence
							if one.ID != run.Greedy[k] {
								t.Errorf("run %d, TGI: token %d is %d, want %d", i, k, one.ID, run.Greedy[k])
								break
							}
						}
					})
				}
				wg.Wait()
			}
		})
	}
}

// TestImagesComputedWhole: images whose tokens see each other, more of them than a step may compute of prompts, give
// the same texts and the same beams in a crowd that steps back; log-probabilities of such a prompt are refused.
func TestImagesComputedWhole(t *testing.T) {
	body := func(run visiontest.Run, more string) []byte {
		var urls []string
		for _, size := range run.Pictures {
			urls = append(urls, dataURI(t, size))
		}
		return chatOf(t, run.Messages, urls, more)
	}
	roomy, g := openSeeing(t, "gemma3", nil)
	settings := []string{"", `,"num_beams":3`, `,"frequency_penalty":0.5`}
	want := map[[2]int]string{}
	for i, run := range g.Runs {
		for k, more := range settings {
			want[[2]int{i, k}] = fmt.Sprint(roomy.chatImages(t, body(run, more)).Choices)
		}
	}
	tight, _ := openSeeing(t, "gemma3", func(c *config.Config) {
		c.Limits.MaxBatchPrefillTokens, c.Limits.MaxTotalTokens, c.Limits.MaxBatchTotalTokens = 7, 160, 480
	})
	// Which sequences meet is chance: rounds go on until one stepped back.
	preempted := func() int { return int(tight.defaultModel().engine.Stats().Preempted) }
	for round := 0; round < 20 && preempted() == 0; round++ {
		var wg sync.WaitGroup
		for range 3 {
			for key, text := range want {
				wg.Go(func() {
					got := fmt.Sprint(tight.chatImages(t, body(g.Runs[key[0]], settings[key[1]])).Choices)
					if got != text {
						t.Errorf("run %d with %q: %s, want %s", key[0], settings[key[1]], got, text)
					}
				})
			}
		}
		wg.Wait()
	}
	if preempted() == 0 {
		t.Error("no sequence stepped back")
	}
	inputs := `{"inputs":"![](` + dataURI(t, [3]int{20, 20, 1}) + `)","parameters":{"max_new_tokens":2,%s}}`
	beams := fmt.Sprintf(inputs, `"num_beams":3`)
	status, first := roomy.call(t, http.MethodPost, "/generate", []byte(beams))
	if _, second := tight.call(t, http.MethodPost, "/generate", []byte(beams)); status != http.StatusOK ||
		second != first {
		t.Errorf("beams: %d %s and %s", status, first, second)
	}
	status, text := roomy.call(t, http.MethodPost, "/generate",
		[]byte(fmt.Sprintf(inputs, `"decoder_input_details":true`)))
	if status != 422 || !strings.Contains(text, "log-probabilities of the prompt and images exclude each other") {
		t.Errorf("%d %s", status, text)
	}
}

// TestImagesDoNotMix: pictures of one size at one place, whose prompts have the same tokens, do not share cached
// prefixes, and equal ones do.
func TestImagesDoNotMix(t *testing.T) {
	p, g := openSeeing(t, "llava", nil)
	ask := func(number int) imageReply {
		return p.chatImages(t, chatOf(t, g.Runs[0].Messages, []string{dataURI(t, [3]int{40, 40, number})}, ""))
	}
	first, second := ask(1), ask(2)
	again, other := ask(1), ask(2)
	if first.Choices[0] == second.Choices[0] {
		t.Error("two pictures give the same text: the test sees nothing")
	}
	if again.Choices[0] != first.Choices[0] || other.Choices[0] != second.Choices[0] {
		t.Errorf("%+v, %+v, again %+v, %+v", first, second, again, other)
	}
	if second.Usage.Details.Cached >= 16 || again.Usage.Details.Cached == 0 {
		t.Errorf("cached: %d of another picture, %d of the same", second.Usage.Details.Cached,
			again.Usage.Details.Cached)
	}
}

// TestImagesRefused: images that cannot be read, and too many of them, are errors of the request that name the image.
func TestImagesRefused(t *testing.T) {
	p, g := openSeeing(t, "smolvlm", func(c *config.Config) { c.Images.PerRequest, c.Images.Bytes = 2, 100_000 })
	good := dataURI(t, [3]int{20, 20, 1})
	image := func(url string) string { return `{"type":"image_url","image_url":{"url":"` + url + `"}}` }
	for _, c := range []struct{ parts, want string }{
		{image("data:image/png;base64,aGVsbG8="),
			"`messages[0].content[0]`: invalid image: want PNG, JPEG, WebP or GIF. Given: text that begins with"},
		{image(good) + "," + image("data:image/png;base64,*"), "`messages[0].content[1]`: base64 encoding is invalid"},
		{image(good[:len(good)-200]), "`messages[0].content[0]`: invalid image: PNG: "},
		{image("https://example.com/x.png"),
			"images are not fetched here (images.hosts names no host): send a data: URI"},
		{image("file:///etc/passwd"), "want a URL that begins with data:, https:// or http://"},
		{image(good) + "," + image(good) + "," + image(good),
			"a request may have 2 images (images.per_request). Given: 3"},
		{image("data:;base64," + strings.Repeat("A", 200_000)),
			"Image size 150000 bytes exceeds maximum allowed size of 100000 bytes (images.bytes)"},
		{image(dataURI(t, [3]int{1, 900, 1})), "too narrow: one side may be 200 times the other"},
		{image(good) + `,{"type":"text","text":"<image>"}`, ""},
		{`{"type":"image_url"}`, "missing field `image_url`"},
		{`{"type":"image_url","image_url":"` + good + `"}`, ""},
		{`{"type":"input_audio"}`, "parts of type `input_audio` are not supported"},
	} {
		status, text := p.call(t, http.MethodPost, "/v1/chat/completions",
			[]byte(`{"max_tokens":2,"messages":[{"role":"user","content":[`+c.parts+`]}]}`))
		if c.want == "" && status != 200 || c.want != "" && (status != 422 || !strings.Contains(text, c.want)) {
			t.Errorf("%.200s: %d %.400s, want %s", c.parts, status, text, c.want)
		}
	}
	body := fmt.Sprintf(`{"inputs":"a ![](%s) b","parameters":{"max_new_tokens":2,"truncate":5}}`, good)
	if status, text := p.call(t, http.MethodPost, "/generate", []byte(body)); status != 422 ||
		!strings.Contains(text, "`truncate` and images exclude each other") {
		t.Errorf("%d %s", status, text)
	}
	status, text := p.call(t, http.MethodPost, "/chat_tokenize", chatOf(t, g.Runs[0].Messages, []string{good}, ""))
	if status != 200 || strings.Count(text, `"id":3,`) != 10*4 {
		t.Errorf("%d %.300s: %d tokens of images", status, text, strings.Count(text, `"id":3,`))
	}
}

// TestImagesOfManyTokens: an image that would have more than images.tokens is refused with the figures.
func TestImagesOfManyTokens(t *testing.T) {
	p, g := openSeeing(t, "smolvlm", func(c *config.Config) { c.Images.Tokens = 39 })
	status, text := p.call(t, http.MethodPost, "/chat_tokenize",
		chatOf(t, g.Runs[0].Messages, []string{dataURI(t, [3]int{20, 20, 1})}, ""))
	if status != 422 || !strings.Contains(text, "an image of 20 by 20 pixels takes 40 tokens, more than 39 (images.tokens)") {
		t.Errorf("%d %s", status, text)
	}
}

// TestImagesOfTextModels: a model of text says so.
func TestImagesOfTextModels(t *testing.T) {
	p := openChat(t, nil)
	status, text := p.call(t, http.MethodPost, "/v1/chat/completions", []byte(
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,x"}}]}]}`))
	if status != 422 || !strings.Contains(text, "`messages[0].content[0]`: this model reads text only, and so do all") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := p.call(t, http.MethodPost, "/generate", []byte(
		`{"inputs":"see ![](data:,x) there","parameters":{"max_new_tokens":1}}`)); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}

// TestImagesOfBrokenModels: what is wrong with the image processor or the image token ends the start and is named.
func TestImagesOfBrokenModels(t *testing.T) {
	g, err := visiontest.Read("llava")
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(dir string) error{
		"neither processor_config.json nor preprocessor_config.json": func(dir string) error {
			return os.Remove(filepath.Join(dir, "processor_config.json"))
		},
		"tokenizer.json: there is no token <image>, which stands for an image": func(dir string) error {
			return replaceIn(filepath.Join(dir, "tokenizer.json"), `"<image>"`, `"<img>"`)
		},
		"tokenizer.json: the image token <image> has the id 3, config.json names 4": func(dir string) error {
			return replaceIn(filepath.Join(dir, "config.json"), `"image_token_index": 3`, `"image_token_index": 4`)
		},
	} {
		dir := filepath.Join(t.TempDir(), "broken")
		if err := os.CopyFS(dir, os.DirFS(g.Dir)); err != nil {
			t.Fatal(err)
		}
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		c := testConfig()
		c.Model.Path = dir
		h, err := Open(t.Context(), Options{Config: c, Version: "dev", Log: slog.New(slog.DiscardHandler)})
		if err == nil {
			h.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// replaceIn replaces a text in a file.
func replaceIn(path, from, to string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, bytes.ReplaceAll(data, []byte(from), []byte(to)), 0o644)
}
