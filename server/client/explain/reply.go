// Package explain prints how the tokens of a reply came to be: who changed what before each was chosen.
package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"tgi/server/client/call"
	"tgi/server/client/replay"
	"tgi/server/client/terminal"
	"tgi/server/wire"
)

// Text is a sequence with the explanations of its first tokens.
type Text struct {
	// Index is that of the choice.
	Index uint32 `json:"index"`
	// Program wrote the text, where the reply's receipt names one: its runs picked the tokens, or it gave them itself.
	Program *Program `json:"program,omitempty"`
	// Tokens are those that are explained.
	Tokens []Token `json:"tokens"`
}

// Program is a plugin of this kind, with its version, which may be empty.
type Program struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

// String is the name with the version.
func (p *Program) String() string { return strings.TrimSpace(p.Name + " " + p.Version) }

// Token is an explanation, as replies have it.
type Token struct {
	ID         uint32      `json:"id"`
	Text       string      `json:"text"`
	Raw        *float64    `json:"raw_logprob"`
	Final      *float64    `json:"logprob"`
	Rank       uint32      `json:"rank"`
	Picked     string      `json:"picked"`
	By         string      `json:"by,omitempty"`
	Changes    []Change    `json:"changes"`
	Candidates []Candidate `json:"candidates"`
	Draft      *Draft      `json:"draft,omitempty"`
	Rewound    []Rewound   `json:"rewound,omitempty"`
	Replaced   []Rewound   `json:"replaced,omitempty"`
}

// Change is what one of those that change a distribution did.
type Change struct {
	Kind        string   `json:"kind"`
	Name        string   `json:"name"`
	Allowed     uint32   `json:"allowed"`
	Forbidden   float64  `json:"forbidden"`
	Before      *float64 `json:"before"`
	After       *float64 `json:"after"`
	Overtook    *Name    `json:"overtook,omitempty"`
	Count       uint32   `json:"count"`
	Moved       []Moved  `json:"moved"`
	Temperature *float64 `json:"temperature,omitempty"`
	Forced      *uint32  `json:"forced,omitempty"`
	Stop        bool     `json:"stop,omitempty"`
}

// Name is a token with its text.
type Name struct {
	ID   uint32 `json:"id"`
	Text string `json:"text"`
}

// Moved is a token whose logit changed; By is nil for one that was ruled out.
type Moved struct {
	ID   uint32   `json:"id"`
	Text string   `json:"text"`
	By   *float64 `json:"by"`
}

// Candidate is one of the likeliest tokens.
type Candidate struct {
	ID    uint32   `json:"id"`
	Text  string   `json:"text"`
	Raw   *float64 `json:"raw_logprob"`
	Final *float64 `json:"logprob"`
}

// Draft is a guess that was computed ahead.
type Draft struct {
	ID       uint32 `json:"id"`
	Text     string `json:"text"`
	Source   string `json:"source"`
	Accepted bool   `json:"accepted"`
}

// Rewound is what a guard took back, or gave other text for.
type Rewound struct {
	By     string `json:"by"`
	Tokens uint32 `json:"tokens"`
}

// errNothing: a reply explains nothing.
var errNothing = errors.New("the reply explains nothing: its request has no `explain`, or the server does not know that")

// receiptsOnly is the error of a reply with receipts and no explanations.
type receiptsOnly struct {
	list    []json.RawMessage
	program *Program
}

// Error implements error.
func (r receiptsOnly) Error() string {
	text := ""
	if r.program != nil {
		text = fmt.Sprintf("the program %s wrote the reply; ", r.program)
	}
	return text + "the reply has a receipt and no explanation: a request with `\"explain\": true` gets both, one with " +
		"\"receipt\", or with TGI's `details` alone, the receipt"
}

// PrintReceipts prints the receipts for which Read failed with err, and to notes why there is no more. Where it had
// none it returns err.
func PrintReceipts(w, notes io.Writer, err error) error {
	var list receiptsOnly
	if !errors.As(err, &list) {
		return err
	}
	for _, r := range list.list {
		var b bytes.Buffer
		if err := json.Indent(&b, r, "", "  "); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w, terminal.Text(b.String())); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(notes, "tgi:", terminal.Text(err.Error()))
	return err
}

// Read returns the explanations of a reply of any API, in one piece or a stream.
func Read(reply []byte) ([]Text, error) {
	if err := call.Bounded(reply); err != nil {
		return nil, err
	}
	var boxed []json.RawMessage
	if json.Unmarshal(reply, &boxed) == nil && len(boxed) == 1 {
		reply = boxed[0]
	}
	var r reading
	parts := 0
	for p, err := range replay.Parts(reply) {
		parts++
		switch {
		case err != nil:
			return nil, err
		case p.Element >= 0:
			return nil, errors.New("want one reply, which is an object or a stream of events, given an array")
		case p.Event:
			if err = r.take(p.Data); err != nil {
				return nil, fmt.Errorf("event %d: %w", parts, err)
			}
		default:
			if err = r.take(p.Data); err != nil {
				return nil, fmt.Errorf("the reply: %w", err)
			}
		}
	}
	if parts == 0 {
		return nil, noReply(reply)
	}
	receipts, err := replay.Receipts(reply)
	if err != nil {
		return nil, fmt.Errorf("the reply: %w", err)
	}
	wrote := programOf(receipts)
	for i := range r.list {
		r.list[i].Program = wrote
	}
	if r.list == nil {
		if len(receipts) > 0 {
			return nil, receiptsOnly{receipts, wrote}
		}
		return nil, errNothing
	}
	return r.list, nil
}

// noReply says what a text is that has no part of a reply.
func noReply(text []byte) error {
	if err := json.Unmarshal(text, new(any)); err == nil {
		return fmt.Errorf("want one reply, which is an object or a stream of events, given %s", wire.Kind(text))
	} else if first := bytes.TrimSpace(text); len(first) == 0 || first[0] == '[' || first[0] == '"' {
		return wire.Told(err)
	}
	return errors.New("it is neither JSON nor a stream with a whole event, such as `data: {...}` and an empty line")
}

// reading collects the explanations of a reply, sequence by sequence.
type reading struct{ list []Text }

// add adds tokens to a sequence.
func (r *reading) add(index uint32, tokens []Token) {
	if len(tokens) == 0 {
		return
	}
	for i := range r.list {
		if r.list[i].Index == index {
			r.list[i].Tokens = append(r.list[i].Tokens, tokens...)
			return
		}
	}
	r.list = append(r.list, Text{Index: index, Tokens: tokens})
}

// take reads a reply in one piece, a line or an event.
func (r *reading) take(data []byte) error {
	var m struct {
		Details *struct {
			Explain []Token
			Others  []struct{ Explain []Token } `json:"best_of_sequences"`
		}
		Choices []struct {
			Index   uint32
			Explain []Token
		}
		Explain  json.RawMessage // of APIs with one text; an object with each token of TGI's streams
		Response json.RawMessage // of the events of responses; others have a text of this name
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return wire.Told(err)
	}
	if m.Details != nil {
		r.add(0, m.Details.Explain)
		for i, other := range m.Details.Others {
			r.add(uint32(i+1), other.Explain)
		}
	}
	for _, c := range m.Choices {
		r.add(c.Index, c.Explain)
	}
	if wire.Kind(m.Explain) == "an object" {
		var one struct{ Explain Token }
		if err := json.Unmarshal(data, &one); err != nil {
			return wire.Told(err)
		}
		r.add(0, []Token{one.Explain})
	} else if len(m.Explain) > 0 {
		var list struct{ Explain []Token }
		if err := json.Unmarshal(data, &list); err != nil {
			return wire.Told(err)
		}
		r.add(0, list.Explain)
	}
	if wire.Kind(m.Response) == "an object" {
		var inner struct{ Response struct{ Explain []Token } }
		if err := json.Unmarshal(data, &inner); err != nil {
			return wire.Told(err)
		}
		r.add(0, inner.Response.Explain)
	}
	return nil
}

// programOf is the program that receipts name, nil for none. A request has one at most.
func programOf(receipts []json.RawMessage) *Program {
	for _, raw := range receipts {
		var r struct {
			Plugins []struct {
				Program
				Use string
			}
		}
		_ = json.Unmarshal(raw, &r) // which cannot fail: replay.Receipts read it
		for _, p := range r.Plugins {
			if p.Use == "program" {
				return &p.Program
			}
		}
	}
	return nil
}
