package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tgi/server/config"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// talks is an API of one route, which opens a connection and has the messages come.
type talks struct {
	handle func(w http.ResponseWriter, r *http.Request) error
	come   func(take func(message io.Reader) error)
	opened func(r *http.Request)
}

func (a *talks) Routes() []Route {
	return []Route{{Method: http.MethodGet, Path: "/talk", Handle: func(w http.ResponseWriter, r *http.Request) error {
		if a.opened != nil {
			a.opened(r)
		}
		c := NewConnection(r, Route{Path: "/talk", Handle: a.handle}, func() {})
		a.come(func(message io.Reader) error { return c.Take(r.Context(), httptest.NewRecorder(), message) })
		c.Wait()
		w.WriteHeader(http.StatusSwitchingProtocols)
		return nil
	}}}
}

// open serves one connection.
func (a *talks) open(s *Server) {
	s.public.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/talk", nil))
}

// parsing reads a message in turn, and keeps what came of each.
func parsing(out *[]error, parse func([]byte) error) func(http.ResponseWriter, *http.Request) error {
	return func(_ http.ResponseWriter, r *http.Request) error {
		body, err := ReadAnyBody(r)
		if err == nil {
			_, err = Parse(r.Context(), body, func(b []byte) (int, error) { return len(b), parse(b) })
		}
		*out = append(*out, err)
		return err
	}
}

func nothing([]byte) error { return nil }

// TestMessagesTakeMemory: the bytes of messages are taken from the memory of all bodies as they come, and given back
// when their requests are over. One that finds none is refused and skipped, and its connection goes on.
func TestMessagesTakeMemory(t *testing.T) {
	c := config.Default().Server
	c.PayloadMemory = 1000
	a := &talks{}
	s := New(Options{Config: c, Log: slog.New(slog.DiscardHandler), APIs: []API{a}})
	most := s.texts.most
	part, whole := strings.Repeat("x", freeBytes+int(most)/2), strings.Repeat("x", freeBytes+int(most)/2+1)
	var first, second []error
	a.handle, a.come = parsing(&first, nothing), func(take func(io.Reader) error) {
		unfinished, sends := io.Pipe()
		taken := make(chan error)
		go func() { taken <- take(unfinished) }()
		for _, b := range []string{part, ""} { // the second is read when the first was counted
			if _, err := io.WriteString(sends, b); err != nil {
				t.Error(err)
			}
		}
		b := &talks{handle: parsing(&second, nothing), come: func(take func(io.Reader) error) {
			for _, text := range []string{whole, "short"} {
				message := strings.NewReader(text)
				if err := take(message); err != nil || message.Len() > 0 {
					t.Errorf("of the message that is refused %d bytes are left: %v", message.Len(), err)
				}
			}
		}}
		s.handlers.Store(s.build(false, []API{b}, nil))
		b.open(s)
		if s.texts.left != most-most/2 {
			t.Errorf("%d bytes of %d are left beside %d", s.texts.left, most, len(part))
		}
		if err := sends.Close(); err != nil {
			t.Error(err)
		}
		if err := <-taken; err != nil {
			t.Error(err)
		}
	}
	a.open(s)
	var full *generate.Overloaded
	if len(first) != 1 || first[0] != nil || len(second) != 2 || !errors.As(second[0], &full) ||
		!strings.Contains(full.Reason, "(server.payload_memory)") || second[1] != nil || s.texts.left != most {
		t.Errorf("%v, beside it %v; %d bytes of %d are left", first, second, s.texts.left, most)
	}
}

// queue counts the turns of clients.
type queue map[string]int

func (q queue) Begin(client string) generate.Turn { q[client]++; return turn{} }

type turn struct{}

func (turn) Take(context.Context) bool  { return true }
func (turn) Yield(context.Context) bool { return true }
func (turn) End()                       {}

// TestMessagesTakeTurns: a long message is read in its client's turn, as a long body is.
func TestMessagesTakeTurns(t *testing.T) {
	var out []error
	a := &talks{handle: parsing(&out, nothing)}
	s := New(Options{Config: config.Default().Server, Log: slog.New(slog.DiscardHandler), APIs: []API{a}})
	all := queue{}
	s.ShareProcessors(all)
	for n, want := range map[int]int{longBody - 1: 0, longBody: 1} {
		clear(all)
		a.come = func(take func(io.Reader) error) { _ = take(strings.NewReader(strings.Repeat("x", n))) }
		if a.open(s); all["address 192.0.2.1"] != want {
			t.Errorf("%d bytes: turns were %v", n, all)
		}
	}
}

// TestMessagesAreCharged: messages that no model computes have a client's part of the cores, as bodies have: the next
// one is not looked at before its client may have it, and the long ones of a client that owes much are not read.
func TestMessagesAreCharged(t *testing.T) {
	const works = 50 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var out []error
		refuse := func([]byte) error { time.Sleep(works); return &generate.Invalid{Msg: "no"} }
		a := &talks{handle: parsing(&out, refuse)}
		s := New(Options{Config: config.Default().Server, Log: slog.New(slog.DiscardHandler), APIs: []API{a}})
		busy := true
		s.WatchDemand(func() bool { return busy })
		long := strings.Repeat("x", longBody)
		cores := time.Duration(runtime.GOMAXPROCS(0))
		a.come = func(take func(io.Reader) error) {
			began, n := time.Now(), 0
			for ; time.Since(began) < 10*time.Second; n++ {
				_ = take(strings.NewReader(long))
			}
			if most := int(cores*(10*clientPart+rest)/works) + 2; n > most || n < most/2 {
				t.Errorf("%d messages in ten seconds on one connection, want at most %d", n, most)
			}
			s.holds.reserve("address 192.0.2.1", cores*clientPart*3, time.Now())
			for _, c := range []struct {
				bytes int
				busy  bool
				read  bool
			}{{longBody, true, false}, {longBody - 1, true, true}, {longBody, false, true}} {
				busy, out = c.busy, nil
				message := strings.NewReader(long[:c.bytes])
				err := take(message)
				full := &generate.Overloaded{}
				if err != nil || message.Len() > 0 || len(out) != 1 || errors.As(out[0], &full) == c.read {
					t.Errorf("%d bytes of a debtor: %v, %v", c.bytes, out, err)
				}
			}
		}
		a.open(s)
	})
}

// TestMessagesAreLetIn: no model computes for the request that opened a connection, nor for one that looks at what
// there is, so that nobody forgets to let its messages in.
func TestMessagesAreLetIn(t *testing.T) {
	service := generate.New(&generatetest.Engine{Script: generatetest.Echo}, generatetest.Words{},
		generatetest.Limits(), nil)
	start := func(r *http.Request) error {
		run, err := service.Start(r.Context(), generate.Draft{Inputs: "Hi"})
		if err == nil {
			run.Close()
		}
		return err
	}
	var opened, message error
	a := &talks{handle: func(_ http.ResponseWriter, r *http.Request) error {
		message = start(r)
		return message
	}, come: func(take func(io.Reader) error) { _ = take(strings.NewReader("")) },
		opened: func(r *http.Request) { opened = start(r) }}
	a.open(New(Options{Config: config.Default().Server, Log: slog.New(slog.DiscardHandler), APIs: []API{a}}))
	if !errors.Is(opened, errNotLetIn) || message != nil {
		t.Errorf("when it opens: %v; its message: %v", opened, message)
	}
}

// TestMessagesOfPanics: a handler that panics ends its connection, and nothing else.
func TestMessagesOfPanics(t *testing.T) {
	var log bytes.Buffer
	aborted := false
	a := &talks{}
	s := New(Options{Config: config.Default().Server, Log: slog.New(RequestLog(slog.NewTextHandler(&log, nil))),
		APIs: []API{a}})
	a.opened = func(r *http.Request) {
		c := NewConnection(r, Route{Path: "/talk", Handle: func(http.ResponseWriter, *http.Request) error {
			panic("no")
		}}, func() { aborted = true })
		_ = c.Take(r.Context(), httptest.NewRecorder(), strings.NewReader("x"))
		c.Wait()
	}
	a.come = func(func(io.Reader) error) {}
	a.open(s)
	if !aborted || !strings.Contains(log.String(), "BUG: a handler panicked") ||
		strings.Count(lineWith(log.String(), "POST"), "request_id=") != 1 {
		t.Errorf("aborted %v, the log says %s", aborted, &log)
	}
}

// lineWith is the one of a log that has a word.
func lineWith(log, word string) string {
	for one := range strings.Lines(log) {
		if strings.Contains(one, word) {
			return one
		}
	}
	return ""
}

// TestReadBody: a body is the same however it comes, and has the room that it needs.
func TestReadBody(t *testing.T) {
	for _, n := range []int{0, 1, shortRoom, shortRoom + 1, firstRoom, firstRoom + 1, 3*firstRoom + 5} {
		for _, told := range []bool{true, false} {
			text := bytes.Repeat([]byte("abc"), n)[:n]
			length := int64(-1)
			if told {
				length = int64(n)
			}
			got, err := readBody(bytes.NewReader(text), length)
			if err != nil || !bytes.Equal(got, text) || n > firstRoom && cap(got) > n+n/8 {
				t.Errorf("%d bytes, told %v: got %d in %d: %v", n, told, len(got), cap(got), err)
			}
		}
	}
}
