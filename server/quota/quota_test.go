package quota

import (
	"bufio"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"tgi/server/api/redislink"
)

// TestMain fails if a test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a memory's time in tests.
type clock struct{ at time.Time }

// open returns quotas of the keys a and b, in memory.
func open(t *testing.T, l Limits) (*Quotas, *clock) {
	t.Helper()
	q, err := New(map[string]Limits{"a": l}, []string{"a", "b"}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c := &clock{time.Unix(1_700_000_000, 0)}
	q.accounts["a"].stores(t).now = func() time.Time { return c.at }
	return q, c
}

// stores returns where the account's buckets are.
func (a *account) stores(t *testing.T) *memory {
	t.Helper()
	for _, b := range append(a.tokens, a.requests) {
		if b != nil {
			return b.local
		}
	}
	t.Fatal("the account has no bucket")
	return nil
}

// TestRequests: as many as a minute allows at once, then one after the other as the minute passes. Another key, and
// requests without one, are not bound by it.
func TestRequests(t *testing.T) {
	q, now := open(t, Limits{RequestsPerMinute: 6})
	for i := range 6 {
		l, err := q.Enter(t.Context(), "a", false)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		if s := l.States(); len(s) != 1 || s[0].Remaining != 5-i || s[0].Limit != 6 ||
			s[0].Reset != time.Duration(i+1)*10*time.Second {
			t.Errorf("request %d: %+v", i, s)
		}
		l.Leave()
	}
	_, err := q.Enter(t.Context(), "a", false)
	var e *Exceeded
	if !errors.As(err, &e) || !errors.Is(err, ErrExceeded) || e.Window != RequestsPerMinute || e.Used != 6 ||
		e.RetryAfter != 10*time.Second || e.Tokens() {
		t.Fatalf("the seventh: %+v", err)
	}
	for _, other := range []string{"b", ""} {
		for range 20 {
			if _, err := q.Enter(t.Context(), other, false); err != nil {
				t.Fatalf("key %q: %v", other, err)
			}
		}
	}
	now.at = now.at.Add(-time.Hour) // a clock that goes back gives nothing, and takes nothing for ever
	if _, err := q.Enter(t.Context(), "a", false); err == nil {
		t.Error("a clock that goes back gave a request")
	}
	now.at = now.at.Add(time.Hour + 20*time.Second)
	for i := range 3 {
		if _, err := q.Enter(t.Context(), "a", false); (err == nil) != (i < 2) {
			t.Errorf("20 s later, request %d: %v", i, err)
		}
	}
	u := q.Usage()
	if u[0].Requests != 20 || u[1].Requests != 11 || u[1].Refused[RequestsPerMinute] != 3 || u[2].Requests != 20 {
		t.Errorf("usage %+v", u)
	}
}

// TestConcurrent: places at the same time come back with Leave, once.
func TestConcurrent(t *testing.T) {
	q, _ := open(t, Limits{Concurrent: 2, TokensPerDay: 10})
	first, _ := q.Enter(t.Context(), "a", false)
	if _, err := q.Enter(t.Context(), "a", false); err != nil {
		t.Fatal(err)
	}
	_, err := q.Enter(t.Context(), "a", false)
	var e *Exceeded
	if !errors.As(err, &e) || e.Window != Concurrent || e.RetryAfter < time.Second {
		t.Fatalf("the third: %v", err)
	}
	if _, err := q.Enter(t.Context(), "a", true); err != nil {
		t.Errorf("a line of a batch needs no place: %v", err)
	}
	first.Leave()
	first.Leave()
	if _, err := q.Enter(t.Context(), "a", false); err != nil {
		t.Errorf("after one left: %v", err)
	}
	if _, err := q.Enter(t.Context(), "a", false); err == nil {
		t.Error("one that left twice gave two places")
	}
}

// TestRefusedUsage: requests are those that came, and refused ones are among them, whichever limit refuses them. A line
// of a batch is no request.
func TestRefusedUsage(t *testing.T) {
	for window, limits := range map[Window]Limits{
		RequestsPerMinute: {RequestsPerMinute: 2}, Concurrent: {Concurrent: 2},
		TokensPerMinute: {TokensPerMinute: 20}, TokensPerDay: {TokensPerDay: 20},
	} {
		q, err := New(map[string]Limits{"a": limits}, []string{"a"}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			l, err := q.Enter(t.Context(), "a", false)
			if err == nil {
				_, err = l.Reserve(t.Context(), 10)
			}
			if err != nil { // as the next text of the same request
				_, _ = l.Reserve(t.Context(), 10)
			}
			if (err == nil) != (i < 2) {
				t.Errorf("%s, request %d: %v", window, i, err)
			}
		}
		l, _ := q.Enter(t.Context(), "a", true)
		if _, err := l.Reserve(t.Context(), 10); (err == nil) != (window != TokensPerMinute && window != TokensPerDay) {
			t.Errorf("%s, a line: %v", window, err)
		}
		refused := uint64(3)
		if len(q.accounts["a"].tokens) > 0 {
			refused++
		}
		if u := q.Usage()[1]; u.Requests != 5 || u.Lines != 1 || u.Refused[window] != refused {
			t.Errorf("%s: %+v", window, u)
		}
	}
}

// TestTokens: what was reserved and not used is given back to both rates, what one rate refuses stays in the other.
func TestTokens(t *testing.T) {
	q, now := open(t, Limits{TokensPerMinute: 600, TokensPerDay: 1000})
	l, _ := q.Enter(t.Context(), "a", false)
	settle, err := l.Reserve(t.Context(), 500)
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Reserve(t.Context(), 200)
	var e *Exceeded
	if !errors.As(err, &e) || e.Window != TokensPerMinute || e.RetryAfter != 10*time.Second || !e.Tokens() {
		t.Fatalf("200 more: %v", err)
	}
	settle(20, 5, 30, 0)
	if _, err = l.Reserve(t.Context(), 550); err != nil {
		t.Fatalf("what was given back is not there: %v", err)
	}
	now.at = now.at.Add(time.Minute)
	if _, err = l.Reserve(t.Context(), 500); !errors.As(err, &e) || e.Window != TokensPerDay {
		t.Fatalf("beyond the day: %v", err)
	}
	if settle, err = l.Reserve(t.Context(), 100); err != nil {
		t.Fatalf("a refusal of the day's took from the minute's: %v", err)
	}
	settle(0, 0, 450, 0) // more than was reserved: it counts
	if _, err = l.Reserve(t.Context(), 100); !errors.As(err, &e) {
		t.Error("what was used beyond the reservation was not counted")
	}
	if _, err = l.Reserve(t.Context(), 601); !errors.As(err, &e) || e.RetryAfter != 0 {
		t.Errorf("more than there ever is: %v", err)
	}
	if u := q.Usage()[1]; u.Prompt != 20 || u.Cached != 5 || u.Generated != 480 || u.Requests != 1 ||
		u.Refused[TokensPerMinute] != 1 || u.Refused[TokensPerDay] != 0 { // it is one request, refused once
		t.Errorf("usage %+v", u)
	}
}

// TestUnseen: tokens that were computed beside a text use up what was reserved, and the rest is owed: the key waits
// until the rate has paid for it, and what other requests give back meanwhile counts.
func TestUnseen(t *testing.T) {
	q, now := open(t, Limits{TokensPerMinute: 60})
	l, _ := q.Enter(t.Context(), "a", false)
	left := func() int { return q.accounts["a"].tokens[0].peek(t.Context()).Remaining }
	settle, err := l.Reserve(t.Context(), 20)
	if err != nil {
		t.Fatal(err)
	}
	settle(5, 0, 5, 7)
	if n := left(); n != 43 {
		t.Fatalf("%d tokens are left of 60 after 5, 5 and 7", n)
	}
	other, err := l.Reserve(t.Context(), 30)
	if err != nil {
		t.Fatal(err)
	}
	if settle, err = l.Reserve(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	settle(5, 0, 5, 150) // 3 are left
	owed := func(seconds int) {
		t.Helper()
		_, err := l.Reserve(t.Context(), 1)
		var e *Exceeded
		if !errors.As(err, &e) || e.RetryAfter != time.Duration(seconds)*time.Second || e.Used != 60 {
			t.Fatalf("want to wait %d s: %+v", seconds, err)
		}
	}
	owed(148)
	other(0, 0, 10, 0)
	owed(128)
	now.at = now.at.Add(127 * time.Second)
	owed(1)
	now.at = now.at.Add(time.Second)
	if _, err := l.Reserve(t.Context(), 1); err != nil || left() != 0 {
		t.Errorf("after the wait: %v, %d left", err, left())
	}
	if u := q.Usage()[1]; u.Unseen != 157 || u.Prompt != 10 || u.Generated != 20 {
		t.Errorf("usage %+v", u)
	}
}

// TestOwedBound: a key owes 1000 times what its rate holds, and no more, but no less either where a request used more
// than that, however many.
func TestOwedBound(t *testing.T) {
	for _, unseen := range []int{59_980, 59_981, 60_000, 70_000, 1 << 60} {
		q, _ := open(t, Limits{TokensPerMinute: 60})
		l, _ := q.Enter(t.Context(), "a", false)
		settle, err := l.Reserve(t.Context(), 60)
		if err != nil {
			t.Fatal(err)
		}
		settle(20, 0, 0, unseen)
		const want = (60_000 + 1 - 60) * time.Second // one a second
		var e *Exceeded
		if _, err := l.Reserve(t.Context(), 1); !errors.As(err, &e) || e.RetryAfter != want {
			t.Errorf("%d unseen: %+v, want to wait %v", unseen, err, want)
		}
	}
}

// TestSettleAtRandom: however requests reserve and settle, no more is used in any time than the bucket and what flows
// into it, and once all is given back the bucket is full again. On both stores.
func TestSettleAtRandom(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		limit := 50 + r.IntN(500)
		q, now := open(t, Limits{TokensPerMinute: limit})
		l, _ := q.Enter(t.Context(), "a", false)
		used, began := 0, now.at
		type held struct {
			n      int
			settle func(int, int, int, int)
		}
		var running []held
		for range 400 {
			now.at = now.at.Add(time.Duration(r.IntN(2000)) * time.Millisecond)
			n := 1 + r.IntN(limit)
			if settle, err := l.Reserve(t.Context(), n); err == nil {
				running = append(running, held{n, settle})
			}
			if len(running) > 0 && r.IntN(2) == 0 {
				i := r.IntN(len(running))
				real := r.IntN(running[i].n + 1)
				running[i].settle(real, 0, 0, 0)
				used += real
				running = append(running[:i], running[i+1:]...)
			}
			if most := float64(limit) * (1 + now.at.Sub(began).Minutes()); float64(used) > most+1 {
				t.Fatalf("seed %d: %d tokens used, at most %v were there", seed, used, most)
			}
		}
		for _, h := range running {
			h.settle(0, 0, 0, 0)
		}
		now.at = now.at.Add(time.Minute)
		if s := q.accounts["a"].tokens[0].peek(t.Context()); s.Remaining != limit {
			t.Fatalf("seed %d: %d of %d tokens are left when all is over", seed, s.Remaining, limit)
		}
	}
}

// TestTogether: however many ask at once, no more get in than there is room for.
func TestTogether(t *testing.T) {
	q, _ := open(t, Limits{RequestsPerMinute: 50, Concurrent: 40})
	var in, refused, wait sync.Map
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			if _, err := q.Enter(t.Context(), "a", false); err == nil {
				in.Store(i, true)
			} else if errors.Is(err, ErrExceeded) {
				refused.Store(i, true)
			} else {
				wait.Store(i, err)
			}
		})
	}
	all.Wait()
	if a, b, c := size(&in), size(&refused), size(&wait); a != 40 || b != 160 || c != 0 {
		t.Errorf("%d got in, %d were refused, %d failed", a, b, c)
	}
}

func size(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}

// startRedis runs Debian's redis-server on a socket of its own. Without the program the test is skipped.
func startRedis(t *testing.T) (url string, stop func()) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	dir, err := os.MkdirTemp("", "r") // whose path fits into the address of a socket
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(program, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir",
		dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(func() {
		stop()
		_ = os.RemoveAll(dir)
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(strings.ToLower(lines.Text()), "ready to accept connections") {
			return "unix://" + socket, stop
		}
	}
	t.Fatal("redis-server ended")
	return "", nil
}

// dial returns a client of a Redis.
func dial(t *testing.T, url string) *redis.Client {
	t.Helper()
	c, err := redislink.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestReplicas: two replicas that share a Redis share the limits of a key, give back what was not used, and each keeps
// to the limits by itself when Redis is gone.
func TestReplicas(t *testing.T) {
	url, stop := startRedis(t)
	var replicas []*Quotas
	var told strings.Builder
	for range 2 {
		q, err := New(map[string]Limits{"a": {RequestsPerMinute: 10, TokensPerMinute: 1000}}, []string{"a"},
			dial(t, url), slog.New(slog.NewTextHandler(&told, nil)))
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		replicas = append(replicas, q)
	}
	enter := func(n int) (in int) {
		for i := range n {
			if _, err := replicas[i%2].Enter(t.Context(), "a", false); err == nil {
				in++
			}
		}
		return in
	}
	if n := enter(20); n != 10 {
		t.Errorf("%d of 20 requests got in at two replicas, want 10", n)
	}
	l := &Lease{account: replicas[0].accounts["a"], states: map[Window]State{}}
	other := &Lease{account: replicas[1].accounts["a"], states: map[Window]State{}}
	settle, err := l.Reserve(t.Context(), 900)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Reserve(t.Context(), 500); !errors.Is(err, ErrExceeded) {
		t.Errorf("the other replica has tokens of its own: %v", err)
	}
	settle(10, 0, 10, 0)
	kept, err := l.Reserve(t.Context(), 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Reserve(t.Context(), 900); err != nil {
		t.Errorf("what one replica gave back is not there at the other: %v", err)
	}
	stop()
	if _, err := l.Reserve(t.Context(), 1000); err != nil {
		t.Errorf("without Redis a replica has no tokens of its own: %v", err)
	}
	kept(0, 0, 0, 0) // taken from Redis, so not to be given back to this replica's memory
	if _, err := l.Reserve(t.Context(), 30); !errors.Is(err, ErrExceeded) {
		t.Errorf("what Redis had was given back in memory: %v", err)
	}
	if n := enter(40); n != 20 {
		t.Errorf("without Redis %d of 40 requests got in at two replicas, want 10 each", n)
	}
	if n := strings.Count(told.String(), "quota.redis_url"); n != 2 {
		t.Errorf("two replicas warned %d times: %s", n, told.String())
	}
}
