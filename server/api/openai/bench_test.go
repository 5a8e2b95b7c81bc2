package openai

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tgi/server/dispatch"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// BenchmarkStream reads chat streams of 1,000 tokens over a connection; the
// engine has all of them at once, so what is measured is the server's and the
// client's share of a token.
func BenchmarkStream(b *testing.B) {
	s := httptest.NewServer(newServer(&generatetest.Engine{}, func(l *generate.Limits, _ *dispatch.Model) {
		l.MaxTotal = 2000
	}))
	defer s.Close()
	for name, fields := range map[string]string{"plain": "", "stop": `,"stop":["\n\nUser:","###"]`,
		"logprobs": `,"logprobs":true`} {
		b.Run(name, func(b *testing.B) {
			const tokens = 1000
			b.ReportAllocs()
			for b.Loop() {
				r, err := http.Post(s.URL+chatPath, "application/json",
					strings.NewReader(`{`+hi+`,"stream":true,"max_tokens":1000`+fields+`}`))
				if err != nil {
					b.Fatal(err)
				}
				if n, err := io.Copy(io.Discard, r.Body); err != nil || n < tokens*100 {
					b.Fatal(n, err)
				}
				r.Body.Close()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*tokens), "ns/token")
		})
	}
}
