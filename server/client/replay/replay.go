package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"tgi/server/client/call"
	"tgi/server/client/terminal"
)

// Report is what became of an exchange that was sent again.
type Report struct {
	Request string `json:"request"`
	// Same says that the reply has the same tokens or, where those are not known, the same text.
	Same bool `json:"same"`
	// Compared says by what.
	Compared string `json:"compared,omitempty"`
	// Tokens are those of all sequences of the new reply, 0 where they are not known.
	Tokens int `json:"tokens,omitempty"`
	// Differences in the replies and in what they follow from.
	Differences []Difference `json:"differences"`
	// Notes say what a difference may come from that no receipt tells.
	Notes []string `json:"notes,omitempty"`
	// Error says why nothing could be compared.
	Error string `json:"error,omitempty"`
	// Refused says that the kept reply was a refusal of that moment, such as a 429: there is no text to compare, and
	// the request was not sent again.
	Refused bool `json:"refused,omitempty"`
	// Incomparable says that the error lies in what was kept: no server's reply could be compared with it.
	Incomparable bool `json:"incomparable,omitempty"`
}

// Difference is something that is not the same any more. An empty text is nothing.
type Difference struct {
	Field string `json:"field"`
	Was   string `json:"was"`
	Is    string `json:"is"`
}

// Options of a replay.
type Options struct {
	// Unchanged sends bodies without the seed of the receipt, and without asking for another receipt: as they are, but
	// for Ollama's keep_alive and the ids of texts of the generate API, of which none is ever sent.
	Unchanged bool
	// Keys are those of requests that name theirs (Exchange.Key), by name. Others are sent with the caller's.
	Keys map[string]string
}

// Run sends an exchange again and compares. Errors are ctx's cause; all others are in the report.
func Run(ctx context.Context, c *call.Caller, e Exchange, o Options) (Report, error) {
	r := Report{Request: e.Label, Differences: []Difference{}}
	if err := e.allowed(); err != nil {
		return r.incomparable(err.Error()), nil
	}
	if ofTheMoment(e.Status) { // whose body was often not even read
		r.Refused, r.Error = true, "it was refused: "+statusOf(e.Status, outcomeOf(e.Reply).err)
		return r, nil
	}
	if e.Flaw != "" {
		return r.incomparable(e.Flaw), nil
	}
	was := e.outcome(e.Reply, e.Status)
	receipts, err := receiptsOf(was.receipts)
	if err != nil {
		return r.incomparable(err.Error()), nil
	}
	body, doubts, err := prepare(e, receipts, o.Unchanged)
	if err != nil {
		return r.incomparable(err.Error()), nil
	}
	key, known := o.Keys[e.Key]
	if known && e.Key != "" {
		c = c.With(key)
	}
	got, err := c.Do(ctx, e.Method, e.Path, e.Header, body)
	if ctx.Err() != nil {
		return r, context.Cause(ctx)
	}
	if err != nil {
		r.Error = err.Error()
		return r, nil
	}
	is := e.outcome(got.Body, got.Status)
	switch {
	case ofTheMoment(got.Status):
		r.Error = "the server refuses it now: " + statusOf(got.Status, is.err)
	case e.Status != 0 && got.Status != e.Status:
		r.Differences = append(r.Differences, Difference{"status", statusOf(e.Status, was.err),
			statusOf(got.Status, is.err)})
	case is.err != "" && e.Status == 0:
		r.Error = statusOf(got.Status, is.err)
	default:
		r.compare(&was, &is, receipts)
		if r.Compared != "" && !r.Same {
			r.Notes = append(r.Notes, doubts...)
		}
	}
	refused := got.Status == http.StatusUnauthorized || got.Status == http.StatusForbidden
	if !known && e.Key != "" && (refused || !r.Same) { // the key may be why
		r.Notes = append(r.Notes, fmt.Sprintf("it came with the key called %.64q, for which no key was given", e.Key))
	}
	return r, nil
}

// incomparable is the report of an exchange that cannot be compared with any reply.
func (r Report) incomparable(why string) Report {
	r.Incomparable, r.Error = true, why
	return r
}

// ofTheMoment reports whether a status says nothing of the request but that the server did not take it just then.
func ofTheMoment(status int) bool {
	const overloaded = 529 // Anthropic's
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == overloaded
}

func statusOf(status int, err string) string {
	text := strconv.Itoa(status) + " " + http.StatusText(status)
	if err != "" {
		text += ": " + err
	}
	return text
}

// compare fills the report. before are the receipts of what was.
func (r *Report) compare(was, is *outcome, before []receipt) {
	now, err := receiptsOf(is.receipts)
	if err != nil {
		r.Error = "of the new reply " + err.Error()
		return
	}
	n := min(len(before), len(now))
	known := n > 0 && len(before) == len(now)
	for i := range n {
		r.Differences = append(r.Differences, before[i].differences(&now[i])...)
		for _, out := range now[i].Outputs {
			r.Tokens += out.Tokens
		}
		known = known && len(before[i].Outputs) > 0
	}
	texts := textDifferences(was.texts, is.texts)
	if was.err != is.err {
		texts = append(texts, Difference{"error", was.err, is.err})
	}
	switch {
	case known:
		r.Compared = "tokens"
		r.Same = slices.EqualFunc(before, now, func(x, y receipt) bool { return slices.Equal(x.Outputs, y.Outputs) })
	case len(was.texts) == 0 && was.err == "":
		*r = r.incomparable("the reply that was kept has neither a receipt nor a text to compare with")
		return
	default:
		r.Compared = "text"
		r.Same = len(texts) == 0
	}
	if !r.Same || len(was.texts) > 0 {
		r.Differences = append(r.Differences, texts...)
	}
	if !known && len(before) != len(now) {
		r.Notes = append(r.Notes, "only one of the replies has a receipt: what they follow from cannot be compared")
	}
}

// textDifferences tells where texts begin to differ.
func textDifferences(was, is []string) (list []Difference) {
	for i := range max(len(was), len(is)) {
		var a, b string
		if i < len(was) {
			a = was[i]
		}
		if i < len(is) {
			b = is[i]
		}
		if a == b {
			continue
		}
		at := 0
		for at < min(len(a), len(b)) && a[at] == b[at] {
			at++
		}
		for at > 0 && (at < len(a) && !utf8.RuneStart(a[at]) || at < len(b) && !utf8.RuneStart(b[at])) {
			at--
		}
		field := "text"
		if max(len(was), len(is)) > 1 {
			field = fmt.Sprintf("text %d", i)
		}
		list = append(list, Difference{fmt.Sprintf("%s behind %d bytes", field, at), shown(a[at:]), shown(b[at:])})
	}
	return list
}

// shown is the beginning of a text, as Go quotes it.
func shown(text string) string {
	const most = 60
	if len(text) > most {
		return strconv.Quote(strings.ToValidUTF8(text[:most], "")) + "..."
	}
	return strconv.Quote(text)
}

// prepare returns the body with the seed that was used, asking for a receipt. doubts say why the reply may differ that
// follows from what was kept alone. unchanged says that neither seed nor receipt is wanted.
func prepare(e Exchange, receipts []receipt, unchanged bool) (body []byte, doubts []string, err error) {
	a := e.api()
	if unchanged && (a == nativeAPI || a == openAIAPI || a == cloudAPI) { // of which harmless takes nothing
		return e.Body, nil, nil
	}
	members, err := e.harmless()
	if err != nil {
		return nil, nil, err
	}
	if unchanged {
		body, err = json.Marshal(members)
		return body, nil, err
	}
	at, within := members, "" // where settings are
	inputs := a == nativeAPI && set(members["inputs"])
	switch {
	case inputs:
		within = "parameters"
	case a == ollamaAPI:
		within = "options"
	}
	if within != "" {
		at = map[string]json.RawMessage{}
		if raw := members[within]; len(raw) > 0 && json.Unmarshal(raw, &at) != nil {
			return nil, nil, fmt.Errorf("%s of the body of %s is no JSON object", within, e.Path)
		}
		if at == nil {
			at = map[string]json.RawMessage{}
		}
	}
	if doubts, err = reseed(a, members, at, receipts, inputs); err != nil {
		return nil, nil, err
	}
	if len(receipts) > 0 {
		switch {
		case inputs:
			at["details"] = json.RawMessage("true")
		case !set(members["explain"]):
			members["explain"] = json.RawMessage(`{"tokens": 0}`) // which older servers know, too
		}
	}
	if within != "" && len(at) > 0 {
		if members[within], err = json.Marshal(at); err != nil {
			return nil, nil, err
		}
	}
	body, err = json.Marshal(members)
	return body, doubts, err
}

// noSeed is the doubt where replies are compared by their texts alone.
const noSeed = "neither the request nor a receipt has a seed: if tokens were drawn, others are drawn now"

// reseed writes the seed that was used, unless the settings at have one. Its error says that nobody can draw what was
// drawn, doubts why another seed than the one that is sent may have drawn it. inputs says that the body is one of
// TGI's.
func reseed(a api, members, at map[string]json.RawMessage, receipts []receipt, inputs bool) (doubts []string,
	err error) {
	field := "seed"
	if inputs && set(at["best_of"]) && string(at["best_of"]) != "1" { // takes no seed in TGI
		field = "best_of_seed"
	}
	given := at[field]
	if a == ollamaAPI && string(given) == "-1" { // which draws one
		given = nil
	}
	switch {
	case len(receipts) == 0 && set(given), a == cloudAPI: // whose seeds are elsewhere
		return nil, nil
	case len(receipts) == 0:
		return []string{noSeed}, nil
	}
	r := &receipts[0]
	doubts = r.doubts(given)
	if set(given) {
		return doubts, nil
	}
	if why := undrawn(receipts, a == batchAPI); why != "" {
		return nil, errors.New(why)
	}
	if n, ok := r.Seed.number(); ok && (len(receipts) == 1 || a == batchAPI) { // whose others follow from the first
		at[field] = json.RawMessage(strconv.FormatUint(n, 10))
	}
	if inputs && !set(members["parameters"]) { // absent parameters may sample, empty ones do not
		at["do_sample"] = json.RawMessage(strconv.FormatBool(r.Settings["sample"] == true))
	}
	return doubts, nil
}

// set reports whether a member has a value.
func set(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// String is the report as people read it, in lines. What servers and files say in it is without what a terminal would
// obey, and makes no lines of its own.
func (r *Report) String() string {
	var b strings.Builder
	for _, line := range r.lines() {
		b.WriteString(terminal.Line(line))
		b.WriteByte('\n')
	}
	return b.String()
}

func (r *Report) lines() (list []string) {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	switch {
	case r.Error != "":
		add("%s: not compared: %s", r.Request, r.Error)
	case r.Same && r.Tokens > 0:
		add("%s: the same %s (%s)", r.Request, r.Compared, terminal.Count(r.Tokens, "token"))
	case r.Same:
		add("%s: the same %s", r.Request, r.Compared)
	default:
		add("%s: differs", r.Request)
	}
	for _, d := range r.Differences {
		switch {
		case d.Was == "":
			add("  %s: is %s, there was none", d.Field, d.Is)
		case d.Is == "":
			add("  %s: was %s, there is none", d.Field, d.Was)
		default:
			add("  %s: was %s, is %s", d.Field, d.Was, d.Is)
		}
	}
	for _, n := range r.Notes {
		add("  note: %s", n)
	}
	return list
}
