package generateapi

import (
	"context"
	"time"
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

// serve runs one request of a socket and reports it.
func (s *socket) serve(ctx context.Context, q *request) {
	s.tell(ctx, q.ids, func(l *pythonList, _ int) { l.text("type", eventAccepted) })
	began := time.Now()
	j, err := s.api.begin(ctx, s.model, s.scope, q)
	if err == nil {
		defer j.close()
		err = s.follow(ctx, q, j, began)
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	s.api.options.Log.Info("WebSocket request failed", "error", err)
	if j != nil {
		j.close() // before the client hears of it and asks again
	}
	text := explain(err).Text
	s.tell(ctx, q.ids, func(l *pythonList, _ int) {
		l.text("type", eventError)
		l.text("error", text)
	})
}

// tell sends an event with an object for each of ids.
func (s *socket) tell(ctx context.Context, ids []string, fill func(l *pythonList, i int)) {
	var list pythonList
	for i, id := range ids {
		list.object()
		list.text("request_id", id)
		fill(&list, i)
	}
	s.send(ctx, list.end())
}

// follow reports a job's texts until all have ended.
func (s *socket) follow(ctx context.Context, q *request, j *job, began time.Time) error {
	s.tell(ctx, j.ids, func(l *pythonList, _ int) { l.text("type", eventStarted) })
	if q.stream {
		s.tell(ctx, j.ids, func(l *pythonList, i int) {
			l.text("text", j.texts[i].before)
			l.text("type", eventInitialized)
		})
	}
	whole, err := s.progress(ctx, q, j)
	if err != nil {
		return err
	}
	if err := j.settle(ctx); err != nil {
		return err
	}
	j.close() // who reads the last event may ask again at once
	took := time.Since(began).Seconds()
	s.tell(ctx, j.ids, func(l *pythonList, i int) {
		t := j.texts[i]
		l.text("text", t.before+whole[i])
		l.truth("is_eos", t.done)
		l.count("new_tokens_count", len(t.fresh))
		l.number("execution_time", took)
		t.tell(l)
		l.text("type", eventComplete)
	})
	return nil
}

// progress reads the texts side by side, as the original's batches run: each
// event has the next token of every text that has not ended. With beams, there is
// one event with all that won.
func (s *socket) progress(ctx context.Context, q *request, j *job) (whole []string, err error) {
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
			s.send(ctx, list.end())
		}
	}
	for i := range parts {
		whole = append(whole, string(parts[i]))
	}
	return whole, nil
}
