package tgi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tgi/server/config"
	"tgi/server/dialect"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// BenchmarkStream reads streams of 1,000 tokens over a connection; the engine
// has all of them at once, so what is measured is the server's and the client's
// share of a token.
func BenchmarkStream(b *testing.B) {
	s := httptest.NewServer(newServer(&generatetest.Engine{}, func(l *generate.Limits, _ *config.Config) {
		l.MaxTotal = 2000
	}))
	defer s.Close()
	const tokens = 1000
	b.ReportAllocs()
	for b.Loop() {
		r, err := http.Post(s.URL+"/generate_stream", "application/json",
			strings.NewReader(`{"inputs":"Hi","parameters":{"max_new_tokens":1000}}`))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			b.Fatal(err)
		}
		r.Body.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*tokens), "ns/token")
}

// BenchmarkAppendEvent writes one event of a stream.
func BenchmarkAppendEvent(b *testing.B) {
	e := generate.Event{Token: 314, Text: " token", Logprob: -1.2345678}
	d := delta{dialect: dialect.Default(), index: 7, event: &e}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = d.append(buf[:0])
	}
}
