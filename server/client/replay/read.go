// Package replay sends requests again that were kept with their replies, and says what differs: the text, and of what
// it follows from (the receipt) what is not the same any more.
package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"tgi/server/client/terminal"
	"tgi/server/wire"
)

// Exchange is a request with the reply that it got.
type Exchange struct {
	// Label is what reports call it.
	Label string
	// Method and Path are those of the request; Path may have a query.
	Method, Path string
	// Header fields are sent again; nil for none.
	Header http.Header
	// Key is the name of the key that the request came with, empty where it is not known. Nobody keeps keys.
	Key string
	// Body is that of the request, a JSON object.
	Body []byte
	// Status is that of the reply, 0 where it was not kept. Assumed says that it is that of a success because there is
	// a reply: 206 may stand for it, too, which a batch gets of which a text ended at its length.
	Status  int
	Assumed bool
	// Reply is the body of the reply: JSON, or the events of a stream.
	Reply []byte
	// Flaw says why the exchange cannot be sent again or compared, as where its body was cut; empty for nothing.
	Flaw string
}

// form reads one JSON value of a file; ok is false where it has another form.
type form func(value json.RawMessage) (e Exchange, ok bool, err error)

// forms are those that Read knows.
var forms = []form{receiptFile, recorded}

// Read returns the exchanges of a file: one JSON object behind another. name is what labels begin with.
func Read(name string, r io.Reader) (list []Exchange, err error) {
	d := json.NewDecoder(r)
	for {
		var value json.RawMessage
		if err := d.Decode(&value); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("%s: after %s: %w", name, terminal.Count(len(list), "request"), wire.Told(err))
		}
		e, err := read(value)
		if err != nil {
			return nil, fmt.Errorf("%s: request %d: %w", name, len(list)+1, err)
		}
		if e.Label == "" {
			e.Label = fmt.Sprintf("request %d", len(list)+1)
		}
		list = append(list, e)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s holds no request", name)
	}
	return list, nil
}

func read(value json.RawMessage) (Exchange, error) {
	for _, f := range forms {
		if e, ok, err := f(value); ok || err != nil {
			return e, err
		}
	}
	if list, _ := Receipts(value); len(list) > 0 {
		return Exchange{}, errors.New("this is a reply: --request names the file with the body of its request")
	}
	given := wire.Kind(value)
	if given == "an object" {
		given = "another one"
	}
	return Exchange{}, fmt.Errorf("want an object such as "+
		`{"request": {"path": "/generate", "body": {...}}, "reply": {...}}, given %s`, given)
}

// File is a receipt file: what tgi explain --save writes and Read reads.
type File struct {
	Request Request `json:"request"`
	// Reply is the reply's JSON or, of a stream, its text as a string.
	Reply json.RawMessage `json:"reply,omitempty"`
}

// Write writes the file, for its user alone.
func (f *File) Write(name string) error {
	data, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("%s: the reply is no JSON: %w", name, err)
	}
	return os.WriteFile(name, append(data, '\n'), 0o600)
}

// Request is that of a File.
type Request struct {
	// Method is POST if it is empty.
	Method  string            `json:"method,omitempty"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers,omitempty"`
	// Key is the name of the key to send it with, which is not in the file.
	Key  string          `json:"key,omitempty"`
	Body json.RawMessage `json:"body"`
}

// receiptFile reads a File.
func receiptFile(value json.RawMessage) (e Exchange, ok bool, err error) {
	if !has(value, "request") {
		return e, false, nil
	}
	var f File
	if err := json.Unmarshal(value, &f); err != nil {
		return e, true, wire.Told(err)
	}
	return f.exchange()
}

// has reports whether a value is an object with a member.
func has(value json.RawMessage, member string) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(value, &members) == nil && members[member] != nil
}

func (f *File) exchange() (e Exchange, ok bool, err error) {
	e = Exchange{Method: f.Request.Method, Path: f.Request.Path, Key: f.Request.Key, Body: f.Request.Body,
		Reply: f.Reply}
	if e.Method == "" {
		e.Method = http.MethodPost
	}
	switch {
	case e.Path == "":
		return e, true, errors.New("request.path is missing")
	case e.Body == nil:
		return e, true, errors.New("request.body is missing")
	}
	for name, v := range f.Request.Headers {
		if e.Header == nil {
			e.Header = http.Header{}
		}
		e.Header.Set(name, v)
	}
	var events string
	if wire.Kind(f.Reply) == "a string" && json.Unmarshal(f.Reply, &events) == nil {
		e.Reply = []byte(events)
	}
	if len(bytes.TrimSpace(e.Reply)) > 0 {
		e.Status, e.Assumed = http.StatusOK, true
	}
	return e, true, nil
}

// Of returns the exchange of a request's body and a reply that were kept apart.
func Of(path string, body, reply []byte) (Exchange, error) {
	if err := json.Unmarshal(body, new(json.RawMessage)); err != nil {
		return Exchange{}, fmt.Errorf("the request's body: %w", wire.Told(err))
	}
	return Exchange{Label: path, Method: http.MethodPost, Path: path, Body: body, Reply: reply,
		Status: http.StatusOK, Assumed: true}, nil
}
