package deltas

import (
	"math"
	"strconv"
	"unicode/utf8"

	"tgi/server/generate"
	"tgi/server/wire"
)

// AppendLogprobs writes the array that chat's and responses' log-probabilities are: each token with its bytes and the
// top likeliest in its place. bytes returns those of a token, and whether they are known.
func AppendLogprobs(b []byte, tokens []Scored, top int, bytes func(generate.Token) ([]byte, bool)) []byte {
	b = append(b, '[')
	for i := range tokens {
		b = append(appendToken(wire.Comma(b, i), &tokens[i].Token, bytes), `,"top_logprobs":[`...)
		for j, t := range tokens[i].Best(top) {
			b = append(appendToken(wire.Comma(b, j), &t, bytes), '}')
		}
		b = append(b, `]}`...)
	}
	return append(b, ']')
}

// appendToken writes a token and leaves its object open.
func appendToken(b []byte, t *generate.Token, bytes func(generate.Token) ([]byte, bool)) []byte {
	raw, ok := bytes(*t)
	if !ok || t.Replaced {
		raw = []byte(t.Text)
	}
	b = wire.AppendString(append(b, `{"token":`...), Spell(raw))
	b = AppendLogprob(append(b, `,"logprob":`...), t.Logprob)
	b = append(b, `,"bytes":[`...)
	for i, octet := range raw {
		b = strconv.AppendUint(wire.Comma(b, i), uint64(octet), 10)
	}
	return append(b, ']')
}

// Spell writes bytes as OpenAI does: as text where they are some, else each in
// hexadecimal.
func Spell(raw []byte) string {
	if utf8.Valid(raw) {
		return string(raw)
	}
	const hex = "0123456789abcdef"
	out := []byte("bytes:")
	for _, c := range raw {
		out = append(out, '\\', 'x', hex[c>>4], hex[c&15])
	}
	return string(out)
}

// AppendLogprob writes a log-probability: OpenAI's least one for a token that
// the model rules out, because clients expect a number.
func AppendLogprob(b []byte, f float32) []byte {
	if v := float64(f); math.IsNaN(v) || math.IsInf(v, 0) {
		return append(b, "-9999.0"...)
	}
	return wire.AppendFloat32(b, f)
}
