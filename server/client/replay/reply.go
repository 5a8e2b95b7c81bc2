package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"tgi/server/sse"
)

// outcome is what a reply says, whatever its API.
type outcome struct {
	receipts []json.RawMessage
	texts    []string // of each sequence, with its calls behind it
	parts    [][]byte // the same while they grow
	err      string   // that the reply is
}

// Receipts returns the receipts of a reply.
func Receipts(reply []byte) []json.RawMessage { return outcomeOf(reply).receipts }

// outcome reads a reply to e, which has a status, 0 where it is not known.
func (e *Exchange) outcome(reply []byte, status int) outcome {
	switch a := e.api(); {
	case (a == batchAPI || a == textAPI) && status >= http.StatusBadRequest: // errors are plain text
		return outcome{err: cut(string(reply))}
	case a == textAPI:
		return outcome{texts: []string{string(reply)}}
	}
	return outcomeOf(reply)
}

// outcomeOf reads a reply: JSON, lines of JSON, or a stream of events.
func outcomeOf(reply []byte) (o outcome) {
	o.read(reply)
	for _, p := range o.parts {
		o.texts = append(o.texts, string(p))
	}
	o.parts = nil
	return o
}

func (o *outcome) read(reply []byte) {
	text := bytes.TrimSpace(reply)
	switch {
	case json.Valid(text) && (text[0] == '{' || text[0] == '['):
		o.whole(text)
		return
	case len(text) > 0 && text[0] == '{':
		o.lines(text)
		return
	}
	events := sse.New(bytes.NewReader(reply))
	for {
		data, err := events.Next()
		if err != nil {
			return
		}
		o.event(data)
	}
}

// lines reads a stream of Ollama's.
func (o *outcome) lines(text []byte) {
	d := json.NewDecoder(bytes.NewReader(text))
	for {
		var m message
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			o.err = "it is of no known form"
			return
		}
		o.take(&m)
		o.say(0, m.said())
		text, _ := m.response()
		o.add(0, m.Thinking+text)
	}
}

// message is what all forms of replies and events have, as far as it says what was generated.
type message struct {
	// TGI's
	GeneratedText *string `json:"generated_text"`
	Token         *struct {
		Text    string
		Special bool
	}
	Details *struct {
		Receipt json.RawMessage
		Best    []struct {
			Text string `json:"generated_text"`
		} `json:"best_of_sequences"`
	}
	// OpenAI's
	Choices []struct {
		Index   int
		Text    string
		Message *said
		Delta   *said
	}
	Receipts []json.RawMessage
	Receipt  json.RawMessage
	// Response is that of an event of responses, or a text: Ollama's, or the generate API's.
	Response json.RawMessage
	// Ollama's
	Message  json.RawMessage
	Thinking string
	// Vertex AI's
	Predictions []string
	// KServe's
	Outputs json.RawMessage
	// Anthropic's and OpenAI's responses
	Content []part
	Output  []struct {
		Content         []part
		Name, Arguments string
	}
	Error json.RawMessage
	// Delta is Anthropic's object or the text of an event of responses.
	Delta json.RawMessage
}

// said is what a choice says.
type said struct {
	Content, Reasoning, Thinking *string
	ToolCalls                    []struct{ Function function } `json:"tool_calls"`
	FunctionCall                 *function                     `json:"function_call"`
}

type function struct {
	Name      string
	Arguments json.RawMessage
}

// part is a piece of content.
type part struct {
	Text, Thinking, Name string
	Input                json.RawMessage
}

// whole reads a reply in one piece.
func (o *outcome) whole(data []byte) {
	if data[0] == '[' { // TGI's POST /
		var list []json.RawMessage
		if json.Unmarshal(data, &list) == nil {
			for _, one := range list {
				o.whole(bytes.TrimSpace(one))
			}
		}
		return
	}
	var m message
	if json.Unmarshal(data, &m) != nil {
		o.err = "it is of no known form"
		return
	}
	o.take(&m)
	if m.GeneratedText != nil {
		o.parts = append(o.parts, []byte(*m.GeneratedText))
		if m.Details != nil {
			for _, other := range m.Details.Best {
				o.parts = append(o.parts, []byte(other.Text))
			}
		}
	}
	if text, ok := m.response(); ok {
		o.parts = append(o.parts, []byte(m.Thinking+text))
	}
	o.say(0, m.said())
	for _, text := range m.Predictions {
		o.parts = append(o.parts, []byte(text))
	}
	var outputs []struct{ Data json.RawMessage }
	if json.Unmarshal(m.Outputs, &outputs) == nil {
		for _, out := range outputs {
			o.parts = append(o.parts, octets(out.Data))
		}
	}
	for _, c := range m.Choices {
		o.add(c.Index, c.Text)
		o.say(c.Index, c.Message)
	}
	for _, p := range m.Content {
		o.add(0, p.string())
	}
	for _, item := range m.Output {
		o.add(0, item.Name+item.Arguments)
		for _, p := range item.Content {
			o.add(0, p.string())
		}
	}
}

// octets are the bytes of an output of KServe's: a list of them, or, of other servers, of texts.
func octets(data json.RawMessage) (text []byte) {
	var list []uint16
	var texts []string
	switch {
	case json.Unmarshal(data, &list) == nil:
		for _, c := range list {
			text = append(text, byte(c))
		}
	case json.Unmarshal(data, &texts) == nil:
		text = []byte(strings.Join(texts, "\n"))
	}
	return text
}

// response is the text of the member response, where that is one.
func (m *message) response() (text string, ok bool) {
	ok = json.Unmarshal(m.Response, &text) == nil
	return text, ok
}

// said is what Ollama's message says, nil where there is none.
func (m *message) said() *said {
	var s said
	if json.Unmarshal(m.Message, &s) != nil {
		return nil
	}
	return &s
}

func (p *part) string() string { return p.Thinking + p.Text + p.Name + compact(p.Input) }

// event reads an event of a stream.
func (o *outcome) event(data []byte) {
	var m message
	if json.Unmarshal(data, &m) != nil {
		return // [DONE] and its like
	}
	o.take(&m)
	if m.Token != nil && !m.Token.Special {
		o.add(0, m.Token.Text)
	}
	for _, c := range m.Choices {
		o.add(c.Index, c.Text)
		o.say(c.Index, c.Delta)
	}
	var piece struct {
		Text, Thinking string
		Partial        string `json:"partial_json"`
	}
	var text string
	switch {
	case json.Unmarshal(m.Delta, &text) == nil:
		o.add(0, text)
	case json.Unmarshal(m.Delta, &piece) == nil:
		o.add(0, piece.Thinking+piece.Text+piece.Partial)
	}
}

// take takes what replies and events have alike.
func (o *outcome) take(m *message) {
	if m.Details != nil && m.Details.Receipt != nil {
		o.receipts = append(o.receipts, slices.Clone(m.Details.Receipt))
	}
	if m.Receipt != nil {
		o.receipts = append(o.receipts, slices.Clone(m.Receipt))
	}
	var inner struct{ Receipt json.RawMessage }
	if json.Unmarshal(m.Response, &inner) == nil && inner.Receipt != nil {
		o.receipts = append(o.receipts, slices.Clone(inner.Receipt))
	}
	for _, r := range m.Receipts {
		o.receipts = append(o.receipts, slices.Clone(r))
	}
	if len(m.Error) > 0 && string(m.Error) != "null" {
		o.err = reason(m.Error)
	}
}

func (o *outcome) add(index int, text string) {
	if index < 0 || index > 1<<16 {
		return
	}
	for len(o.parts) <= index {
		o.parts = append(o.parts, nil)
	}
	o.parts[index] = append(o.parts[index], text...)
}

func (o *outcome) say(index int, s *said) {
	if s == nil {
		return
	}
	for _, text := range []*string{s.Reasoning, s.Thinking, s.Content} {
		if text != nil {
			o.add(index, *text)
		}
	}
	for _, c := range s.ToolCalls {
		o.add(index, c.Function.string())
	}
	if s.FunctionCall != nil {
		o.add(index, s.FunctionCall.string())
	}
}

func (f *function) string() string {
	var text string
	if json.Unmarshal(f.Arguments, &text) == nil {
		return f.Name + text
	}
	return f.Name + compact(f.Arguments)
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// reason returns the text of an error.
func reason(raw json.RawMessage) string {
	var text string
	var object struct{ Message string }
	switch {
	case json.Unmarshal(raw, &text) == nil:
	case json.Unmarshal(raw, &object) == nil && object.Message != "":
		text = object.Message
	default:
		text = string(raw)
	}
	return cut(text)
}

// cut is an error's text in one line, wherever it was found, and not all of it where it is long.
func cut(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if text = position.ReplaceAllString(text, ""); len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "..."
	}
	return text
}

// position is where an error of a body was found. A body that is sent again may be written in another way.
var position = regexp.MustCompile(` at line \d+ column \d+`)

// maxReason bounds what is shown of an error, in bytes.
const maxReason = 500
