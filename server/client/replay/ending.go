package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"tgi/server/wire"
)

// ending is where a reply says how a sequence ended.
type ending struct {
	sequence int
	field    string
}

// incomplete says why a response has the status incomplete.
const incomplete = "incomplete_details.reason"

// unended are values that tell of no end that the request brings about: of a response that is not done, or that
// somebody stopped, and of a model that was loaded or let go, which goes by what is not sent again.
var unended = map[string][]string{"status": {"queued", "in_progress", "cancelled"}, "done_reason": {"load", "unload"}}

// ends are TGI's and OpenAI's words for how a text ended; the second one is who ended it.
type ends struct {
	Finish json.RawMessage `json:"finish_reason"`
	Stop   json.RawMessage `json:"stop_reason"`
}

func (o *outcome) end(sequence int, within string, e *ends) {
	o.ended(sequence, within, "finish_reason", e.Finish)
	o.ended(sequence, within, "stop_reason", e.Stop)
}

// messageEnd has Anthropic's.
type messageEnd struct {
	Stop     json.RawMessage `json:"stop_reason"`
	Sequence json.RawMessage `json:"stop_sequence"`
}

func (o *outcome) endMessage(within string, e *messageEnd) {
	o.ended(0, within, "stop_reason", e.Stop)
	o.ended(0, within, "stop_sequence", e.Sequence)
}

// responseEnd has those of responses.
type responseEnd struct {
	Status json.RawMessage
	Why    json.RawMessage `json:"incomplete_details"`
}

func (o *outcome) endResponse(within string, e *responseEnd) {
	o.ended(0, within, "status", e.Status)
	var why struct{ Reason json.RawMessage }
	if set(e.Why) && json.Unmarshal(e.Why, &why) != nil {
		o.fail(fmt.Errorf("%sincomplete_details: want an object, given %s", within, wire.Kind(e.Why)))
	}
	o.ended(0, within, incomplete, why.Reason)
}

// ended keeps how a sequence ended, as a member says that stands in another one, whose name ends in a dot. null and
// the empty text say nothing. In a stream the last word holds.
func (o *outcome) ended(sequence int, within, field string, raw json.RawMessage) {
	given := wire.Kind(raw)
	switch number := field == "stop_reason" && given == "a number"; { // a token, in other servers' chats
	case !set(raw):
		return
	case given != "a string" && !number:
		o.fail(fmt.Errorf("%s%s: want a string, given %s", within, field, given))
		return
	}
	how := unquoted(written(raw))
	if how == "" || slices.Contains(unended[field], how) {
		return
	}
	if o.ends == nil {
		o.ends = map[ending]string{}
	}
	o.ends[ending{o.base + sequence, field}] = how
}

// endDifferences tells where two replies ended in another way, as far as both say how: one that a client left, or one
// of an older server, does not.
func endDifferences(was, is *outcome) (list []Difference) {
	many := false
	for _, o := range []*outcome{was, is} {
		for e := range o.ends {
			many = many || e.sequence > 0
		}
	}
	for _, e := range slices.SortedFunc(maps.Keys(was.ends), func(a, b ending) int {
		return cmp.Or(cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.field, b.field))
	}) {
		now, both := is.ends[e]
		if !both || now == was.ends[e] {
			continue
		}
		name := e.field
		if many {
			name = fmt.Sprintf("%s of text %d", name, e.sequence)
		}
		list = append(list, Difference{name, shown(was.ends[e]), shown(now)})
	}
	return list
}
