package embeddings

import (
	"strings"
	"unicode/utf8"

	"tgi/runtime/embed"
	"tgi/runtime/llm"
)

// Template is what a chat template puts around a query and a text, of a model that answers whether the text answers
// the query.
type Template struct {
	Before, Between, After string
	// TextFirst says that the text comes before the query.
	TextFirst bool
}

// fill returns the prompt, and where the client's words are in it: no special token is recognised there.
func (t *Template) fill(query, text string) (string, []llm.Span) {
	if t.TextFirst {
		query, text = text, query
	}
	first := len(t.Before)
	second := first + len(query) + len(t.Between)
	return t.Before + query + t.Between + text + t.After,
		[]llm.Span{{Start: first, End: first + len(query)}, {Start: second, End: second + len(text)}}
}

// asked returns the tokens of a pair in the model's template. Where they are too many the longer text is cut first, as
// of other pairs, and the template is whole.
func (s *Service) asked(in *Input, most int, cut bool, o *Options) (embed.Text, error) {
	query, text := s.lower(in.Text), s.lower(*in.Pair)
	if o.Second > 0 {
		text = s.cutText(text, o.Second, false)
	}
	e, err := s.filled(query, text, most)
	if err != nil || e.Count <= most {
		return embed.Text{IDs: e.Tokens}, err
	}
	if !cut {
		return embed.Text{}, s.tooLong(o, most, counted(e))
	}
	bare, err := s.bare()
	if err != nil {
		return embed.Text{}, err
	}
	a, b := s.countUpTo(query, most), s.countUpTo(text, most)
	for room := most - bare.Count; room >= 0; {
		n, m := longestFirst(a, b, room)
		if e, err = s.filled(s.cutText(query, n, o.Left), s.cutText(text, m, o.Left), most); err != nil ||
			e.Count <= most {
			return embed.Text{IDs: e.Tokens}, err
		}
		room -= e.Count - most // tokens at the borders are others than those of the parts
	}
	return embed.Text{}, s.tooLong(o, most, "a template of "+counted(bare))
}

// filled returns the tokens of a prompt, of one with more than most their number alone; 0 is no bound.
func (s *Service) filled(query, text string, most int) (llm.Encoded, error) {
	prompt, data := s.Template.fill(query, text)
	return s.tok.EncodePrompt(prompt, llm.Encoding{Data: data, Most: most})
}

// countUpTo counts a text's tokens, no further than one more than most.
func (s *Service) countUpTo(text string, most int) int {
	n := 0
	for range s.tok.Pieces(text, false) {
		if n++; n > most {
			break
		}
	}
	return n
}

// cutText returns the part of a text that its first tokens cover, or its last ones.
func (s *Service) cutText(text string, most int, last bool) string {
	if most < 1 {
		return ""
	}
	var ends []int // of the last tokens, in characters of the text before them
	n, end := 0, 0
	for p := range s.tok.Pieces(text, false) {
		if last {
			if ends = append(ends, p.Start); len(ends) > most {
				ends = ends[1:]
			}
			continue
		}
		if n, end = n+1, p.End; n == most {
			break
		}
	}
	switch {
	case last && len(ends) > 0:
		return text[bytesOf(text, ends[0]):]
	case last:
		return text
	}
	return text[:bytesOf(text, end)]
}

// bytesOf returns how many bytes the first characters of a text have. Each byte that is no UTF-8 is a character.
func bytesOf(text string, characters int) int {
	at := 0
	for ; characters > 0 && at < len(text); characters-- {
		_, size := utf8.DecodeRuneInString(text[at:])
		at += size
	}
	return at
}

// Split finds what is around two texts in a prompt that a template made of them. ok is false where it does not have
// each of them once.
func Split(prompt, query, text string) (t Template, ok bool) {
	if strings.Count(prompt, query) != 1 || strings.Count(prompt, text) != 1 {
		return t, false
	}
	first, second := query, text
	if t.TextFirst = strings.Index(prompt, text) < strings.Index(prompt, query); t.TextFirst {
		first, second = text, query
	}
	var rest string
	t.Before, rest, _ = strings.Cut(prompt, first)
	t.Between, t.After, ok = strings.Cut(rest, second)
	return t, ok
}
