package scale

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// places are how many sequences a replica of these tests takes.
const places = 4

// settings are a replica's: it serves long enough after SIGTERM for the routers' checks.
const settings = "[server]\ndrain_delay = \"4s\"\n[limits]\nmax_concurrent_requests = 4\n"

// roomy replicas refuse nothing in these tests.
const roomy = "[server]\ndrain_delay = \"4s\"\n"

// TestRouters: what a fleet promises its clients, behind each router.
func TestRouters(t *testing.T) {
	enabled(t)
	for _, r := range routers {
		t.Run(r.name, func(t *testing.T) {
			t.Run("load", func(t *testing.T) {
				f := start(t, r, roomy)
				f.spreads(t)
				for _, k := range r.knows {
					t.Run(k.name, func(t *testing.T) { f.staysWithThePrefix(t, k) })
					if k.system != "" {
						t.Run(k.name+" under load", func(t *testing.T) { f.sharesTheLoad(t, k) })
					}
				}
				f.drains(t)
			})
			t.Run("full", func(t *testing.T) { start(t, r, settings).refusesWhenFull(t) })
			t.Run("kill", func(t *testing.T) { start(t, r, roomy).outlivesAKill(t) })
		})
	}
}

// spreads: requests that belong to nothing go to both replicas, at least a tenth to each. How even that is
// depends on how busy they were.
func (f *fleet) spreads(t *testing.T) {
	const clients, each = 6, 10
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for i := range each {
				if r := f.ask(t.Context(), 100*c+i, nil); r.status != 200 {
					t.Errorf("a request got %d %s", r.status, r.body)
				}
			}
		})
	}
	all.Wait()
	for i, s := range f.replicas {
		n := counter(t, s, "tgi_request_success")
		t.Logf("replica %d served %v of %d", i, n, clients*each)
		if n < clients*each/10 {
			t.Errorf("replica %d served %v of %d requests", i, n, clients*each)
		}
	}
}

// talks are conversations that a router keeps at one replica.
type talks struct {
	name string
	// session says that clients send the header X-Session-Id: without it the router knows them by their beginnings.
	session bool
	system  string // the prompt that all of them have
	apart   bool   // they are spread over the replicas
}

// shared is a system prompt of 60 % of a first turn.
var shared = strings.Repeat("You are a helpful guide to the island of Ostrel, and you answer briefly. ", 6)

// Who knows conversations by what. A prompt that all have in common binds them to the replica that had it first.
var (
	byHeader    = talks{name: "header", session: true, apart: true}
	byBeginning = talks{name: "beginning", apart: true}
	bySystem    = talks{name: "system", system: shared}
)

// staysWithThePrefix: the turns of a conversation go where its beginning is cached.
func (f *fleet) staysWithThePrefix(t *testing.T, k talks) {
	const conversations, turns, many = 6, 4, 64
	of := func(name string) (n []float64) {
		for _, s := range f.replicas {
			n = append(n, counter(t, s, name))
		}
		return n
	}
	// ask has the answer to the next turn of conversation c, and the replica that gave it.
	ask := func(c int, said []message) (text string, at int) {
		before := of("tgi_request_success")
		session := ""
		if k.session {
			session = fmt.Sprintf("conversation-%d", c)
		}
		r := f.chat(t.Context(), session, said, map[string]any{"max_tokens": 12})
		if r.status != 200 {
			t.Fatalf("message %d of conversation %d: %d %s", len(said), c, r.status, r.body)
		}
		if after := of("tgi_request_success"); after[1] > before[1] {
			at = 1
		}
		return r.text, at
	}
	user := func(c, turn int) message {
		return message{"user", fmt.Sprintf("%s: turn %d of talk %d. ", k.name, turn, c) +
			strings.Repeat("I went to the market and saw a red hat. ", 6)}
	}
	said, at := make([][]message, conversations), make([]int, conversations)
	var looked, found float64
	used := map[int]bool{}
	for turn := range turns {
		for c := range conversations {
			if turn == 0 && k.system != "" {
				said[c] = append(said[c], message{"system", k.system})
			}
			said[c] = append(said[c], user(c, turn))
			prompts, hits := f.prefixes(t)
			text, now := ask(c, said[c])
			said[c] = append(said[c], message{"assistant", text})
			if turn > 0 && now != at[c] {
				t.Errorf("conversation %d moved to replica %d before turn %d", c, now, turn)
			}
			at[c], used[now] = now, true
			if turn > 0 {
				l, n := f.prefixes(t)
				looked, found = looked+l-prompts, found+n-hits
			}
		}
	}
	// A hash may give a few conversations the same replica (1 time in 32 for six of them), not very many.
	for c := conversations; k.apart && len(used) == 1 && c < many; c++ {
		_, now := ask(c, []message{user(c, 0)})
		used[now] = true
	}
	t.Logf("%.0f of %.0f prompt tokens of later turns were cached", found, looked)
	if found < looked/2 {
		t.Errorf("%.0f of %.0f prompt tokens of later turns were cached, want half of them", found, looked)
	}
	if k.apart != (len(used) == 2) {
		t.Errorf("all conversations are at one replica: %t", len(used) == 1)
	}
}

// sharesTheLoad: a prompt that all conversations have binds them to one replica only until that has much to do.
func (f *fleet) sharesTheLoad(t *testing.T, k talks) {
	const conversations, turns = 12, 4
	var before []float64
	for _, s := range f.replicas {
		before = append(before, counter(t, s, "tgi_request_success"))
	}
	looked, found := f.prefixes(t)
	var all sync.WaitGroup
	for c := range conversations {
		all.Go(func() {
			said := []message{{"system", k.system}}
			for turn := range turns {
				said = append(said, message{"user", fmt.Sprintf("Busy turn %d of talk %d. ", turn, c) +
					strings.Repeat("I went to the market and saw a red hat. ", 6)})
				r := f.chat(t.Context(), "", said, map[string]any{"max_tokens": 40, "logit_bias": noEnd})
				if r.status != 200 {
					t.Errorf("turn %d of conversation %d: %d %s", turn, c, r.status, r.body)
					return
				}
				said = append(said, message{"assistant", r.text})
			}
		})
	}
	all.Wait()
	l, n := f.prefixes(t)
	t.Logf("%.0f of %.0f prompt tokens were cached", n-found, l-looked)
	for i, s := range f.replicas {
		n := counter(t, s, "tgi_request_success") - before[i]
		t.Logf("replica %d served %v of %d", i, n, conversations*turns)
		if n < conversations*turns/10 {
			t.Errorf("replica %d served %v of %d requests", i, n, conversations*turns)
		}
	}
}

// prefixes are the prompt tokens that both replicas looked for in their caches, and those that they found.
func (f *fleet) prefixes(t *testing.T) (looked, found float64) {
	t.Helper()
	for _, s := range f.replicas {
		looked += counter(t, s, "tgi_prefix_lookup_tokens")
		found += counter(t, s, "tgi_prefix_hit_tokens")
	}
	return looked, found
}

// drains: SIGTERM ends no stream and costs no request, whichever replica it would have gone to.
func (f *fleet) drains(t *testing.T) {
	const streams, clients, least = 6, 4, 20
	going, stop := context.WithCancel(t.Context())
	defer stop()
	var small, long sync.WaitGroup
	var mu sync.Mutex
	served := 0
	for c := range clients {
		small.Go(func() {
			for i := 0; going.Err() == nil; i++ {
				r := f.ask(t.Context(), 1000*c+i, nil)
				if r.status != 200 || r.text == "" {
					t.Errorf("a request during the drain got %d %s", r.status, r.body)
					return
				}
				mu.Lock()
				served++
				mu.Unlock()
			}
		})
	}
	for i := range streams {
		long.Go(func() {
			r := f.ask(t.Context(), 9000+i, map[string]any{"stream": true, "max_tokens": 700, "logit_bias": noEnd})
			if r.status != 200 || !strings.Contains(r.body, `"finish_reason":"length"`) ||
				!strings.HasSuffix(strings.TrimSpace(r.body), "data: [DONE]") {
				t.Errorf("a stream got %d %s", r.status, r.body[max(0, len(r.body)-400):])
			}
		})
	}
	await(t, "streams run", func() bool {
		const size = "tgi_batch_current_size"
		return counter(t, f.replicas[0], size)+counter(t, f.replicas[1], size) > 0
	})
	f.replicas[0].Stop(t) // and waits until it has ended
	long.Wait()
	mu.Lock()
	so := served
	mu.Unlock()
	await(t, "the other replica serves alone", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return served >= so+least || t.Failed()
	})
	stop()
	small.Wait()
	t.Logf("%d requests around the drain, all served", served)
}

// refusesWhenFull: a request that finds both replicas full gets 429 with the time to come back.
func (f *fleet) refusesWhenFull(t *testing.T) {
	going, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	refused := make(chan reply, 1)
	var all sync.WaitGroup
	for c := range 6 * places {
		all.Go(func() {
			for i := 0; going.Err() == nil; i++ {
				r := f.ask(going, 1000*c+i, map[string]any{"max_tokens": 700, "logit_bias": noEnd})
				switch {
				case going.Err() != nil, r.status == 200:
				case r.status == 429:
					select {
					case refused <- r:
					default:
					}
					return
				default:
					t.Errorf("a request to a full fleet got %d %s", r.status, r.body)
					return
				}
			}
		})
	}
	select {
	case r := <-refused:
		if n, err := strconv.Atoi(r.header.Get("Retry-After")); err != nil || n < 1 {
			t.Errorf("429 with Retry-After %q: %s", r.header.Get("Retry-After"), r.body)
		}
	case <-going.Done():
		t.Error("nobody was refused")
	}
	stop()
	all.Wait()
}

// outlivesAKill: no request whose reply had not begun is lost when a replica dies.
func (f *fleet) outlivesAKill(t *testing.T) {
	const clients, each = 6, 25
	var all sync.WaitGroup
	var mu sync.Mutex
	done := 0
	for c := range clients {
		all.Go(func() {
			for i := range each {
				r := f.ask(t.Context(), 1000*c+i, map[string]any{"max_tokens": 60, "logit_bias": noEnd})
				if r.status != 200 || r.text == "" {
					t.Errorf("a request around the kill got %d %s", r.status, r.body)
				}
				mu.Lock()
				done++
				mu.Unlock()
			}
		})
	}
	await(t, "a third is done", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return done >= clients*each/3
	})
	began := time.Now()
	f.replicas[0].Kill()
	all.Wait()
	t.Logf("all %d requests were served, the last %s after the kill", done, time.Since(began).Round(time.Millisecond))
	if n := counter(t, f.replicas[1], "tgi_request_success"); n < clients*each/3 {
		t.Errorf("the replica that is left served %v", n)
	}
}
