package generateapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"

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
	var watching sync.WaitGroup
	watching.Go(func() { s.watch(ctx) })
	err = s.read(ctx)
	server.Note(ctx, err)
	cancel(err)
	s.jobs.Wait()
	watching.Wait()
	_ = conn.CloseNow()
	return nil
}

// socket is one connection.
type socket struct {
	api   *API
	model *dispatch.Model
	conn  *websocket.Conn
	scope string
	jobs  sync.WaitGroup

	mu      sync.Mutex
	running int
}

// read takes messages until the socket ends, and returns why, nil when it was
// closed in an orderly way.
func (s *socket) read(ctx context.Context) error {
	for {
		kind, message, err := s.receive(ctx)
		switch websocket.CloseStatus(err) {
		case websocket.StatusNormalClosure, websocket.StatusGoingAway, websocket.StatusNoStatusRcvd:
			return nil
		}
		if err != nil {
			return err
		}
		if text := s.take(ctx, kind, message); text != "" {
			s.sendError(ctx, text)
		}
	}
}

// receive waits for a message to begin, however long, and not as long for its end.
func (s *socket) receive(ctx context.Context) (websocket.MessageType, []byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	kind, r, err := s.conn.Reader(ctx)
	if err != nil {
		return kind, nil, err
	}
	late := time.AfterFunc(s.api.options.ReadTimeout, cancel)
	defer late.Stop()
	message, err := io.ReadAll(r)
	return kind, message, err
}

// take starts what a message asks for, or returns what is wrong with it.
func (s *socket) take(ctx context.Context, kind websocket.MessageType, message []byte) string {
	if kind != websocket.MessageText {
		return textNoThrift
	}
	q, err := readBatch(message, s.api.options.Config.MaxPrompts)
	switch {
	case errors.Is(err, errJSON):
		return textBadJSON
	case errors.Is(err, errShape):
		return textBadShape
	case err != nil:
		return explain(err).Text
	case q.model != s.model.ID && !dispatch.Placeholder(q.model):
		return fmt.Sprintf("This socket is for the model `%.64s`: open /api/ws?model=NAME for another, given `%.64s`",
			s.model.ID, q.model)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch text := s.ending(); { // now, so that nothing begins behind idle
	case text != "":
		return text
	case s.running == maxJobs:
		return textManyJobs
	}
	s.running++
	s.jobs.Go(func() {
		s.serve(ctx, q)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
	})
	return ""
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

// send sends one message. A client that does not take it loses its connection:
// that ends the reading, and what runs.
func (s *socket) send(ctx context.Context, message []byte) {
	ctx, cancel := context.WithTimeout(ctx, s.api.options.WriteTimeout)
	defer cancel()
	if err := s.conn.Write(ctx, websocket.MessageText, message); err != nil {
		_ = s.conn.CloseNow()
	}
}

// sendError sends an error that is about no request.
func (s *socket) sendError(ctx context.Context, text string) {
	s.send(ctx, append(appendASCII([]byte(`[{"error": `), text), "}]"...))
}
