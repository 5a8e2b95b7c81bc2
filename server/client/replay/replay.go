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

	"tgi/server/client/call"
	"tgi/server/client/terminal"
)

// Report is what became of an exchange that was sent again.
type Report struct {
	Request string `json:"request"`
	// Same says that the reply is the same again: its tokens, as far as they are known, all that it says, and how it
	// ended, as far as both say that. That is just where replies were compared and Differences are empty.
	Same bool `json:"same"`
	// Compared says by what: "tokens", which is by them and by what they say, or "text" alone.
	Compared string `json:"compared,omitempty"`
	// Tokens are those of all sequences of the new reply, 0 where they are not known.
	Tokens int `json:"tokens,omitempty"`
	// Differences in the replies.
	Differences []Difference `json:"differences"`
	// Origin is what differs in what they follow from. A reply may be the same all the same.
	Origin []Difference `json:"origin,omitempty"`
	// Notes say what a difference may come from that no receipt tells, and what other servers said otherwise.
	Notes []string `json:"notes,omitempty"`
	// Error says why nothing could be compared.
	Error string `json:"error,omitempty"`
	// Refused says that the kept reply was a refusal of that moment, such as a 429: there is no text to compare, and
	// the request was not sent again.
	Refused bool `json:"refused,omitempty"`
	// Incomparable says that the error lies in what was kept: no server's reply could be compared with it.
	Incomparable bool `json:"incomparable,omitempty"`
	// Skipped is how many requests the report is of that embed or rank and were not sent, 0 in all others.
	Skipped int `json:"skipped,omitempty"`
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
	if was.flaw != nil {
		return r.incomparable("the reply that was kept: " + was.flaw.Error()), nil
	}
	if err := e.unlike(was.err); err != nil {
		return r.incomparable(err.Error()), nil
	}
	body, doubts, err := prepare(e, was.receipts, o.Unchanged)
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
	if errors.Is(err, call.ErrRequest) {
		return r.incomparable(err.Error()), nil
	}
	if err != nil {
		r.Error = err.Error()
		return r, nil
	}
	is := e.outcome(got.Body, got.Status)
	switch {
	case ofTheMoment(got.Status):
		r.Error = "the server refuses it now: " + statusOf(got.Status, is.err)
	case e.Status != 0 && got.Status != e.Status && !(e.Assumed && got.Status == http.StatusPartialContent):
		r.Differences = append(r.Differences, Difference{"status", statusOf(e.Status, was.err),
			statusOf(got.Status, is.err)})
	case is.err != "" && e.Status == 0:
		r.Error = statusOf(got.Status, is.err)
	default:
		if retold := r.compare(&was, &is); r.Compared != "" && !r.Same && !retold {
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

// compare fills the report. retold says that the tokens are the same, and what was kept says something else than they
// do.
func (r *Report) compare(was, is *outcome) (retold bool) {
	if is.flaw != nil {
		r.Error = "the new reply: " + is.flaw.Error()
		return false
	}
	before, now := was.receipts, is.receipts
	known := len(before) > 0 && len(before) == len(now)
	sequences := 0
	for i := range min(len(before), len(now)) {
		r.Origin = append(r.Origin, before[i].origin(&now[i])...)
		for _, out := range now[i].Outputs {
			r.Tokens += int(out.Tokens)
		}
		known = known && len(before[i].Outputs) > 0
		sequences += len(before[i].Outputs)
	}
	if !known && !was.speaks && was.err == "" {
		*r = r.incomparable("the reply that was kept has neither a receipt nor a text to compare with")
		return false
	}
	r.Compared = "text"
	if known {
		r.Compared = "tokens"
		for i := range before {
			r.Differences = append(r.Differences, before[i].tokenDifferences(&now[i])...)
		}
	}
	tokens := len(r.Differences) == 0
	switch {
	case was.speaks || !known:
		r.Differences = append(r.Differences, textDifferences(was, is)...)
		calls, notes := madeDifferences(was, is)
		r.Differences, r.Notes = append(r.Differences, calls...), append(r.Notes, notes...)
	case was.err == "":
		r.Notes = append(r.Notes, "the reply that was kept has no text: its tokens alone are compared")
	}
	r.Differences = append(r.Differences, endDifferences(was, is)...)
	if was.err != is.err {
		r.Differences = append(r.Differences, Difference{"error", was.err, is.err})
	}
	r.Same = len(r.Differences) == 0
	switch {
	case known:
	case len(before) != len(now):
		r.Notes = append(r.Notes, fmt.Sprintf("the reply that was kept has %s, the new one %d: what they follow from cannot "+
			"be compared", terminal.Count(len(before), "receipt"), len(now)))
	case len(before) > 0:
		r.Notes = append(r.Notes, "the receipt that was kept tells of no tokens: the texts alone are compared")
	}
	if retold = known && tokens && !r.Same; retold {
		note := "the tokens are those of the receipt, but what was kept is not what they say"
		if sequences < was.next {
			note = "the tokens that receipts tell of are the same, but what the replies say is not"
		}
		r.Notes = append(r.Notes, note)
	}
	return retold
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
		at["do_sample"] = json.RawMessage(strconv.FormatBool(string(r.Settings["sample"]) == "true"))
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
	case r.Skipped > 0:
		add("%s: not sent: what they answer is no text", r.Request)
	case r.Error != "":
		add("%s: not compared: %s", r.Request, r.Error)
	case r.Same && r.Tokens > 0:
		add("%s: the same %s (%s)", r.Request, r.Compared, terminal.Count(r.Tokens, "token"))
	case r.Same:
		add("%s: the same %s", r.Request, r.Compared)
	default:
		add("%s: differs", r.Request)
	}
	for _, d := range slices.Concat(r.Origin, r.Differences) {
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
