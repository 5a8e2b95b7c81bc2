package responses

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"tgi/server"
	"tgi/server/api/responses/store"
	"tgi/server/config"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// TestDeletedElsewhere: a response that another replica deletes does not come back, neither when its lease is renewed
// nor at its end, and it ends when it is noticed.
func TestDeletedElsewhere(t *testing.T) {
	for name, renews := range map[string]time.Duration{"at its end": time.Hour, "while it runs": time.Second / 50} {
		t.Run(name, func(t *testing.T) {
			e := slow()
			s, api := newServer(e, &generatetest.Chat{})
			api.renews = renews
			another := New(api.options)
			another.owner = api.owner
			other := server.New(server.Options{Config: config.Default().Server, APIs: []server.API{another},
				Healthy: e.Healthy, Log: slog.New(slog.DiscardHandler)})
			object(t, ask(s, http.MethodPost, path, long+`,"background":true}`))
			time.Sleep(50 * time.Millisecond) // some renewals keep it
			if v := object(t, ask(other, http.MethodDelete, path+"/resp_A1", "")); v["deleted"] != true {
				t.Fatalf("got %v", v)
			}
			v, _ := gather(t, ask(s, http.MethodGet, path+"/resp_A1?stream=true", "").Body.Bytes())
			want := map[bool]string{true: statusIncomplete, false: statusCancelled}[renews > time.Minute]
			if v["status"] != want {
				t.Errorf("it ended as %v, want %s", v["status"], want)
			}
			api.settle()
			gone(t, e)
			for _, one := range []http.Handler{s, other} {
				if rec := ask(one, http.MethodGet, path+"/resp_A1", ""); rec.Code != http.StatusNotFound {
					t.Errorf("it is back: %d %s", rec.Code, rec.Body)
				}
			}
		})
	}
}

// broken is a store that panics when it takes a response that ended.
type broken struct{ store.Store }

func (s broken) Put(ctx context.Context, o store.Owner, id string, record []byte) error {
	if !bytes.Contains(record, []byte(`"lease"`)) {
		panic("broken")
	}
	return s.Store.Put(ctx, o, id, record)
}

// TestPanic: whoever follows a response that panics is not left waiting.
func TestPanic(t *testing.T) {
	e := slow()
	s, api := newServer(e, &generatetest.Chat{})
	api.options.Store = broken{api.options.Store}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, path,
		strings.NewReader(`{"input":"Hi","max_output_tokens":5,"background":true,"stream":true}`))
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	if ctx.Err() != nil || !strings.Contains(rec.Body.String(), "response.output_text.delta") {
		t.Errorf("%v, it followed %s", ctx.Err(), rec.Body)
	}
	api.settle()
	gone(t, e)
}

// sink is a client that counts what it reads.
type sink struct {
	header        http.Header
	bytes, events int
}

func (s *sink) Header() http.Header { return s.header }

func (s *sink) Write(b []byte) (int, error) {
	s.bytes += len(b)
	s.events += bytes.Count(b, []byte("\n\n"))
	return len(b), nil
}

func (s *sink) WriteHeader(int) {}
func (s *sink) Flush()          {}

// TestReplay: the events of a response that is over are read from any number on, without memory for all of them, and
// room is taken for what is held.
func TestReplay(t *testing.T) {
	events := make([]event, 20000)
	for i := range events {
		events[i] = event{"response.output_text.delta", fmt.Appendf(nil, `{"n":%d,"pad":"%01000d"}`, i, 0)}
	}
	events[len(events)-1].json = fmt.Appendf(nil, `{"pad":"%0200000d"}`, 0)
	rec := &record{}
	rec.Events, rec.Longest = pack(events)
	if len(rec.Events) > 1<<20 || rec.Longest != uint32(len(events[len(events)-1].json)) {
		t.Fatalf("%d bytes, the longest line %d", len(rec.Events), rec.Longest)
	}
	var taken int64
	full := errors.New("full")
	request := func(most int64) *http.Request {
		taken = 0
		return httptest.NewRequestWithContext(generate.WithRoom(t.Context(), func(n int64) error {
			if taken += n; taken > most {
				return full
			}
			return nil
		}), http.MethodGet, path, nil)
	}
	for _, from := range []int{0, 1, 19999, 20000, 1 << 40} {
		w := &sink{header: http.Header{}}
		r := request(1 << 20)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := replay(w, r, rec, from)
		runtime.ReadMemStats(&after)
		if want := max(0, len(events)-from); err != nil || w.events != want {
			t.Errorf("from %d: %d events, want %d: %v", from, w.events, want, err)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20 {
			t.Errorf("from %d: %d bytes of memory for %d of events", from, grown, w.bytes)
		}
		if taken < 2*int64(rec.Longest) {
			t.Errorf("room for %d bytes", taken)
		}
	}
	w := &sink{header: http.Header{}}
	if err := replay(w, request(1000), rec, 0); !errors.Is(err, full) || w.bytes > 0 {
		t.Errorf("without room: %v", err)
	}
	whole := rec.Events
	rec.Events = whole[:len(whole)/2]
	if err := replay(w, request(1<<20), rec, 0); err != nil || w.events == 0 || w.events >= len(events) {
		t.Errorf("half of them: %d events, %v", w.events, err)
	}
	w = &sink{header: http.Header{}}
	rec.Events, rec.Longest = whole, 500 // as no server keeps them
	if err := replay(w, request(1<<20), rec, 0); err != nil || w.events > 0 {
		t.Errorf("with a longer line than the longest: %d events, %v", w.events, err)
	}
}

// TestStartingAfter: the largest number is one behind all events, while a response runs and once it is over.
func TestStartingAfter(t *testing.T) {
	s, api := newServer(slow(), &generatetest.Chat{})
	object(t, ask(s, http.MethodPost, path, long+`,"background":true}`))
	target := fmt.Sprintf("%s/resp_A1?stream=true&starting_after=%d", path, math.MaxInt)
	for _, when := range []string{"running", "over"} {
		if rec := ask(s, http.MethodGet, target, ""); rec.Code != http.StatusOK || rec.Body.Len() != 0 {
			t.Errorf("%s: %d %q, want an empty stream", when, rec.Code, rec.Body)
		}
		api.settle()
	}
}

// counted is a store that counts what is read.
type counted struct {
	store.Store
	reads int
}

func (s *counted) Get(ctx context.Context, o store.Owner, id string) ([]byte, error) {
	s.reads++
	return s.Store.Get(ctx, o, id)
}

// TestReferences: a response is read once however many of its items a request refers to, and each takes room.
func TestReferences(t *testing.T) {
	_, api := newServer(&generatetest.Engine{}, &generatetest.Chat{})
	kept := &counted{Store: api.options.Store}
	api.options.Store = kept
	one := fmt.Sprintf(`{"id":"msg_A1_i0","type":"message","role":"user","content":%q}`, strings.Repeat("x", 1000))
	rec := &record{Response: []byte(`{"status":"completed","output":[]}`), Input: []json.RawMessage{[]byte(one)}}
	if err := api.put(t.Context(), store.Owner{}, "resp_A1", rec); err != nil {
		t.Fatal(err)
	}
	room := int64(0)
	ctx := generate.WithRoom(t.Context(), func(n int64) error {
		room += n
		return nil
	})
	c := &call{}
	for range 50 {
		c.input = append(c.input, item{kind: kindReference, id: "msg_A1_i0"})
	}
	if err := api.resolve(ctx, store.Owner{}, c); err != nil {
		t.Fatal(err)
	}
	if kept.reads != 1 || room < 50*1000*itemCopies {
		t.Errorf("%d reads, room of %d bytes, want 1 and %d", kept.reads, room, 50*1000*itemCopies)
	}
	for i := range c.input {
		if c.input[i].kind == kindReference {
			t.Fatal("a reference was left")
		}
	}
}
