package server

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"tgi/server/config"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// talking is an API whose one route talks about a text of so many bytes, and calls held before it replies.
type talking struct {
	bytes int
	held  func()
}

func (a talking) Routes() []Route {
	return []Route{{Method: http.MethodPost, Path: "/talk", Handle: func(w http.ResponseWriter, r *http.Request) error {
		if _, err := ReadAnyBody(r); err != nil {
			return err
		}
		service := generatetest.UserCode{Chat: &generatetest.Chat{}}.On(
			generate.New(&generatetest.Engine{}, generatetest.Words{}, generatetest.Limits(), nil))
		message := `{"role":"user","content":"` + strings.Repeat("a", a.bytes) + `"}`
		run, err := service.Start(r.Context(), generate.Draft{Conversation: &generate.Conversation{
			Messages: []generate.Message{{Role: "user", HasText: true, JSON: []byte(message)}}}})
		if err != nil {
			return err
		}
		defer run.Close()
		if a.held != nil {
			a.held()
		}
		WriteJSON(w, []byte("{}"))
		return nil
	}}}
}

// TestPromptsTakeMemory: the prompts that templates make count beside the bodies until their requests are over, however
// short the bodies are.
func TestPromptsTakeMemory(t *testing.T) {
	const size = 1 << 20
	serve := func(bytes int, held func()) func() (int, string) {
		c := config.Default().Server
		c.PayloadMemory = 3 * size
		s := New(Options{Config: c, Log: slog.New(slog.DiscardHandler), APIs: []API{talking{bytes, held}}})
		return func() (int, string) {
			w := httptest.NewRecorder()
			s.public.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/talk", strings.NewReader("{}")))
			return w.Code, w.Body.String()
		}
	}
	var codes []int
	var texts []string
	var ask func() (int, string)
	depth := 0
	ask = serve(size, func() { // one more asks while this is held
		if depth++; depth == 5 {
			return
		}
		code, text := ask()
		codes, texts = append(codes, code), append(texts, text)
	})
	for range 2 {
		depth, codes, texts = 0, nil, nil
		if code, text := ask(); code != http.StatusOK {
			t.Fatal(code, text)
		}
		if !slices.Equal(codes, []int{429, 200, 200}) || !strings.Contains(texts[0], "(server.payload_memory)") {
			t.Errorf("with three held: %v, %s", codes, texts)
		}
	}
	if code, text := serve(4*size, nil)(); code != 422 || !strings.Contains(text, "(server.payload_memory)") {
		t.Errorf("one above all of it: %d %s", code, text)
	}
}

// TestHolding: what a request takes is given back, and an error names the bound and the value.
func TestHolding(t *testing.T) {
	b := &byteBudget{}
	b.grow(1000)
	one, two := &holding{from: b}, &holding{from: b}
	body := &budgetedBody{io.NopCloser(strings.NewReader(strings.Repeat("x", freeBytes+600))), one}
	if _, err := io.Copy(io.Discard, body); err != nil {
		t.Fatal(err)
	}
	if err := two.take(freeBytes); err != nil {
		t.Errorf("what is free: %v", err)
	}
	var full *generate.Overloaded
	const want = "bodies and prompts of all requests must have at most 1000 bytes together (server.payload_memory), " +
		"and this one has 500"
	if err := two.take(500); !errors.As(err, &full) || full.Reason != want {
		t.Errorf("got %v, want %s", err, want)
	}
	one.release()
	if err := two.take(500); err != nil {
		t.Errorf("when the other is gone: %v", err)
	}
	two.release()
	if b.left != 1000 {
		t.Errorf("%d of 1000 bytes are left", b.left)
	}
}

// TestElementsCount: what a body lists counts for more than its bytes, but never makes a body too large that would be
// let through alone.
func TestElementsCount(t *testing.T) {
	read := func(most int64, text string) (taken int64, err error) {
		b := &byteBudget{}
		b.grow(most)
		h := &holding{from: b}
		_, err = io.Copy(io.Discard, &budgetedBody{io.NopCloser(strings.NewReader(text)), h})
		taken = h.taken
		if h.release(); b.left != most {
			t.Errorf("%d of %d bytes are left", b.left, most)
		}
		return taken, err
	}
	if taken, err := read(1000, `{"a":[1,2,{}]}`); err != nil || taken != 0 {
		t.Errorf("few elements: %d bytes are taken, %v", taken, err)
	}
	list := strings.Repeat("[],", 1<<16)
	size := int64(len(list))
	counted := size + 2<<16*elementBytes - freeBytes
	for most, want := range map[int64]int64{1 << 30: counted, size: size, size + 1000: size + 1000} {
		if taken, err := read(most, list); err != nil || taken != want {
			t.Errorf("with %d: %d bytes are taken, want %d: %v", most, taken, want, err)
		}
	}
	var large *generate.Invalid
	if _, err := read(size/2, list); !errors.As(err, &large) {
		t.Errorf("a body that does not fit: %v", err)
	}
}
