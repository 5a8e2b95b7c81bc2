package generateapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/dispatch"
)

// maxJobs bounds the requests that run on one socket at the same time.
const maxJobs = 16

// Texts of the original that are about no request in particular.
const (
	textBadJSON  = "Invalid JSON received"
	textBadShape = "Invalid prompts or generation_config"
	textNoThrift = "Thrift is not supported: send JSON in text messages"
	textManyJobs = "Too many requests on this socket: 16 have not ended"
)

// socket is GET /api/ws: each message is a request, and any number of answers
// refer to it by request_id. Closing the socket ends what runs on it. All messages
// are for the model that was named when the socket was opened.
func (a *API) socket(w http.ResponseWriter, r *http.Request) error {
	if origin := r.Header.Get("Origin"); origin != "" && len(a.options.Origins) > 0 &&
		!slices.Contains(a.options.Origins, origin) {
		err := &refusal{status: http.StatusForbidden,
			text: "Pages of this origin may not open a socket (server.cors_allow_origin)"}
		return refuse(w, r, err)
	}
	m, release, err := dispatch.Use(a.options.Models, r, "")
	if err != nil {
		return refuse(w, r, err)
	}
	defer release()
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // the origin was looked at
	if err != nil {
		server.Note(r.Context(), err)
		return nil // Accept has replied
	}
	conn.SetReadLimit(a.options.MessageLimit)
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	s := &socket{api: a, model: m, conn: conn, scope: server.Token(r)}
	s.messages = server.NewConnection(r, server.Route{Path: "/api/ws", Operation: server.TextCompletion,
		BodyLimit: a.options.MessageLimit + 1, // beyond MessageLimit the socket is closed
		Handle:    s.message, Refuse: s.refuse}, func() { _ = conn.CloseNow() })
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(ctx) })
	err = s.read(ctx)
	server.Note(ctx, err)
	cancel(err)
	s.messages.Wait()
	watching.Wait()
	_ = conn.CloseNow()
	return nil
}

// socket is one connection.
type socket struct {
	api      *API
	model    *dispatch.Model
	conn     *websocket.Conn
	messages *server.Connection
	scope    string

	mu      sync.Mutex
	running int
}

// read takes messages until the socket ends, and returns why, nil when it was
// closed in an orderly way.
func (s *socket) read(ctx context.Context) error {
	for {
		err := s.receive(ctx)
		switch websocket.CloseStatus(err) {
		case websocket.StatusNormalClosure, websocket.StatusGoingAway, websocket.StatusNoStatusRcvd:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// receive waits for a message to begin, however long, and not as long for its end.
func (s *socket) receive(ctx context.Context) error {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	kind, body, err := s.conn.Reader(reading)
	if err != nil {
		return err
	}
	late := time.AfterFunc(s.api.options.ReadTimeout, cancel)
	defer late.Stop()
	out := sender{http.Header{}, func(b []byte) error { return s.send(ctx, b) }}
	return s.messages.Take(context.WithValue(ctx, kindKey{}, kind), out, body)
}

// kindKey is the key of a message's kind in its context.
type kindKey struct{}

// message serves a message. What costs nothing to know is looked at before it is read.
func (s *socket) message(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	if ctx.Value(kindKey{}) != websocket.MessageText {
		return refused(textNoThrift)
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	body, err := server.ReadAnyBody(r)
	if err != nil {
		return err
	}
	q, err := s.api.parseBatch(ctx, body)
	switch {
	case errors.Is(err, errJSON):
		return refused(textBadJSON)
	case errors.Is(err, errShape):
		return refused(textBadShape)
	case err != nil:
		return err
	case q.model != s.model.ID && !dispatch.Placeholder(q.model):
		return refused("This socket is for the model `%.64s`: open /api/ws?model=NAME for another, given `%.64s`",
			s.model.ID, q.model)
	}
	server.NoteModel(ctx, q.model, s.model.ID)
	report(w, q.ids, func(l *pythonList, _ int) {
		if len(q.unknown) > 0 { // which HTTP tells in a header
			l.texts("ignored_fields", q.unknown)
		}
		l.text("type", eventAccepted)
	})
	server.Next(ctx)
	s.serve(ctx, w, q)
	return nil
}

// shortMessage is the length up to which a message is read that a limit of the key refuses.
const shortMessage = 4 << 10

// short returns what a message asks for that was not read, nil if it is long or asks for nothing.
func (s *socket) short(message io.Reader) *request {
	text, err := io.ReadAll(io.LimitReader(message, shortMessage+1))
	if err != nil || len(text) > shortMessage {
		return nil
	}
	q, err := readBatch(text, s.api.options.Config.MaxPrompts)
	if err != nil {
		return nil
	}
	return q
}

// enter takes one of the places of what runs on the socket, or says why there is none. The next message is looked at
// when this one was accepted, so that nothing begins behind idle.
func (s *socket) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch text := s.ending(); {
	case text != "":
		return &refusal{status: http.StatusServiceUnavailable, text: text, cause: llm.ErrDraining}
	case s.running == maxJobs:
		return &refusal{status: http.StatusTooManyRequests, text: textManyJobs, cause: llm.ErrOverloaded}
	}
	s.running++
	return nil
}

func (s *socket) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
}

// refuse tells why a message is not served, as what is about no request in particular: it may not have been read. A
// limit of the key is told by the ids of a message that is short enough to look for them.
func (s *socket) refuse(w http.ResponseWriter, r *http.Request, err error) {
	server.Note(r.Context(), err)
	if errors.Is(err, server.ErrBody) {
		return // it ends with the socket
	}
	f := explain(err)
	w.WriteHeader(f.Status)
	if f.Kind == server.KindRateLimited {
		if q := s.short(r.Body); q != nil {
			reportError(w, q.ids, f.Text)
			return
		}
	}
	_, _ = w.Write(appendError(nil, f.Text))
}

// watch closes the socket when the server or its model is about to end and nothing
// runs on it, and looks from time to time whether the client is still there.
func (s *socket) watch(ctx context.Context) {
	tick := time.NewTicker(s.api.pollInterval)
	defer tick.Stop()
	for looks := 1; ; looks++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if text := s.ending(); text != "" && s.idle() {
			s.sendError(ctx, text)
			_ = s.conn.Close(websocket.StatusGoingAway, text)
			return
		}
		if looks%s.api.pingEvery == 0 {
			if err := s.alive(ctx); err != nil {
				_ = s.conn.CloseNow()
				return
			}
		}
	}
}

// alive waits for an answer to a ping.
func (s *socket) alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.api.options.WriteTimeout)
	defer cancel()
	return s.conn.Ping(ctx)
}

// idle reports whether nothing runs on the socket.
func (s *socket) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running == 0
}

// ending says why no more requests are taken of sockets, "" while they are: the server
// is about to end, though the engine works, or the model is.
func (s *socket) ending() string {
	switch {
	case s.model.Stopping != nil && s.model.Stopping():
		return textStopping
	case s.api.options.Ready() != nil && s.model.Service.Healthy() == nil:
		return textDraining
	}
	return ""
}

// sender is the http.ResponseWriter of a message: each write is one of the server's messages.
type sender struct {
	header http.Header // which goes nowhere
	send   func([]byte) error
}

// Header implements http.ResponseWriter.
func (s sender) Header() http.Header { return s.header }

// WriteHeader implements http.ResponseWriter. What is sent has no status.
func (sender) WriteHeader(int) {}

// Write implements http.ResponseWriter.
func (s sender) Write(b []byte) (int, error) { return len(b), s.send(b) }

// send sends one message. A client that does not take it loses its connection:
// that ends the reading, and what runs.
func (s *socket) send(ctx context.Context, message []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.api.options.WriteTimeout)
	defer cancel()
	err := s.conn.Write(ctx, websocket.MessageText, message)
	if err != nil {
		_ = s.conn.CloseNow()
	}
	return err
}

// sendError sends an error that is about no request.
func (s *socket) sendError(ctx context.Context, text string) {
	_ = s.send(ctx, appendError(nil, text))
}

func appendError(b []byte, text string) []byte {
	return append(appendASCII(append(b, `[{"error": `...), text), "}]"...)
}
