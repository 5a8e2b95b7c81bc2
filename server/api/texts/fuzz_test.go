package texts

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"unicode/utf8"

	"tgi/server/embeddings"
	"tgi/server/generate"
	"tgi/server/wire"
)

// FuzzRerankBody: bodies of /v1/rerank that are taken have the texts that encoding/json reads in them, and numbers
// within their bounds.
func FuzzRerankBody(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","query":"a","documents":["b","c"],"top_n":1,"return_documents":false}`,
		`{"query":"é\ud83d\ude00","documents":[{"text":"b"},"c"],"max_tokens_per_doc":16,"truncate":null}`,
		`{"query":"a","documents":[],"top_n":0}`, `{"query":"a","documents":["b"],"max_tokens_per_doc":16777217}`,
		`{"query":"a","documents":["b"],"truncation_direction":"Up"}`, `{"query":1}`, `[]`, ``,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var b rerankBody
		if err := b.decode(t.Context(), body); err != nil {
			if !utf8.ValidString(err.Error()) || err.Error() == "" {
				t.Fatalf("%q: the error is %q", body, err.Error())
			}
			return
		}
		var want struct {
			Query     string
			Documents []json.RawMessage
		}
		fields := object(t, body)
		decode(t, fields["query"], &want.Query)
		decode(t, fields["documents"], &want.Documents)
		if b.query != want.Query || len(b.documents) != len(want.Documents) {
			t.Fatalf("%q: query %q and %d documents, want %q and %d", body, b.query, len(b.documents), want.Query,
				len(want.Documents))
		}
		for i, raw := range want.Documents {
			var text string
			if raw[0] == '{' {
				raw = object(t, raw)["text"]
			}
			if decode(t, raw, &text); b.documents[i] != text {
				t.Fatalf("%q: document %d is %q, want %q", body, i, b.documents[i], text)
			}
		}
		if b.top != nil && *b.top < 1 || b.options.Second < 0 || b.options.Second > mostPerText ||
			b.options.Truncate == nil {
			t.Fatalf("%q: taken with %+v", body, b.options)
		}
	})
}

// FuzzInputs: what the routes of embeddings and predictions take has the texts, pairs and tokens that encoding/json
// reads in it.
func FuzzInputs(f *testing.F) {
	for _, body := range []string{
		`{"inputs":"a"}`, `{"inputs":["a","b"]}`, `{"inputs":[["a","b"],["c"]]}`, `{"inputs":[1,2]}`,
		`{"inputs":[[1],[]]}`,
		`{"inputs":[["a","b","c"]]}`, `{"inputs":[4294967296]}`, `{"inputs":[-1]}`, `{"inputs":[]}`,
		`{"inputs":["a",1]}`,
		`{"inputs":"a","truncate":true,"truncation_direction":"left","dimensions":3}`,
		`{}`, `{"inputs":null}`,
	} {
		f.Add([]byte(body), true)
		f.Add([]byte(body), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, pairs bool) {
		var c common
		var b batch
		read := b.read
		if pairs {
			read = b.readPairs
		}
		if err := c.decodeInputs(t.Context(), body, "struct Request", read); err != nil {
			if !utf8.ValidString(err.Error()) || err.Error() == "" {
				t.Fatalf("%q: the error is %q", body, err.Error())
			}
			return
		}
		raw := object(t, body)["inputs"]
		if b.single && len(b.inputs) != 1 {
			t.Fatalf("%q: %d inputs of one", body, len(b.inputs))
		}
		list := []json.RawMessage{raw}
		if !b.single {
			list = nil
			decode(t, raw, &list)
		}
		if len(list) != len(b.inputs) {
			t.Fatalf("%q: %d inputs, want %d", body, len(b.inputs), len(list))
		}
		for i, raw := range list {
			compare(t, raw, &b.inputs[i], pairs)
		}
	})
}

// compare fails unless in is what raw says.
func compare(t *testing.T, raw json.RawMessage, in *embeddings.Input, pairs bool) {
	var ids []uint32
	var texts []string
	switch {
	case raw[0] == '"':
		texts = make([]string, 1)
		decode(t, raw, &texts[0])
	case pairs:
		decode(t, raw, &texts)
	default:
		if decode(t, raw, &ids); !slices.Equal(in.Tokens, ids) {
			t.Fatalf("%s: tokens %v", raw, in.Tokens)
		}
		return
	}
	if in.Text != texts[0] || (in.Pair != nil) != (len(texts) == 2) || in.Pair != nil && *in.Pair != texts[1] {
		t.Fatalf("%s: read as %+v", raw, in)
	}
}

// object returns the fields of an object, with their names as they are.
func object(t *testing.T, raw []byte) map[string]json.RawMessage {
	fields := map[string]json.RawMessage{}
	decode(t, raw, &fields)
	return fields
}

func decode(t *testing.T, raw []byte, to any) {
	if err := json.Unmarshal(raw, to); err != nil {
		t.Fatalf("%q: taken, but %v", raw, err)
	}
}

// TestBounds: what is outside its bounds is refused by its name.
func TestBounds(t *testing.T) {
	for body, field := range map[string]string{
		`{"query":"a","documents":["b"],"top_n":0}`:                       "top_n",
		`{"query":"a","documents":["b"],"max_tokens_per_doc":0}`:          "max_tokens_per_doc",
		`{"query":"a","documents":["b"],"max_tokens_per_doc":16777217}`:   "max_tokens_per_doc",
		`{"query":"a","documents":["b"],"truncation_direction":"upward"}`: "truncation_direction",
	} {
		var b rerankBody
		if err := b.decode(t.Context(), []byte(body)); !refused(err, field) {
			t.Errorf("%s: %v, want a refusal of %s", body, err, field)
		}
	}
	for _, body := range []string{`{"documents":["b"]}`, `{"query":"a"}`, `{"query":"a","documents":[1]}`} {
		var b rerankBody
		if err := b.decode(t.Context(), []byte(body)); err == nil {
			t.Errorf("%s: taken", body)
		}
	}
	var n int32
	for _, n = range []int32{0, -2} {
		c := common{most: &n}
		if err := c.finish("input"); !refused(err, "truncate_prompt_tokens") {
			t.Errorf("truncate_prompt_tokens %d: %v", n, err)
		}
	}
	for _, n := range []uint64{0, 9, 1 << 63} {
		if _, err := dimensions(&n, 8); !refused(err, "dimensions") {
			t.Errorf("dimensions %d of 8: %v", n, err)
		}
	}
	var b batch
	if err := wire.Decode([]byte(`[["a","b","c"]]`), b.readPairs); err == nil {
		t.Error("three texts are taken for a pair")
	}
}

// refused says whether err is a refusal of the value of a field.
func refused(err error, field string) bool {
	var bad *generate.Invalid
	return errors.As(err, &bad) && bad.Field == field
}
