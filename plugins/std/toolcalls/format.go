package toolcalls

import (
	"errors"
	"strconv"
	"strings"
)

// ErrFormat is wrapped by every error about a Format.
var ErrFormat = errors.New("tool call format")

// Format describes how a model writes reasoning and calls. It is read-only once a Parser uses it, and may be shared.
// Exactly one of JSON, Named, Tagged, Python and Channels says what a call's body is; JSON and Named may come together,
// told apart by the first byte: [ or { is JSON.
type Format struct {
	Name      string `json:"name"`
	Reasoning *Span  `json:"reasoning,omitempty"` // around what the model thinks; only at the start, and after a call
	Implicit  bool   `json:"implicit,omitempty"`  // a call's Begin inside reasoning ends the reasoning
	Section   Span   `json:"section,omitzero"`    // around all calls; may be left out by the model
	Call      Span   `json:"call,omitzero"`       // around one call, or one array of calls
	Bare      string `json:"bare,omitempty"`      // bytes that begin a call without a marker, at the message's start
	// Fence is what may stand around a call without a marker, at the message's start: "```json" and "```". It goes with
	// JSON.
	Fence     Span       `json:"fence,omitzero"`
	JSON      *JSON      `json:"json,omitempty"`
	Named     *Named     `json:"named,omitempty"`
	Tagged    *Tagged    `json:"tagged,omitempty"`
	Python    *Python    `json:"python,omitempty"`
	Channels  *Channels  `json:"channels,omitempty"`
	Drop      []string   `json:"drop,omitempty"`       // markers that are neither content nor anything else
	KeepSpace bool       `json:"keep_space,omitempty"` // white space beside calls is content; else it is dropped
	TrimStart bool       `json:"trim_start,omitempty"` // white space at the message's start is no content
	IDs       IDStyle    `json:"ids,omitempty"`        // of calls for which the model writes no id
	Detect    []Evidence `json:"detect,omitempty"`     // what a chat template of this format contains
}

// Span is a pair of markers; each may have several spellings. A missing End ends nothing: the body's own end does.
type Span struct {
	Begin []string `json:"begin,omitempty"`
	End   []string `json:"end,omitempty"`
}

// JSON is a body like {"name": ..., "arguments": {...}}, or an array of such objects. The first name among the keys
// counts. Keys that are not named here are passed over.
type JSON struct {
	NameKeys     []string `json:"name_keys"`
	ArgumentKeys []string `json:"argument_keys,omitempty"` // their value: an object, a string that holds one, or null
	IDKeys       []string `json:"id_keys,omitempty"`       // counts when it comes before the name
	// keys whose object is looked into, as in {"function": {...}}
	Wrap []string `json:"wrap,omitempty"`
	// Flat: the arguments are the name's neighbours inside the wrapped object, as in {"function": {"_name": ..., ...}}.
	Flat bool `json:"flat,omitempty"`
	// PlainKeys, with Flat, are keys of a name whose arguments are under ArgumentKeys all the same, whether wrapped or
	// not, as in {"name": ..., "parameters": {...}}.
	PlainKeys []string `json:"plain_keys,omitempty"`
	// Separators are bytes that may stand between objects without a Call.Begin.
	Separators string `json:"separators,omitempty"`
	// Answers are names that are not tools: the string under the key is content.
	Answers map[string]string `json:"answers,omitempty"`
}

// Named is a body like NAME, a separator, then the arguments as a JSON object.
type Named struct {
	Separators []string `json:"separators,omitempty"` // between name and arguments; the object's { ends a name too
	ID         string   `json:"id,omitempty"`         // between name and id, where the model writes one
	Prefix     string   `json:"prefix,omitempty"`     // before the name, and no part of it
	Index      string   `json:"index,omitempty"`      // between name and the call's number
	WholeID    bool     `json:"whole_id,omitempty"`   // the id is all of prefix, name, and number
	After      []string `json:"after,omitempty"`      // between the arguments and Call.End
}

// Tagged is a body of a name and parameters, each between markers. Values are converted by the tool's JSON schema.
type Tagged struct {
	NameEnd   []string `json:"name_end"`             // ends the name that follows Call.Begin
	Open      []string `json:"open"`                 // begins a parameter's name
	OpenEnd   []string `json:"open_end,omitempty"`   // ends it; the value's type comes from the schema
	StringEnd []string `json:"string_end,omitempty"` // ends it too; the value is a string
	JSONEnd   []string `json:"json_end,omitempty"`   // ends it too; the value is JSON
	ValueOpen []string `json:"value_open,omitempty"` // stands between name and value, if there is one
	Close     []string `json:"close"`                // ends the value
	// one newline after the value's begin and before its end is no part of it
	Newlines bool `json:"newlines,omitempty"`
	// a parameter that the schema lacks is JSON if it can be, else a string
	GuessTypes bool `json:"guess_types,omitempty"`
}

// Python is a body of calls with keyword arguments that are Python literals: [f(a='x'), g()], or one call a line.
type Python struct{}

// Channels is a whole message format: a header with a channel and perhaps a recipient, Message, then the text.
type Channels struct {
	Start     string   `json:"start"`     // begins a header with a role
	Channel   string   `json:"channel"`   // before the channel's name
	Message   string   `json:"message"`   // ends the header
	End       []string `json:"end"`       // ends the text
	Recipient string   `json:"recipient"` // before the recipient
	Prefix    string   `json:"prefix"`    // of a recipient that is a tool
	Reasoning []string `json:"reasoning"` // channels that are reasoning; all others are content
}

// Evidence is what a chat template contains when its model writes a format.
type Evidence struct {
	All  []string `json:"all"`
	None []string `json:"none,omitempty"`
}

// IDStyle says how ids are made.
type IDStyle string

// The styles of ids.
const (
	IDCall  IDStyle = ""     // call_ and 24 letters and digits
	IDShort IDStyle = "nine" // 9 letters and digits, as Mistral's templates demand
)

// Check validates the format. Errors wrap ErrFormat and name the field.
func (f *Format) Check() error {
	if why := f.problem(); why != "" {
		return formatError(strconv.Quote(f.Name) + ": " + why)
	}
	return nil
}

// problem says what is wrong with the format; "" for nothing.
func (f *Format) problem() string {
	bodies := 0
	for _, is := range []bool{f.JSON != nil || f.Named != nil, f.Tagged != nil, f.Python != nil, f.Channels != nil} {
		if is {
			bodies++
		}
	}
	if bodies != 1 {
		return strconv.Itoa(bodies) + " bodies among json or named, tagged, python, channels; want 1"
	}
	if f.Channels == nil && len(f.Call.Begin) == 0 && f.Bare == "" {
		return "call.begin and bare are both empty: no call would ever be seen"
	}
	if len(f.Fence.Begin) > 0 && (f.JSON == nil || !strings.Contains(f.Bare, "{")) {
		return `fence needs json, and bare with "{"`
	}
	if f.JSON != nil && len(f.JSON.PlainKeys) > 0 && (!f.JSON.Flat || len(f.JSON.ArgumentKeys) == 0) {
		return "json.plain_keys needs json.flat and json.argument_keys"
	}
	if f.IDs != IDCall && f.IDs != IDShort {
		return "ids is " + strconv.Quote(string(f.IDs)) + `; want "" or ` + strconv.Quote(string(IDShort))
	}
	if field, n := f.required(); n == 0 {
		return field + " is missing"
	}
	for field, list := range f.lists() {
		for _, m := range list {
			if m == "" || len(m) > maxMarker {
				return field + ": a marker of " + strconv.Itoa(len(m)) + " bytes; want 1 to " + strconv.Itoa(maxMarker)
			}
		}
	}
	return ""
}

// maxMarker bounds a marker in bytes. Text that may be a marker's beginning is held back.
const maxMarker = 128

// required is the first field of the body that is missing, and its length, or a length above 0.
func (f *Format) required() (string, int) {
	type field struct {
		name string
		n    int
	}
	var fields []field
	switch {
	case f.Tagged != nil:
		t := f.Tagged
		fields = []field{{"call.begin", len(f.Call.Begin)}, {"call.end", len(f.Call.End)}, {"tagged.open", len(t.Open)},
			{"tagged.open_end", len(t.OpenEnd) + len(t.StringEnd) + len(t.JSONEnd)}, {"tagged.close", len(t.Close)}}
	case f.Channels != nil:
		c := f.Channels
		fields = []field{{"channels.start", len(c.Start)}, {"channels.channel", len(c.Channel)},
			{"channels.message", len(c.Message)}, {"channels.end", len(c.End)},
			{"channels.recipient", len(c.Recipient)}}
	case f.JSON != nil:
		fields = []field{{"json.name_keys", len(f.JSON.NameKeys)}}
		if f.JSON.Flat {
			fields = append(fields, field{"json.wrap", len(f.JSON.Wrap)})
		} else {
			fields = append(fields, field{"json.argument_keys", len(f.JSON.ArgumentKeys)})
		}
	}
	if f.Reasoning != nil {
		fields = append(fields, field{"reasoning.begin", len(f.Reasoning.Begin)},
			field{"reasoning.end", len(f.Reasoning.End)})
	}
	for _, x := range fields {
		if x.n == 0 {
			return x.name, 0
		}
	}
	return "", 1
}

// lists are all markers of the format, by field.
func (f *Format) lists() map[string][]string {
	all := map[string][]string{
		"section.begin": f.Section.Begin, "section.end": f.Section.End,
		"call.begin": f.Call.Begin, "call.end": f.Call.End, "drop": f.Drop,
		"fence.begin": f.Fence.Begin, "fence.end": f.Fence.End,
	}
	if r := f.Reasoning; r != nil {
		all["reasoning.begin"], all["reasoning.end"] = r.Begin, r.End
	}
	if n := f.Named; n != nil {
		all["named.separators"], all["named.after"] = n.Separators, n.After
		if n.ID != "" {
			all["named.id"] = []string{n.ID}
		}
	}
	if t := f.Tagged; t != nil {
		all["tagged.name_end"], all["tagged.open"], all["tagged.open_end"] = t.NameEnd, t.Open, t.OpenEnd
		all["tagged.string_end"], all["tagged.json_end"] = t.StringEnd, t.JSONEnd
		all["tagged.value_open"], all["tagged.close"] = t.ValueOpen, t.Close
	}
	if c := f.Channels; c != nil {
		all["channels.end"] = c.End
		all["channels"] = []string{c.Start, c.Channel, c.Message, c.Recipient}
	}
	return all
}
