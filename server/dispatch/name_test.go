package dispatch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"tgi/server/wire"
)

func TestName(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"a"}`:                                           "a",
		"\n{ \"model\" :\t\"a\" }":                                "a",
		`{"inputs":"x","model":"org/a","stream":true}`:            "org/a",
		`{"inputs":"say \"model\":\"b\"","model":"a"}`:            "a",
		`{"inputs":"ends with \\","model":"a"}`:                   "a",
		`{"inputs":"ends with \\\"","model":"a"}`:                 "a",
		`{"model":"a\u002fb\n"}`:                                  "a/b\n",
		`{"mod\u0065l":"a"}`:                                      "a",
		`{"parameters":{"model":"b","x":["}",{}]},"model":"a"}`:   "a",
		`{"messages":[{"model":"b"},"]"],"n":-1.5e3,"model":"a"}`: "a",
		`{"model":"a","model":"b"}`:                               "a",
		`{"model":"a", and here it breaks off`:                    "a",
		// No name.
		``: "", `{}`: "", `{"inputs":"x"}`: "", `[{"model":"a"}]`: "", `"model"`: "", `{"Model":"a"}`: "", `{"modell":"a"}`: "",
		`{"model":null}`: "", `{"model":5}`: "", `{"model":["a"]}`: "", `{"model":{"id":"a"}}`: "", `{"model":""}`: "",
		`{"parameters":{"model":"a"}}`: "", `{"inputs":"{\"model\":\"a\"}"}`: "",
		// No JSON.
		`{"model"`: "", `{"model":"a`: "", `{"model":"\ud800"}`: "", "{\"model\":\"\xff\"}": "", `{"model" "a"}`: "", `{"x":1 "model":"a"}`: "", `{"x":[1,"model":"a"}`: "",
		`{"x":`: "", `{"x":"`: "", `{"x":{"y`: "", `{"x`: "", `{"x":"\\\`: "", `{model:"a"}`: "",
	} {
		if got := Name([]byte(body)); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

// firstName is Name by the standard library; ok is false where it or the decoders of
// this server take the text for no JSON.
func firstName(body []byte) (name string, ok bool) {
	if wire.Decode(body, (*wire.Reader).Skip) != nil || !json.Valid(body) {
		return "", false
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return "", err == nil
	}
	for d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil {
			return "", false
		}
		if key == member {
			_ = json.Unmarshal(value, &name) // of another type it is none
			return name, true
		}
	}
	return "", true
}

// FuzzName: of every text that is JSON, the name is what encoding/json finds; of any
// other, nothing worse happens than a wrong one.
func FuzzName(f *testing.F) {
	for _, body := range []string{
		`{"model":"a"}`, `{"a":"\\\"","model":"\u00e9\ud83d\ude00"}`, `{"a":[1,{"model":"b"},"]}"],"mode\u006c":"x","model":null}`, ` [ {"model":1} ] `,
		`{"a":-0.5e+7,"b":true,"c":null,"model":{"x":[]}}`, `{"":"","model":""}`, `{"a":{"b":{"c":["\""]}},"model":"z"} `, "{\"a\":\"\x7f\",\"model\":\"é\"}",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := string(body)
		got := Name(body)
		if string(body) != before {
			t.Fatal("the body was changed")
		}
		if want, ok := firstName(body); ok && got != want {
			t.Errorf("%q: %q, encoding/json says %q", body, got, want)
		}
	})
}

// BenchmarkName is the whole price of a dispatcher but for copying the body, beside
// that of decoding the same body as a handler does.
func BenchmarkName(b *testing.B) {
	const size = 2 << 20
	plain := strings.Repeat("It was a dark and stormy night. ", size/32)
	quoted := strings.Repeat(`He said: \"no\".\n`, size/17)
	numbers := strings.Repeat("31415,", size/6)
	for name, body := range map[string]string{
		"first":   `{"model":"a","inputs":"` + plain + `"}`,
		"last":    `{"inputs":"` + plain + `","model":"a"}`,
		"escapes": `{"inputs":"` + quoted + `","model":"a"}`,
		"numbers": `{"prompt":[` + numbers + `0],"model":"a"}`,
	} {
		for what, find := range map[string]func([]byte) string{
			"name": Name,
			"decode": func(body []byte) (name string) {
				err := wire.Decode(body, func(r *wire.Reader) error {
					return r.Object("", []wire.Field{{Name: "model", Read: wire.Into(&name, (*wire.Reader).String)}})
				})
				if err != nil {
					b.Fatal(err)
				}
				return name
			},
		} {
			b.Run(fmt.Sprintf("%s/%s", name, what), func(b *testing.B) {
				text := []byte(body)
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					if find(text) != "a" {
						b.Fatal("no name")
					}
				}
			})
		}
	}
}
