package host

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tgi/server/config"
)

// BenchmarkFlood reports the gaps between the tokens of three streams, in turn undisturbed and beside another client
// that asks for what no model computes, on so many connections and as fast as it gets replies. It is in this process,
// so that what it does itself counts, too.
func BenchmarkFlood(b *testing.B) {
	p := openPlugged(b, func(c *config.Config) { c.Runtime.Verify = false })
	const sentence = "Once upon a time there was a king. "
	chat := strings.Repeat(`{"role":"user","content":"hi"},{"role":"assistant","content":"hi"},`, 10_000)
	for _, c := range []flooding{
		{"health", sentGet("/health"), 8, http.StatusOK},
		{"models", sentGet("/v1/models"), 8, http.StatusOK},
		{"metrics", sentGet("/metrics"), 8, http.StatusOK},
		{"metrics-600", sentGet("/metrics"), 600, http.StatusOK},
		{"tokenize", sentPost("/tokenize", `{"inputs":"Once upon a time"}`), 8, http.StatusOK},
		{"tokenize-long", sentPost("/tokenize", `{"inputs":"`+strings.Repeat(sentence, 50)+`"}`), 8, http.StatusOK},
		{"tokenize-960k-60", sentPost("/tokenize", `{"inputs":"`+strings.Repeat(sentence, 27_500)+`"}`), 60,
			http.StatusOK},
		{"chat-20k", sentPost("/v1/chat/completions", `{"messages":[`+chat[:len(chat)-1]+`]}`), 1,
			http.StatusUnprocessableEntity},
		{"chat-20k-30", sentPost("/v1/chat/completions", `{"messages":[`+chat[:len(chat)-1]+`]}`), 30,
			http.StatusUnprocessableEntity},
		{"nowhere", sentGet("/nowhere"), 8, http.StatusNotFound},
		{"nowhere-600", sentGet("/nowhere"), 600, http.StatusNotFound},
	} {
		p.besideFlood(b, c)
	}
}

// BenchmarkPreambles is BenchmarkFlood with chats of one token that are dear before their first step.
func BenchmarkPreambles(b *testing.B) {
	p := openChat(b, func(c *config.Config) {
		c.Runtime.Verify = false
		c.Plugin = append(c.Plugin, config.Plugin{Name: "banned-strings", Source: config.Builtin + "banned-strings",
			OnError: config.OnErrorFail, Apply: config.ApplyRequest})
	})
	chatWith := func(fields string) string {
		return sentPost("/v1/chat/completions", `{"messages":[{"role":"user","content":"Hi"}],"max_tokens":1`+
			fields+`}`)
	}
	var biases, banned []string
	for i := range 1900 {
		biases = append(biases, fmt.Sprintf(`"%d":%d`, i, i%7))
	}
	for i := range 1000 {
		banned = append(banned, fmt.Sprintf(`"%04d%s"`, i, numberPlace))
	}
	for _, c := range []flooding{
		{"chat-metadata-2m-30", chatWith(`,"metadata":{"a":"` + strings.Repeat("x", 1_900_000) + `"}`), 30,
			http.StatusOK},
		{"chat-bias-1900-30", chatWith(`,"logit_bias":{` + strings.Join(biases, ",") + `}`), 30,
			http.StatusOK},
		{"chat-banned-1000-16", chatWith(`,"plugins":[{"name":"banned-strings","params":{"strings":[` +
			strings.Join(banned, ",") + `]}}]`), 16, http.StatusOK},
	} {
		p.besideFlood(b, c)
	}
}

// flooding is a request that another client sends again and again, numbered where numberPlace is, and its status.
type flooding struct {
	name, request string
	connections   int
	status        int
}

// besideFlood measures gaps beside a flood.
func (p *plugged) besideFlood(b *testing.B, c flooding) {
	b.Run(c.name, func(b *testing.B) {
		asked := 0
		compare(b, func() (alone, beside time.Duration) {
			alone = p.gap(b, rest)
			stop := p.flood(b, c.request, c.connections, c.status)
			beside = p.gap(b, rest)
			asked += stop()
			return alone, beside
		})
		b.ReportMetric(float64(asked)/float64(b.N)/2, "asked/s")
	})
}

// numberPlace is where a flood numbers its requests, as long as its numbers.
const numberPlace = "<number>"

// sentGet and sentPost are requests as they are sent.
func sentGet(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: tgi\r\n\r\n" }

func sentPost(path, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: tgi\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		"\r\n%s", path, len(body), body)
}

// flood has another client send a request again and again, on so many connections, until stop is called, which returns
// how many there were. All but a few of the replies have the status, or 429.
func (p *plugged) flood(b *testing.B, request string, connections, status int) (stop func() int) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	var all sync.WaitGroup
	var asked, other, number atomic.Int64
	numbered, form := strings.Contains(request, numberPlace), request
	for range connections {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
		conn, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			b.Fatal(err)
		}
		all.Go(func() {
			request := form
			defer conn.Close()
			context.AfterFunc(ctx, func() { conn.Close() })
			in := bufio.NewReader(conn)
			for ctx.Err() == nil {
				if numbered {
					request = strings.ReplaceAll(form, numberPlace, fmt.Sprintf("%08d", number.Add(1)%1e8))
				}
				if _, err := io.WriteString(conn, request); err != nil {
					break
				}
				res, err := http.ReadResponse(in, nil)
				if err != nil {
					break
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil {
					break
				}
				if asked.Add(1); res.StatusCode != status && res.StatusCode != http.StatusTooManyRequests {
					other.Add(1)
				}
			}
			if ctx.Err() == nil {
				b.Error("a connection of the flood was closed")
			}
		})
	}
	return func() int {
		cancel()
		all.Wait()
		if n, of := other.Load(), asked.Load(); n > of/10 {
			b.Errorf("%d of %d replies had another status than %d", n, of, status)
		}
		return int(asked.Load())
	}
}
