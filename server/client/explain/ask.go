package explain

import (
	"context"
	"encoding/json"
	"net/http"

	"tgi/server/client/call"
	"tgi/server/client/chat"
	"tgi/server/client/replay"
	"tgi/server/wire"
)

// Question is what a model is asked, to explain its reply.
type Question struct {
	// Message is a user's; with Text the model goes on with it instead, without a chat template.
	Message string
	Text    bool
	// Model is the one to ask, empty for the server's default.
	Model string
	// Top and Tokens say how much is explained.
	Top, Tokens int
	// Settings are further members of the request.
	Settings map[string]json.RawMessage
}

// request returns the request.
func (q *Question) request() (r replay.Request, err error) {
	members := map[string]any{"explain": map[string]int{"top": q.Top, "tokens": q.Tokens}}
	for name, value := range q.Settings {
		members[name] = value
	}
	if q.Model != "" {
		members["model"] = q.Model
	}
	if r.Path = "/v1/completions"; q.Text {
		members["prompt"] = q.Message
	} else {
		r.Path = "/v1/chat/completions"
		members["messages"] = []map[string]string{{"role": "user", "content": q.Message}}
	}
	r.Body, err = json.Marshal(members)
	return r, err
}

// Ask returns the question's request with its reply. What the server refuses is a *chat.Refusal.
func Ask(ctx context.Context, c *call.Caller, q Question) (f replay.File, err error) {
	if f.Request, err = q.request(); err != nil {
		return f, err
	}
	reply, err := c.Do(ctx, http.MethodPost, f.Request.Path, nil, f.Request.Body)
	if err == nil && reply.Status != http.StatusOK {
		err = &chat.Refusal{Status: reply.Status, Text: chat.Reason(reply.Body)}
	}
	f.Reply = reply.Body
	return f, err
}

// Kept returns the reply that data holds: it may be one, or a file with the request.
func Kept(data []byte) ([]byte, error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil || members["request"] == nil || members["reply"] == nil {
		return data, nil
	}
	var f replay.File
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, wire.Told(err)
	}
	var events string
	if wire.Kind(f.Reply) == "a string" && json.Unmarshal(f.Reply, &events) == nil { // of a stream
		return []byte(events), nil
	}
	return f.Reply, nil
}
