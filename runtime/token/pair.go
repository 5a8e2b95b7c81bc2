package token

import (
	"encoding/json"
	"fmt"
)

// pairPart is a part of the template of two texts.
type pairPart struct {
	ids    []uint32 // fixed tokens; nil for a text's
	second bool     // the second text
	kind   int      // of the tokens
}

// bareSides are two texts without anything around them.
var bareSides = []pairPart{{}, {second: true, kind: 0}}

// pairFile is what a post-processor says of two texts.
type pairFile struct {
	Type          string
	Processors    []json.RawMessage
	Sep, Cls      *tokenFile
	SpecialTokens map[string]*ids `json:"special_tokens"`
	Pair          []struct {
		SpecialToken, Sequence *struct {
			ID     string `json:"id"`
			TypeID int    `json:"type_id"`
		}
	}
}

// loadPair reads the template of two texts from the post-processor, which loadPost has read; nil without one.
func loadPair(b json.RawMessage) ([]pairPart, error) {
	if isNull(b) {
		return nil, nil
	}
	var p *pairFile
	if err := json.Unmarshal(b, &p); err != nil || p == nil {
		return nil, err
	}
	switch p.Type {
	case "Sequence":
		for _, one := range p.Processors {
			if parts, err := loadPair(one); parts != nil || err != nil {
				return parts, err
			}
		}
	case "BertProcessing":
		sep := []uint32{p.Sep.id}
		return []pairPart{{ids: []uint32{p.Cls.id}}, {}, {ids: sep}, {second: true, kind: 1}, {ids: sep, kind: 1}}, nil
	case "RobertaProcessing":
		sep := []uint32{p.Sep.id}
		return []pairPart{{ids: []uint32{p.Cls.id}}, {}, {ids: append(sep, p.Sep.id)}, {second: true}, {ids: sep}}, nil
	case "TemplateProcessing":
		return p.template()
	}
	return nil, nil
}

// template reads TemplateProcessing's template. One that has not both texts in order, or whose kinds of tokens are not
// 0 and then 1, is none.
func (p *pairFile) template() ([]pairPart, error) {
	var parts []pairPart
	sides, kind := "", 0
	for i, one := range p.Pair {
		part := pairPart{}
		switch {
		case one.Sequence != nil:
			sides += one.Sequence.ID
			part.second, part.kind = one.Sequence.ID == "B", one.Sequence.TypeID
		case one.SpecialToken != nil && p.SpecialTokens[one.SpecialToken.ID] != nil:
			part.ids, part.kind = p.SpecialTokens[one.SpecialToken.ID].IDs, one.SpecialToken.TypeID
		default:
			return nil, fmt.Errorf("post_processor.pair[%d]: neither Sequence nor a token of special_tokens", i)
		}
		if part.kind < kind || part.kind > 1 {
			return nil, nil
		}
		kind = part.kind
		parts = append(parts, part)
	}
	if sides != "AB" {
		return nil, nil
	}
	return parts, nil
}

// Added returns how many tokens the model expects around a text, and around two.
func (t *Tokenizer) Added() (single, pair int) {
	for _, p := range t.post.template {
		single += len(p.ids)
	}
	for _, p := range t.pair() {
		pair += len(p.ids)
	}
	return single, pair
}

func (t *Tokenizer) pair() []pairPart {
	if t.sides == nil {
		return bareSides
	}
	return t.sides
}

// Around returns the tokens of a text, which has none added, with those that the model expects around it.
func (t *Tokenizer) Around(ids []uint32) []uint32 { return t.post.apply(ids) }

// Pair returns the tokens of two texts, which have none added, with those that the model expects around them, and
// the index of the first token of the second kind; 0 where all are of one.
func (t *Tokenizer) Pair(a, b []uint32) (ids []uint32, second int) {
	for _, p := range t.pair() {
		at := len(ids)
		switch {
		case p.ids != nil:
			ids = append(ids, p.ids...)
		case p.second:
			ids = append(ids, b...)
		default:
			ids = append(ids, a...)
		}
		if p.kind == 1 && second == 0 && len(ids) > at {
			second = at
		}
	}
	return ids, second
}
