package generate_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"tgi/runtime/llm"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// imageToken is the word of a picture's vector, and the id that Words gives it.
const (
	imageToken   = " <picture-token>"
	imageTokenID = llm.Token(len(imageToken))
)

// fakeImages has pictures whose URL says how many vectors they have: "3", or "2+1" for two and one with text between.
type fakeImages struct {
	opened, encoded atomic.Int32
	fail            error
}

func (*fakeImages) Placeholder() string { return generatetest.Placeholder }
func (*fakeImages) Token() llm.Token    { return imageTokenID }
func (*fakeImages) Most() int           { return 3 }

func (f *fakeImages) Open(_ context.Context, url string, take func(int64) error) (generate.Picture, error) {
	f.opened.Add(1)
	if f.fail != nil {
		return generate.Picture{}, f.fail
	}
	p := generate.Picture{Sum: sha256.Sum256([]byte(url))}
	for i, part := range strings.Split(url, "+") {
		if i > 0 {
			p.Text += " /"
		}
		n := 0
		if _, err := fmt.Sscan(part, &n); err != nil {
			return p, &generate.Invalid{Msg: "no number"}
		}
		p.Tokens += n
		p.Text += strings.Repeat(imageToken, n)
	}
	p.Text += " ."
	p.Cached = func() []float32 { return nil }
	p.Encode = func(_ context.Context, pause func() error) ([]float32, error) {
		f.encoded.Add(1)
		v := make([]float32, 2*p.Tokens)
		for i := range v {
			v[i] = float32(100*len(url) + i/2)
		}
		return v, pause()
	}
	return p, take(int64(len(url)))
}

func imageMessages(list ...generate.Message) *generate.Conversation {
	return &generate.Conversation{Messages: list}
}

// seen is a message with a text and images.
func seen(text string, urls ...string) generate.Message {
	m := generate.Message{Role: "user"}
	parts := []string{fmt.Sprintf(`{"type":"text","text":%q}`, text)}
	for i, u := range urls {
		parts = append(parts, `{"type":"image"}`)
		m.Images = append(m.Images, generate.Image{URL: u, Place: fmt.Sprintf("messages[0].content[%d]", i+1)})
	}
	m.JSON = fmt.Appendf(nil, `{"role":"user","content":[%s]}`, strings.Join(parts, ","))
	return m
}

// TestImages: images take their places in the prompt, in order; text of clients that looks like a place is text.
func TestImages(t *testing.T) {
	limits := generatetest.Limits()
	limits.MaxInput, limits.MaxTotal = 50, 100
	for name, c := range map[string]struct {
		draft generate.Draft
		runs  []llm.Embedding // without vectors
		err   string
	}{
		"a message": {draft: generate.Draft{Conversation: imageMessages(seen("hi", "2"))},
			runs: []llm.Embedding{{At: 1, N: 2}}},
		"a place in text": {draft: generate.Draft{Conversation: imageMessages(seen("a <image> b", "2"))},
			runs: []llm.Embedding{{At: 1, N: 2}}},
		"two messages": {draft: generate.Draft{Conversation: imageMessages(seen("hi", "2", "1"), seen("ho", "1+2"))},
			runs: []llm.Embedding{{At: 1, N: 2}, {At: 4, N: 1}, {At: 6, N: 1}, {At: 8, N: 2}}},
		"TGI's inputs": {draft: generate.Draft{Inputs: "see ![](3) and ![](1) now"},
			runs: []llm.Embedding{{At: 2, N: 3}, {At: 8, N: 1}}},
		"no image":        {draft: generate.Draft{Inputs: "see ![](3 and"}},
		"OpenAI's prompt": {draft: generate.Draft{Inputs: "see ![](3)", Rules: generate.OpenAI}},
		"an image token in text": {draft: generate.Draft{Conversation: imageMessages(seen("a"+imageToken+" b", "2"))},
			err: "the prompt has 3 image tokens, its images have 2: text must not hold ` <image>`"},
		"a place in TGI's inputs": {draft: generate.Draft{Inputs: "see <image> ![](3)"},
			err: "`inputs` must not hold ` <image>` beside images"},
		"too many": {draft: generate.Draft{Conversation: imageMessages(seen("a", "1", "1", "1", "1"))},
			err: "a request may have 3 images (images.per_request). Given: 4"},
		"truncated": {draft: generate.Draft{Conversation: imageMessages(seen("a", "1")), Truncate: new(uint64)},
			err: "`truncate`"},
		"a bad one": {draft: generate.Draft{Conversation: imageMessages(seen("a", "1", "x"))},
			err: "`messages[0].content[2]`: no number"},
		"too long": {draft: generate.Draft{Conversation: imageMessages(seen("a", "60"))},
			err: "`inputs` must have less than 50"},
	} {
		t.Run(name, func(t *testing.T) {
			e, images := &generatetest.Engine{}, &fakeImages{}
			s := generate.New(e, generatetest.Words{}, limits, nil).
				WithUserCode(generatetest.UserCode{Chat: &generatetest.Chat{}}).WithImages(images)
			c.draft.MaxNewTokens = new(uint32)
			*c.draft.MaxNewTokens = 1
			run, err := s.Start(t.Context(), c.draft)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %v, want %s", err, c.err)
				}
				if n := images.encoded.Load(); n != 0 {
					t.Errorf("%d pictures were encoded for nothing", n)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer run.Close()
			r := e.Requests()[0]
			sums := map[[32]byte]bool{}
			if len(r.Embeddings) != len(c.runs) {
				t.Fatalf("%+v, want %+v; the prompt is %q", r.Embeddings, c.runs, run.Request.Inputs)
			}
			for i, m := range r.Embeddings {
				if m.At != c.runs[i].At || m.N != c.runs[i].N || len(m.Vectors) != 2*m.N {
					t.Errorf("run %d is %+v, want %+v", i, m, c.runs[i])
				}
				for _, token := range r.Prompt[m.At:m.End()] {
					if token != imageTokenID {
						t.Errorf("run %d is in the place of token %d", i, token)
					}
				}
				if sums[m.Sum] {
					t.Errorf("run %d has the sum of another", i)
				}
				sums[m.Sum] = true
			}
			if strings.Contains(run.Request.Inputs, imageToken) {
				t.Errorf("the text of the request is %q", run.Request.Inputs)
			}
			want := 0
			for _, run := range c.runs {
				want += run.N
			}
			if run.Request.ImageTokens != want {
				t.Errorf("%d tokens of images, want %d", run.Request.ImageTokens, want)
			}
		})
	}
}

// TestImagesOfTextModels: a model without images says which ones read some.
func TestImagesOfTextModels(t *testing.T) {
	d := generate.Draft{Conversation: imageMessages(seen("a", "1"))}
	s := generate.New(&generatetest.Engine{}, generatetest.Words{}, generatetest.Limits(), nil).
		WithUserCode(generatetest.UserCode{Chat: &generatetest.Chat{}})
	for want, seeing := range map[string][]string{
		"`messages[0].content[1]`: this model reads text only, and so do all others here; SmolVLM, LLaVA, Qwen2.5-VL and Gemma 3 read images": nil,
		"`messages[0].content[1]`: this model reads text only. These read images, too: smol, llava":                                           {"smol", "llava"},
	} {
		_, err := s.WithoutImages(func() []string { return seeing }).Start(t.Context(), d)
		var bad *generate.Invalid
		if !errors.As(err, &bad) || bad.Msg != want || bad.Field != "messages" {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
