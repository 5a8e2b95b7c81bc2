package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Errors of an answer that began. What came before them was shown.
var (
	// ErrIncomplete: the stream ended before it gave a finish_reason.
	ErrIncomplete = errors.New("the answer broke off")
	// ErrMalformed: what came is no event of OpenAI's chat stream.
	ErrMalformed = errors.New("the server does not speak OpenAI's chat stream")
)

// Refusal is an error that the server reported, by its status or by an event.
type Refusal struct {
	// Status of the response, or the one that an event names; 0 for none.
	Status int
	// Text is the server's message, one line; empty when it gave none.
	Text string
	// RetryAfter is the header's value: seconds or a date; empty for none.
	RetryAfter string
}

// Error implements error.
func (r *Refusal) Error() string {
	b := strings.Builder{}
	if r.Status != 0 {
		fmt.Fprintf(&b, "%d %s", r.Status, http.StatusText(r.Status))
	}
	if r.Text != "" {
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(r.Text)
	}
	switch {
	case r.RetryAfter == "":
	case strings.Trim(r.RetryAfter, "0123456789") == "":
		fmt.Fprintf(&b, " (try again in %s s)", r.RetryAfter)
	default:
		fmt.Fprintf(&b, " (try again after %s)", r.RetryAfter)
	}
	return b.String()
}

// maxRefusal bounds what is shown of an error whose shape is unknown, in bytes.
const maxRefusal = 300

// Reason returns the message of an error's body or event: OpenAI's object, TGI's
// text, FastAPI's detail, or the beginning of whatever it is.
func Reason(data []byte) string {
	var shapes struct {
		Error  json.RawMessage
		Detail json.RawMessage
	}
	text := strings.TrimSpace(string(data))
	if json.Unmarshal(data, &shapes) == nil {
		for _, raw := range []json.RawMessage{shapes.Error, shapes.Detail} {
			var object struct{ Message string }
			var plain string
			switch {
			case json.Unmarshal(raw, &plain) == nil && plain != "":
				return oneLine(plain)
			case json.Unmarshal(raw, &object) == nil && object.Message != "":
				return oneLine(object.Message)
			}
		}
	}
	if len(text) > maxRefusal {
		text = strings.ToValidUTF8(text[:maxRefusal], "") + "..."
	}
	return oneLine(text)
}

// oneLine joins the lines of a text.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
