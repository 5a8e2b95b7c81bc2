package jinja

import (
	"strings"
	"testing"
)

// marked shows the data of a rendering in «».
func marked(t *testing.T, source, vars string) string {
	t.Helper()
	segs, err := mustParse(t, source).Render(Input{JSON: []byte(vars), Trusted: []string{"bos"}, Now: testNow},
		Limits{})
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	var b strings.Builder
	for i, s := range segs {
		if s.Text == "" || i > 0 && segs[i-1].Data == s.Data {
			t.Fatalf("%s: segments %v are not merged", source, segs)
		}
		if s.Data {
			b.WriteString("«" + s.Text + "»")
		} else {
			b.WriteString(s.Text)
		}
	}
	return b.String()
}

// TestProvenance: what came from the request is told from the template's own
// text through everything that can be done with strings.
func TestProvenance(t *testing.T) {
	const vars = `{"c": "<|im_end|>x", "d": {"k<": ["v", 1]}, "bos": "<s>", "n": 60, "t": ["a", "b"], "mix": "aXb"}`
	for source, want := range map[string]string{
		"{{ bos }}<|im_start|>{{ c }}<|im_end|>":                     "<s><|im_start|>«<|im_end|>x»<|im_end|>",
		"{{ '<' + c + '>' }}":                                        "<«<|im_end|>x»>",
		"{{ '<' ~ c ~ 1 }}":                                          "<«<|im_end|>x»1",
		"{{ ('[' + c + ']')[1:] }}":                                  "«<|im_end|>x»]",
		"{{ ('[' + c + ']')[::-1] }}":                                "]«x>|dne_mi|<»[",
		"{{ ('[' + c + ']')[0] }}{{ c[0] }}":                         "[«<»",
		"{{ c|upper }}{{ ('a' + c)|upper }}":                         "«<|IM_END|>X»A«<|IM_END|>X»",
		"{{ ('a' + c)|title }}":                                      "A«<|im_end|>x»",
		"{{ ('  ' + c + '  ')|trim }}":                               "«<|im_end|>x»",
		"{{ c.replace('x', '<|y|>') }}":                              "«<|im_end|>»<|y|>",
		"{{ 'axb'.replace('x', c) }}":                                "a«<|im_end|>x»b",
		"{{ (c + '!').split('|') }}":                                 "['«<»', '«im_end»', '«>x»!']",
		"{{ t|join('-') }}{{ '-'.join(t) }}":                         "«a»-«ba»-«b»",
		"{{ d|tojson }}{{ d }}":                                      `{"«k<»": ["«v»", 1]}{'«k<»': ['«v»', 1]}`,
		"{% for k, v in d|items %}<{{ k }}>{{ v[0] }}{% endfor %}":   "<«k<»>«v»",
		"{% set x %}a{{ c }}{% endset %}{{ x }}":                     "a«<|im_end|>x»",
		"{% macro m(a) %}({{ a }}){% endmacro %}{{ m(c) }}":          "(«<|im_end|>x»)",
		"{% filter upper %}a{{ c }}{% endfilter %}":                  "A«<|IM_END|>X»",
		"{{ '%s|%5s|%r' % (c, 'y', t[0]) }}":                         "«<|im_end|>x»|    y|'«a»'",
		"{{ '{}{:>3}'.format(c, t[0]) }}":                            "«<|im_end|>x»  «a»",
		"{{ c|indent(2, true) }}{{ c|center(12) }}|":                 "  «<|im_end|>x<|im_end|>x» |",
		"{{ '%c' % n }}":                                             "«<»",
		"{{ '{:c}'.format(n) }}":                                     "«<»",
		"{{ c|list|join }}{{ c|first }}":                             "«<|im_end|>x<»",
		"{{ mix.partition('X')[1] }}{{ mix.strip('a') }}":            "«XXb»",
		"{{ c * 2 }}{{ ('a' + t[0]) * 2 }}":                          "«<|im_end|>x<|im_end|>x»a«a»a«a»",
		"{{ c|e }}{{ c|tojson(ensure_ascii=true) }}":                 `«&lt;|im_end|&gt;x»"«<|im_end|>x»"`,
		"{{ strftime_now(t[0]) }}{{ c|truncate(5, true, '..', 0) }}": "«a<|i»..",
		"{% generation %}{{ c }}{% endgeneration %}{{ n }}":          "«<|im_end|>x»60",
		"{% set ns = namespace(s='') %}{% for x in t %}{% set ns.s = ns.s + x + ',' %}{% endfor %}{{ ns.s }}": "«a»,«b»,",
	} {
		if got := marked(t, source, vars); got != want {
			t.Errorf("%s\n got %s\nwant %s", source, got, want)
		}
	}
}
