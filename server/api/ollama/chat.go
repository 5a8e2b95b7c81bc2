package ollama

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/api/deltas"
	"tgi/server/dispatch"
	"tgi/server/generate"
)

// chat serves POST /api/chat.
func (a *API) chat(w http.ResponseWriter, r *http.Request) error { return a.answer(w, r, decodeChat) }

// generate serves POST /api/generate.
func (a *API) generate(w http.ResponseWriter, r *http.Request) error {
	return a.answer(w, r, decodeGenerate)
}

// answer reads a call and replies to it.
func (a *API) answer(w http.ResponseWriter, r *http.Request, decode func([]byte) (*call, error)) error {
	began := a.now()
	body, err := server.ReadAnyBody(r)
	if err != nil {
		return err
	}
	c, err := server.Parse(r.Context(), body, decode)
	if err != nil {
		return err
	}
	id := means(c.named, a.options.Models.Has)
	if c.empty && c.keep != nil && *c.keep == 0 {
		return a.unload(w, r, c, id)
	}
	if c.thinks {
		if info, err := a.options.Library.Get(r.Context(), id); err == nil && !info.Thinking {
			return refused(http.StatusBadRequest, "%q does not support thinking", llm.Shorten(c.named))
		}
	}
	m, release, err := dispatch.Use(a.options.Models, r, id)
	if err != nil {
		return about(c.named, err)
	}
	defer func() {
		release()
		a.keeps(r, id, c.keep)
	}()
	c.model, c.named = m, echoed(c.named, m.ID)
	c.shown.CallID = func() string { return "call_" + a.name() }
	if c.keep != nil && !a.mayKeep(r) {
		c.ignored = append(c.ignored, "keep_alive")
	}
	ignored(w, c.ignored)
	if c.empty {
		server.WriteJSON(w, append(a.appendNothing(nil, c), `"load"}`...))
		return nil
	}
	at := times{began: began, loaded: a.now()}
	run, err := a.start(r.Context(), c)
	if err != nil {
		return err
	}
	defer run.Close()
	at.started = a.now()
	t := &turn{api: a, call: c, run: run, choice: deltas.NewChoice(&c.shown, run, 0), times: at}
	if c.stream {
		return t.lines(w, r)
	}
	return t.whole(w, r)
}

// ignored says in the header which members of a body have no effect.
func ignored(w http.ResponseWriter, names []string) {
	if len(names) > 0 {
		slices.Sort(names)
		generate.SetUnknown(w.Header(), slices.Compact(names))
	}
}

// appendNothing writes the reply to a request without a prompt up to why it is done.
func (a *API) appendNothing(b []byte, c *call) []byte {
	b = a.appendHead(b, c.named)
	if c.chat {
		b = append(b, `,"message":{"role":"assistant","content":""}`...)
	} else {
		b = append(b, `,"response":""`...)
	}
	return append(b, `,"done":true,"done_reason":`...)
}

// unload lets a model go that nobody uses.
func (a *API) unload(w http.ResponseWriter, r *http.Request, c *call, id string) error {
	if !a.options.Models.Has(id) {
		return notFound(c.named)
	}
	if !a.keeps(r, id, c.keep) {
		if !a.mayKeep(r) {
			return refused(http.StatusForbidden, "`keep_alive` needs a key with the scope `admin`")
		}
		return refused(http.StatusConflict, "model '%.200s' stays loaded: requests could not load it again "+
			"(models.autoload)", c.named)
	}
	server.WriteJSON(w, append(a.appendNothing(nil, c), `"unload"}`...))
	return nil
}

// start starts the call. The oldest messages that do not fit are left out where the request does not forbid it, and
// a prompt for a model without a template is read as it is.
func (a *API) start(ctx context.Context, c *call) (*generate.Run, error) {
	run, err := c.model.Service.Start(ctx, c.draft)
	if errors.Is(err, generate.ErrNoTemplate) && !c.chat {
		if err := c.bare(); err != nil {
			return nil, err
		}
		run, err = c.model.Service.Start(ctx, c.draft)
	}
	if rule, ok := errors.AsType[*generate.Invalid](err); ok && rule.TooLong && c.truncate && c.chat {
		if err := c.fit(ctx); err != nil {
			return nil, err
		}
		run, err = c.model.Service.Start(ctx, c.draft)
	}
	return run, err
}

// bare makes the prompt of a conversation without a template: Ollama's own template then is the user's text alone.
func (c *call) bare() error {
	if c.system {
		return invalid("system", "`system` needs a chat template, which this model has not")
	}
	c.draft.Conversation, c.draft.Inputs = nil, c.text
	return nil
}

// fit leaves out as few of the oldest messages as it takes for the others to fit: those of the system and the last one
// stay, as in Ollama.
func (c *call) fit(ctx context.Context) error {
	conversation := *c.draft.Conversation
	all := conversation.Messages
	c.draft.Conversation = &conversation
	most := min(c.model.Limits.MaxInputTokens, c.model.Limits.MaxTotalTokens-1)
	low, high := 1, len(all) // what fits is in (low-1, high]
	for low < high {
		drop := (low + high) / 2
		conversation.Messages = without(all, drop)
		n, err := c.model.Service.Count(ctx, c.draft, most)
		if err != nil {
			return err
		}
		if n <= most {
			high = drop
		} else {
			low = drop + 1
		}
	}
	conversation.Messages = without(all, low)
	return nil
}

// without returns messages without those before the n-th, but for those of the system. What a tool said does not come
// first: the call that it answers is gone.
func without(all []generate.Message, n int) []generate.Message {
	n = min(n, len(all)-1)
	for n < len(all)-1 && all[n].Role == "tool" {
		n++
	}
	var kept []generate.Message
	for i, m := range all {
		if i >= n || m.Role == "system" {
			kept = append(kept, m)
		}
	}
	return kept
}
