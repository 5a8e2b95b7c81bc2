package generateapi

import (
	"context"
	"net/http"
	"time"

	"tgi/server"
)

// Types of events, in the order in which a request has them.
const (
	eventAccepted    = "ACCEPTED"
	eventStarted     = "STARTED"
	eventInitialized = "INITIALIZED"
	eventProgress    = "PROGRESS"
	eventComplete    = "COMPLETE"
	eventError       = "ERROR"
)

// serve runs one request of a socket, which was accepted, and reports it.
func (s *socket) serve(ctx context.Context, w http.ResponseWriter, q *request) {
	began := time.Now()
	j, err := s.api.begin(ctx, s.model, s.scope, q)
	if err == nil {
		defer j.close()
		err = s.follow(ctx, w, q, j, began)
	}
	if err == nil {
		return
	}
	server.Note(ctx, err)
	if ctx.Err() != nil {
		return
	}
	if j != nil {
		j.close() // before the client hears of it and asks again
	}
	reportError(w, q.ids, explain(err).Text)
}

// reportError sends the event that requests have in place of their texts.
func reportError(w http.ResponseWriter, ids []string, text string) {
	report(w, ids, func(l *pythonList, _ int) {
		l.text("type", eventError)
		l.text("error", text)
	})
}

// report sends an event with an object for each of ids.
func report(w http.ResponseWriter, ids []string, fill func(l *pythonList, i int)) {
	var list pythonList
	for i, id := range ids {
		list.object()
		list.text("request_id", id)
		fill(&list, i)
	}
	_, _ = w.Write(list.end()) // a client that left ends the socket
}

// follow reports a job's texts until all have ended.
func (s *socket) follow(ctx context.Context, w http.ResponseWriter, q *request, j *job, began time.Time) error {
	report(w, j.ids, func(l *pythonList, _ int) { l.text("type", eventStarted) })
	if q.stream {
		report(w, j.ids, func(l *pythonList, i int) {
			l.text("text", j.texts[i].before)
			l.text("type", eventInitialized)
		})
	}
	whole, err := s.progress(ctx, w, q, j)
	if err != nil {
		return err
	}
	if err := j.settle(ctx); err != nil {
		return err
	}
	j.close() // who reads the last event may ask again at once
	took := time.Since(began).Seconds()
	report(w, j.ids, func(l *pythonList, i int) {
		t := j.texts[i]
		l.text("text", t.before+whole[i])
		l.truth("is_eos", t.done)
		l.count("new_tokens_count", t.count)
		l.number("execution_time", took)
		t.tell(l)
		l.text("type", eventComplete)
	})
	return nil
}

// progress reads the texts side by side, as the original's batches run: each
// event has the next token of every text that has not ended. With beams, there is
// one event with all that won.
func (s *socket) progress(ctx context.Context, w http.ResponseWriter, q *request, j *job) (whole []string, err error) {
	parts := make([][]byte, len(j.texts))
	over := make([]bool, len(j.texts))
	left := 0
	for i, t := range j.texts {
		if over[i] = t.run == nil; !over[i] {
			left++
		}
	}
	for left > 0 {
		var list pythonList
		for i, t := range j.texts {
			if over[i] {
				continue
			}
			piece := ""
			if j.settings.beams > 1 {
				over[i] = true
				piece, err = t.rest(ctx)
			} else {
				piece, over[i], err = t.next(ctx)
			}
			if err != nil {
				return nil, err
			}
			if over[i] {
				left--
			}
			parts[i] = append(parts[i], piece...)
			list.object()
			list.text("request_id", j.ids[i])
			list.text("text", piece)
			list.text("type", eventProgress)
		}
		if q.stream {
			_, _ = w.Write(list.end())
		}
	}
	for i := range parts {
		whole = append(whole, string(parts[i]))
	}
	return whole, nil
}
