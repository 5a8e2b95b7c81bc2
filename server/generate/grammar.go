package generate

import (
	"net/http"
	"strconv"
	"strings"

	"tgi/runtime/llm"
	"tgi/server/wire"
)

// Languages of grammars that routes know by name. Which of them can be compiled,
// and which others, is for the installed plugins to say.
const (
	// JSONSchema is a JSON Schema, as JSON.
	JSONSchema = "json_schema"
	// JSONObject is any JSON object; its source is empty.
	JSONObject = "json_object"
	// Regex is a regular expression that the whole text matches.
	Regex = "regex"
	// Choice is a JSON array of texts, one of which is the whole text.
	Choice = "choice"
	// GBNF and Lark are grammars in the notations of llama.cpp and of Lark.
	GBNF = "gbnf"
	Lark = "lark"
	// StructuralTag is XGrammar's description of free text with parts that are held
	// to a grammar, as JSON.
	StructuralTag = "structural_tag"
)

// Grammar is what every text of a reply is held to.
type Grammar = llm.GrammarCall

// AppendDropped writes the member of a reply that lists dropped, if there is any:
// ,"grammar_dropped":[{"pointer":…,"keyword":…,"reason":…}].
func AppendDropped(b []byte, dropped []Dropped) []byte {
	for i, d := range dropped {
		if i == 0 {
			b = append(b, `,"grammar_dropped":[`...)
		} else {
			b = append(b, ',')
		}
		b = wire.AppendString(append(b, `{"pointer":`...), d.Pointer)
		b = wire.AppendString(append(b, `,"keyword":`...), d.Keyword)
		b = append(wire.AppendString(append(b, `,"reason":`...), d.Reason), '}')
	}
	if len(dropped) > 0 {
		b = append(b, ']')
	}
	return b
}

// AppendSkips writes the member of a reply that lists plugins, which failed and were passed over, if there are any.
func AppendSkips(b []byte, skips []Skip) []byte {
	for i, s := range skips {
		if i == 0 {
			b = append(b, `,"plugins":[`...)
		} else {
			b = append(b, ',')
		}
		b = wire.AppendString(append(b, `{"name":`...), s.Plugin)
		b = append(wire.AppendString(append(b, `,"error":`...), s.Reason), '}')
	}
	if len(skips) > 0 {
		b = append(b, ']')
	}
	return b
}

// SetUnknown sets the header that names members of the request that mean nothing here, such as misspelt ones; none
// where there are none.
func SetUnknown(h http.Header, names []string) {
	if len(names) > 0 {
		text := strconv.QuoteToASCII(strings.Join(names, ", ")) // a header has no other characters
		h.Set("X-Ignored-Fields", text[1:len(text)-1])
	}
}

// SetDropped sets the header that tells clients who do not look for the member
// how many things the grammar is not held to; none where there are none.
func SetDropped(h http.Header, dropped []Dropped) {
	if len(dropped) > 0 {
		h.Set("X-Grammar-Dropped", strconv.Itoa(len(dropped)))
	}
}
