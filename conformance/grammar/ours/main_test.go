package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// bytewise is a vocabulary of all bytes and an end.
func bytewise() (v vocabulary, end uint32) {
	for b := range 256 {
		v = append(v, token{text: []byte{byte(b)}})
	}
	return append(v, token{text: []byte("</s>"), special: true, end: true}), 256
}

// TestRealistic: every schema compiles and admits its instances, in the order of members that they are written in, and
// none of them cut short.
func TestRealistic(t *testing.T) {
	data, err := os.ReadFile("../schemas/realistic.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name      string
		Schema    json.RawMessage
		Instances []json.RawMessage
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	params := []byte(`{"whitespace":"flexible"}`)
	v, end := bytewise()
	set, err := open(v, filepath.Join(os.TempDir(), "tgi-test-modules"), params)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	for i, c := range cases {
		in := one{Name: c.Name, Schema: string(c.Schema)}
		for _, text := range c.Instances {
			var tokens []uint32
			for _, b := range text {
				tokens = append(tokens, uint32(b))
			}
			in.Tokens = append(in.Tokens, tokens, tokens[:0])
		}
		r := follow(set, in, i, (len(v)+31)/32, end, params)
		if r.Refused != "" || r.Case != i || r.Compile <= 0 {
			t.Errorf("%s: %+v", c.Name, r)
			continue
		}
		for k, w := range r.Texts {
			n := len(in.Tokens[k]) + 1
			if whole := k%2 == 0; w.Admitted != whole {
				t.Errorf("%s: %s is admitted: %v", c.Name, c.Instances[k/2], w.Admitted)
			} else if whole && (len(w.First) != n || len(w.Again) != n || len(w.Accept) != n) {
				t.Errorf("%s: %d, %d masks and %d tokens accepted, want %d", c.Name, len(w.First), len(w.Again),
					len(w.Accept), n)
			}
		}
	}
}

// TestReadVocabulary: letters become the bytes they stand for, and added tokens their flags.
func TestReadVocabulary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"model":{"vocab":{"Ġa":0,"Ċ":1,"Ã©":2,"Ń":3}},"added_tokens":[{"id":5,"content":"<e>","special":true},{"id":4,"content":"é"}]}`)
	v, err := readVocabulary(path)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range []string{" a", "\n", "é", "\xad", "é", "<e>"} {
		if string(v[id].text) != want || v[id].special != (id == 5) {
			t.Errorf("token %d: %q, special %v; want %q", id, v[id].text, v[id].special, want)
		}
	}
	write(`{"model":{"vocab":{"世":0}}}`)
	if _, err := readVocabulary(path); err == nil {
		t.Error("a letter that stands for no byte is read")
	}
}

// TestPrepared: when the set is prepared, the strings, numbers and formats of a schema that nobody asked for yet are
// known: only what names the place is new.
func TestPrepared(t *testing.T) {
	v, _ := bytewise()
	set, err := open(v, filepath.Join(os.TempDir(), "tgi-test-modules"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	for kind, text := range map[string]string{
		`"type":"string"`: `{"qq": "a`, `"type":"string","maxLength":500`: `{"qq": "a`, `"type":"number"`: `{"qq": -1`,
		`"format":"email","type":"string"`:     `{"qq": "a`,
		`"format":"date-time","type":"string"`: `{"qq": "2`, `"pattern":"^[x-z]*$","type":"string"`: `{"qq": "`,
	} {
		g, err := compile(set, `{"type":"object","additionalProperties":false,"required":["qq"],"properties":{"qq":{`+
			kind+`}}}`, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := g.Sequence(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range []byte(text) {
			if err := s.Accept(uint32(b)); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
		}
		before := set.GrammarStats().Masks
		if _, err := s.Mask(make([]uint32, (len(v)+31)/32)); err != nil {
			t.Fatal(err)
		}
		after := set.GrammarStats().Masks
		known := kind[1] != 'p' // a pattern is nobody else's
		if got := after.Misses-before.Misses == 1 && after.Hits > before.Hits; got != known {
			t.Errorf("%s: known is %v, from %+v to %+v", kind, got, before, after)
		}
		s.Close()
		g.Close()
	}
}
