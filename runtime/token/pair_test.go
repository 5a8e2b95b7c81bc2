package token

import (
	"fmt"
	"slices"
	"testing"
)

// TestPair: the tokens of "a" and "bb" are those of the tokenizers library (0.23), for each of its post-processors.
func TestPair(t *testing.T) {
	const bpe = `{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "<s>": 2, "</s>": 3}, "merges": []},
		"post_processor": %s}`
	const special = `"special_tokens": {"</s>": {"ids": [3]}, "<s>": {"ids": [2]}}`
	for _, c := range []struct {
		post   string
		want   []uint32
		second int
		empty  []uint32
	}{
		{`{"type": "BertProcessing", "sep": ["</s>", 3], "cls": ["<s>", 2]}`, []uint32{2, 0, 3, 1, 1, 3}, 3,
			[]uint32{2, 3, 3}},
		{`{"type": "RobertaProcessing", "sep": ["</s>", 3], "cls": ["<s>", 2], "trim_offsets": true,
			"add_prefix_space": true}`, []uint32{2, 0, 3, 3, 1, 1, 3}, 0, []uint32{2, 3, 3, 3}},
		{`{"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}], "pair": [
			{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
			{"SpecialToken": {"id": "</s>", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
			{"SpecialToken": {"id": "</s>", "type_id": 1}}], ` + special + `}`, []uint32{2, 0, 3, 1, 1, 3}, 3,
			[]uint32{2, 3, 3}},
		{`{"type": "Sequence", "processors": [{"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true},
			{"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}}], "pair": [
			{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}},
			{"SpecialToken": {"id": "</s>", "type_id": 0}}], ` + special + `}]}`, []uint32{0, 1, 1, 3}, 0, []uint32{3}},
		{`null`, []uint32{0, 1, 1}, 0, nil},
	} {
		tok, err := Load(fmt.Appendf(nil, bpe, c.post))
		if err != nil {
			t.Fatalf("%.60s: %v", c.post, err)
		}
		got, second := tok.Pair(tok.Encode("a", false), tok.Encode("bb", false))
		if !slices.Equal(got, c.want) || second != c.second {
			t.Errorf("%.60s: %v, second from %d, want %v from %d", c.post, got, second, c.want, c.second)
		}
		if got, _ := tok.Pair(nil, nil); !slices.Equal(got, c.empty) {
			t.Errorf("%.60s: two empty texts are %v, want %v", c.post, got, c.empty)
		}
		if _, added := tok.Added(); added != len(c.empty) {
			t.Errorf("%.60s: %d tokens added, want %d", c.post, added, len(c.empty))
		}
	}
}
