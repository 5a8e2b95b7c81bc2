package api

import "encoding/json"

// held is the text that the fake writes under a grammar in any of the places where one may stand; refused is why it
// does not take it.
func held(body map[string]any) (text, refused string) {
	b, _ := json.Marshal(body)
	v, _ := parse(b)
	p := v.at("parameters")
	for _, g := range []value{p.at("grammar"), v.at("response_format")} {
		source := g.at("value")
		if g.at("json_schema").there {
			source = g.at("json_schema", "schema")
		}
		switch {
		case !g.there || g.at("type").text() == "text":
		case source.text() == "(a":
			return "", validation + "grammar is not valid: line 1, column 1: the group is not closed"
		case source.at("properties", "a", "type").text() == "strin":
			return "", validation + "grammar is not valid: #/properties/a: type: no type"
		case g.at("type").text() == "regex":
			return "red-42", ""
		default:
			return `{"pet": "cat", "tame": true}`, ""
		}
	}
	switch {
	case v.at("guided_choice").there:
		return "yes", ""
	case v.at("structured_outputs").there:
		return "blue-07", ""
	}
	return "", ""
}

// misfit says why a grammar does not fit the body.
func misfit(p map[string]any) string {
	g, there := p["grammar"]
	m, isObject := g.(map[string]any)
	switch {
	case !there || g == nil:
		return ""
	case !isObject:
		return "parameters.grammar: invalid type: integer `7`, expected struct GrammarType"
	case m["type"] == nil:
		return "parameters.grammar: missing field `type`"
	case m["value"] == nil:
		return "parameters.grammar: missing field `value`"
	}
	return ""
}

// write answers with a text that a grammar admits.
func (a *ask) write() (s said) {
	for i, piece := range append(split(a.held), spot{id: idOf("</s>"), text: "</s>"}) {
		special := piece.text == "</s>"
		if !special {
			s.text += piece.text
		}
		s.tokens = append(s.tokens, map[string]any{"id": piece.id, "text": piece.text, "logprob": logprob(i),
			"special": special})
	}
	s.reason = "eos_token"
	return s
}
