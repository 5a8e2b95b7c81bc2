package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"tgi/server/sse"
	"tgi/server/wire"
)

// outcome is what a reply says, whatever its API.
type outcome struct {
	receipts []receipt
	raw      []json.RawMessage // the receipts as they are
	said     map[place][]byte
	ends     map[ending]string
	// speaks says that the reply has a member for what it says, be that empty.
	speaks bool
	err    string      // that the reply is
	flaw   error       // why it cannot be read
	calls  map[int]int // how many whole calls each sequence has
	made   map[int][]*toolCall
	// uses are those of made that are blocks of messages, by their ids, blocks the same by their indexes.
	uses   map[string]*toolCall
	blocks map[int]*toolCall
	// base is added to numbers of sequences, and next is the first that no sequence has.
	base, next int
}

// Receipts returns the receipts of a reply, as they are. The error says which field of it or of them cannot be read.
func Receipts(reply []byte) ([]json.RawMessage, error) {
	o := outcomeOf(reply)
	return o.raw, o.flaw
}

// fail keeps the first reason why a reply cannot be read.
func (o *outcome) fail(err error) {
	if o.flaw == nil {
		o.flaw = err
	}
}

// outcome reads a reply to e, which has a status, 0 where it is not known.
func (e *Exchange) outcome(reply []byte, status int) outcome {
	var o outcome
	switch a := e.api(); {
	case (a == batchAPI || a == textAPI) && status >= http.StatusBadRequest: // errors are plain text
		o.err = cut(string(reply))
	case a == textAPI:
		o.speaks = true
		o.add(place{kind: text}, string(reply))
	default:
		o = outcomeOf(reply)
		if o.flaw != nil && status >= http.StatusBadRequest { // another server's error
			return outcome{err: cut(string(reply))}
		}
	}
	return o
}

// outcomeOf reads a reply: JSON, lines of JSON, or a stream of events.
func outcomeOf(reply []byte) (o outcome) {
	o.read(reply)
	if tokens, ok := o.said[place{kind: text, again: tokenTexts}]; ok { // a stream that tells no text of its own
		if _, whole := o.said[place{kind: text}]; !whole {
			o.add(place{kind: text}, string(tokens))
		}
	}
	return o
}

func (o *outcome) read(reply []byte) {
	for p, err := range Parts(reply) {
		switch {
		case err != nil:
			o.fail(err)
		case p.Event:
			o.event(p.Data)
		case p.Element >= 0:
			o.base = o.next
			if given := wire.Kind(p.Data); given != "an object" {
				o.fail(fmt.Errorf("element %d: want an object, given %s", p.Element, given))
			}
			o.whole(p.Data)
			o.next = max(o.next, o.base+1)
		default:
			o.whole(p.Data)
		}
	}
	o.base = 0
}

// Part is a piece of a reply that is JSON of its own.
type Part struct {
	// Data is the JSON, which may be none in an event.
	Data json.RawMessage
	// Element is its number in the list that the reply is, -1 where that is no list.
	Element int
	// Event says that it is the data of an event of a stream.
	Event bool
}

// Parts gives the parts of a reply: the object that it is, those of a list or of lines, or the events of a stream. An
// error is the last that it gives.
func Parts(reply []byte) iter.Seq2[Part, error] {
	return func(yield func(Part, error) bool) {
		text := bytes.TrimSpace(reply)
		switch {
		case len(text) > 0 && text[0] == '[' && json.Valid(text): // TGI's POST /, and the generate API's
			var list []json.RawMessage
			_ = json.Unmarshal(text, &list) // it is valid
			for i, one := range list {
				if !yield(Part{Data: one, Element: i}, nil) {
					return
				}
			}
			return
		case len(text) > 0 && text[0] == '{': // or a stream of Ollama's, in lines
			d := json.NewDecoder(bytes.NewReader(text))
			for {
				var one json.RawMessage
				err := d.Decode(&one)
				if errors.Is(err, io.EOF) {
					return
				}
				if err != nil {
					yield(Part{}, wire.Told(err))
					return
				}
				if !yield(Part{Data: one, Element: -1}, nil) {
					return
				}
			}
		}
		events := sse.New(bytes.NewReader(reply))
		for {
			data, err := events.Next()
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				yield(Part{}, err)
				return
			case string(data) != done && !yield(Part{Data: data, Element: -1, Event: true}, nil):
				return
			}
		}
	}
}

// done ends streams of OpenAI's.
const done = "[DONE]"

// decode reads JSON, and keeps why it cannot.
func (o *outcome) decode(data []byte, to any) bool {
	err := json.Unmarshal(data, to)
	if err != nil {
		o.fail(wire.Told(err))
	}
	return err == nil
}

// tokenTexts is what the texts of TGI's tokens are called, which say again what the whole text says.
const tokenTexts = "tokens"

// whole reads a reply in one piece, or a line of one of Ollama's.
func (o *outcome) whole(data []byte) {
	var m message
	if !o.decode(data, &m) {
		return
	}
	o.take(&m)
	if m.Details != nil {
		o.tokens(0, m.Details.Tokens)
		for i, other := range m.Details.Best {
			o.end(i+1, "details.best_of_sequences.", &other.ends)
			o.add(place{sequence: i + 1, kind: text}, other.Text)
			o.tokens(i+1, other.Tokens)
		}
	}
	if said, ok := m.response(); ok {
		o.speaks = true
		o.add(place{kind: reasoning}, m.Thinking)
		o.add(place{kind: text}, said)
	}
	if wire.Kind(m.Message) == "an object" {
		var s said
		if json.Unmarshal(m.Message, &s) == nil {
			o.say(0, &s, true)
		} else {
			o.decode(data, &struct{ Message said }{}) // for the field's whole name
		}
	}
	o.ended(0, "", "done_reason", m.Done)
	if m.Content != nil {
		o.endMessage("", &m.messageEnd)
	}
	if m.Output != nil {
		o.endResponse("", &m.responseEnd)
	}
	o.speaks = o.speaks || m.Predictions != nil || m.Outputs != nil || m.Content != nil || m.Output != nil
	for i, said := range m.Predictions {
		o.add(place{sequence: i, kind: text}, said)
	}
	at := 0
	for _, out := range m.Outputs {
		for _, said := range o.octets(out.Data) {
			o.add(place{sequence: at, kind: text}, said)
			at++
		}
	}
	for i := range m.Content {
		o.part("", i, &m.Content[i])
		o.mcpBlock(i, &m.Content[i])
	}
	for i := range m.Output {
		o.item("", i, &m.Output[i])
		o.mcpItem(&m.Output[i])
	}
}

func (o *outcome) tokens(sequence int, list []token) {
	for _, t := range list {
		if !t.Special {
			o.add(place{again: tokenTexts, sequence: sequence, kind: text}, t.Text)
		}
	}
}

// octets are the texts of an output of KServe's: one of a list of bytes, or, of other servers, texts.
func (o *outcome) octets(data json.RawMessage) []string {
	var texts []string
	if json.Unmarshal(data, &texts) == nil {
		return texts
	}
	var list []uint16 // []uint8 is base64
	if err := json.Unmarshal(data, &list); err != nil {
		o.fail(errors.New("outputs.data: want an array of bytes, or of strings"))
	}
	said := make([]byte, len(list))
	for i, c := range list {
		if c > 255 {
			o.fail(fmt.Errorf("outputs.data: want bytes from 0 to 255, given %d", c))
		}
		said[i] = byte(c)
	}
	return []string{string(said)}
}

// response is the text of the member response, where that is one.
func (m *message) response() (text string, ok bool) {
	ok = wire.Kind(m.Response) == "a string" && json.Unmarshal(m.Response, &text) == nil
	return text, ok
}

// piece is something said of a kind.
type piece struct {
	kind
	said string
}

// piece adds one where there is any.
func (o *outcome) piece(at place, p piece) {
	if at.kind = p.kind; p.said != "" {
		o.add(at, p.said)
	}
}

// part adds a piece of content, number n.
func (o *outcome) part(again string, n int, p *part) {
	at := place{again: again, part: n}
	for _, one := range []piece{{reasoning, p.Thinking}, {p.kind(), p.Text}, {refusal, p.Refusal}} {
		o.piece(at, one)
	}
	if p.Name != "" || len(p.Input) > 0 {
		o.call(at, p.Name, written(p.Input))
	}
}

// kind is that of the part's text.
func (p *part) kind() kind {
	if strings.Contains(p.Type, "reasoning") || strings.Contains(p.Type, "summary") {
		return reasoning
	}
	return text
}

// item adds an item of responses, number n.
func (o *outcome) item(again string, n int, it *item) {
	for i := range it.Summary {
		o.part(again, n, &it.Summary[i])
	}
	for i := range it.Content {
		o.part(again, n, &it.Content[i])
	}
	given := it.Arguments
	if given == nil {
		given = it.Input
	}
	if it.Name != "" || len(given) > 0 {
		o.call(place{again: again, part: n}, it.Name, given)
	}
}

// call adds a call, or a piece of one.
func (o *outcome) call(at place, name string, arguments written) {
	at.kind = callName
	o.add(at, name)
	at.kind = callArguments
	o.add(at, unquoted(arguments))
}

// unquoted is the text of a JSON string, or any other value without spaces between its parts: files that are written
// anew have others.
func unquoted(raw written) string {
	var said string
	var b bytes.Buffer
	switch {
	case json.Unmarshal(raw, &said) == nil: // or null, which is nothing
		return said
	case json.Compact(&b, raw) != nil:
		return string(raw)
	}
	return b.String()
}

// event reads an event of a stream.
func (o *outcome) event(data []byte) {
	var m message
	if !o.decode(data, &m) {
		return
	}
	o.take(&m)
	if m.Token != nil {
		o.speaks = true
		o.tokens(0, []token{*m.Token})
	}
	switch {
	case strings.HasPrefix(m.Type, "response."):
		o.eventOfResponses(m.Type, data)
	case strings.HasPrefix(m.Type, "content_block_"):
		o.block(data)
	case m.Type == "message_delta":
		var e struct{ Delta messageEnd }
		if o.decode(data, &e) {
			o.endMessage("delta.", &e.Delta)
		}
	}
}

// block reads an event of messages about a block of content.
func (o *outcome) block(data []byte) {
	var e struct {
		Index int
		Block *part `json:"content_block"`
		Delta struct {
			Text, Thinking string
			Partial        string `json:"partial_json"`
		}
	}
	if !o.decode(data, &e) {
		return
	}
	o.speaks = true
	if e.Block != nil {
		if unquoted(written(e.Block.Input)) == "{}" { // its pieces follow
			e.Block.Input = object("null")
		}
		o.part("", e.Index, e.Block)
		o.mcpBlock(e.Index, e.Block)
	}
	if m := o.blocks[e.Index]; m != nil {
		m.arguments += e.Delta.Partial
	}
	at := place{part: e.Index}
	for _, one := range []piece{{reasoning, e.Delta.Thinking}, {text, e.Delta.Text}, {callArguments, e.Delta.Partial}} {
		o.piece(at, one)
	}
}

// eventOfResponses reads an event of responses.
func (o *outcome) eventOfResponses(name string, data []byte) {
	var e struct {
		At               int `json:"output_index"`
		Delta            written
		Text, Refusal    string
		Arguments, Input written
		Item             *item
		Part             *part
		Response         *struct{ Output []item }
	}
	if !o.decode(data, &e) {
		return
	}
	of := text
	switch {
	case strings.Contains(name, "reasoning"):
		of = reasoning
	case strings.Contains(name, "arguments"), strings.Contains(name, "input"):
		of = callArguments
	case strings.Contains(name, "refusal"):
		of = refusal
	}
	at := place{part: e.At, kind: of}
	switch {
	case strings.HasSuffix(name, ".delta"):
		o.speaks = true
		o.add(at, unquoted(e.Delta))
	case e.Item != nil && strings.HasSuffix(name, ".added"): // whose pieces follow
		o.speaks = true
		if e.Item.Name != "" {
			o.call(at, e.Item.Name, nil)
		}
	case e.Item != nil:
		o.item(name, e.At, e.Item)
		o.mcpItem(e.Item)
	case e.Part != nil:
		o.part(name, e.At, e.Part)
	case e.Response != nil:
		for i := range e.Response.Output {
			o.item("response", i, &e.Response.Output[i])
		}
	default:
		for _, said := range []string{e.Text, e.Refusal, unquoted(e.Arguments), unquoted(e.Input)} {
			if said != "" {
				at.again = name
				o.add(at, said)
			}
		}
	}
}

// take takes what replies and events have alike.
func (o *outcome) take(m *message) {
	if m.GeneratedText != nil {
		o.speaks = true
		o.add(place{kind: text}, *m.GeneratedText)
	}
	o.speaks = o.speaks || m.Choices != nil
	for _, c := range m.Choices {
		o.add(place{sequence: c.Index, kind: text}, c.Text)
		o.say(c.Index, c.Message, true)
		o.say(c.Index, c.Delta, false)
		o.end(c.Index, "choices.", &c.ends)
	}
	if given := wire.Kind(m.Message); given != "an object" && set(m.Message) && !set(m.Error) {
		o.fail(fmt.Errorf("message: want an object, given %s", given))
	}
	if m.Details != nil {
		o.end(0, "details.", &m.Details.ends)
		o.receipt(m.Details.Receipt)
	}
	o.receipt(m.Receipt)
	if set(m.Receipts) {
		var list []json.RawMessage
		if json.Unmarshal(m.Receipts, &list) != nil {
			o.fail(fmt.Errorf("receipts: want an array of receipts, given %s", wire.Kind(m.Receipts)))
		}
		for _, one := range list {
			o.receipt(one)
		}
	}
	failed := m.Error
	switch given := wire.Kind(m.Response); {
	case given == "an object":
		var inner struct {
			Receipt, Error json.RawMessage
			responseEnd
		}
		_ = json.Unmarshal(m.Response, &inner) // which cannot fail: it was read as JSON
		o.endResponse("response.", &inner.responseEnd)
		o.receipt(inner.Receipt)
		if !set(failed) {
			failed = inner.Error
		}
	case given != "a string" && set(m.Response):
		o.fail(fmt.Errorf("response: want a string, or an object in an event, given %s", given))
	}
	if set(failed) {
		o.err = reason(failed)
	}
}

// receipt takes a receipt; null is none.
func (o *outcome) receipt(raw json.RawMessage) {
	if !set(raw) {
		return
	}
	r, err := readReceipt(raw)
	if err != nil {
		o.fail(err)
	}
	o.receipts = append(o.receipts, r)
	o.raw = append(o.raw, slices.Clone(raw))
}

// say adds what a choice says, or the next piece of it. Pieces of calls have the numbers of their calls, whole calls
// follow those that came.
func (o *outcome) say(sequence int, s *said, whole bool) {
	if s == nil {
		return
	}
	o.speaks = true
	for _, one := range []struct {
		kind
		said *string
	}{{reasoning, s.Reasoning}, {reasoning, s.Thinking}, {reasoningContent, s.ReasoningContent}, {text, s.Content},
		{refusal, s.Refusal}} {
		if one.said != nil {
			o.add(place{sequence: sequence, kind: one.kind}, *one.said)
		}
	}
	for i, c := range s.ToolCalls {
		at := place{sequence: sequence, kind: callName, call: i}
		if c.Index != nil && !whole {
			if at.call = *c.Index; at.call < 0 {
				o.fail(fmt.Errorf("the index of a call: want a whole number from 0 to %d, given %d", maxNumber, at.call))
			}
		}
		if whole {
			if o.calls == nil {
				o.calls = map[int]int{}
			}
			at.call = o.calls[o.base+sequence]
			o.calls[o.base+sequence]++
		}
		if c.Custom.Name != "" || c.Custom.Input != "" {
			o.call(at, c.Custom.Name, nil)
			o.piece(at, piece{callArguments, c.Custom.Input})
			continue
		}
		o.call(at, c.Function.Name, c.Function.Arguments)
	}
	for i := range s.MCPCalls {
		m := &s.MCPCalls[i]
		o.make(sequence, &toolCall{server: m.Server, name: m.Name, arguments: unquoted(m.Arguments), output: m.text()})
	}
	if s.FunctionCall != nil {
		o.call(place{sequence: sequence, call: functionCall}, s.FunctionCall.Name, s.FunctionCall.Arguments)
	}
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
