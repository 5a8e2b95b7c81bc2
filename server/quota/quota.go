// Package quota bounds what each key may use: requests and tokens per minute, tokens per day, requests at the same
// time. And it counts what each has used.
//
// Rates are GCRA's (the generic cell rate algorithm of ATM; package throttled): a bucket of as much as a minute, or a
// day, allows, which fills evenly. Tokens are reserved before a request runs and settled when it is over. The buckets
// are in memory, or in Redis for all replicas; while Redis does not answer, each replica keeps to the bounds by itself.
//
// Locks: account.mu and Lease.mu are leaves.
package quota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
)

// ErrExceeded: a key is beyond one of its limits; see Exceeded.
var ErrExceeded = errors.New("rate limit exceeded")

// Limits are those of a key; 0 is no limit.
type Limits struct {
	RequestsPerMinute, TokensPerMinute, TokensPerDay, Concurrent int
}

// Window is a limit by its setting's name.
type Window string

// The windows.
const (
	RequestsPerMinute Window = "requests_per_minute"
	TokensPerMinute   Window = "tokens_per_minute"
	TokensPerDay      Window = "tokens_per_day"
	Concurrent        Window = "concurrent_requests"
)

// Exceeded says which limit. It wraps ErrExceeded.
type Exceeded struct {
	// Window is the limit, Limit its value, Asked what the request would add to Used.
	Window             Window
	Limit, Used, Asked int
	// RetryAfter is when there is room; 0 where there never is.
	RetryAfter time.Duration
}

// Error is for clients.
func (e *Exceeded) Error() string {
	if e.RetryAfter == 0 {
		return fmt.Sprintf("request too large for this key: %s is %d, requested %d", e.Window, e.Limit, e.Asked)
	}
	return fmt.Sprintf("rate limit of this key reached: %s is %d, used %d, requested %d; try again in %s", e.Window,
		e.Limit, e.Used, e.Asked, e.RetryAfter)
}

// Unwrap returns ErrExceeded.
func (e *Exceeded) Unwrap() error { return ErrExceeded }

// Tokens reports whether the limit is one of tokens.
func (e *Exceeded) Tokens() bool { return e.Window == TokensPerMinute || e.Window == TokensPerDay }

// State is how much is left of a rate.
type State struct {
	Window           Window
	Limit, Remaining int
	// Reset is when all of it is there again, if nothing else is used.
	Reset time.Duration
}

// Usage is what a key has used since the server started.
type Usage struct {
	// Key is its name; empty for requests without one.
	Key string
	// Requests came, also those that were refused, and Running of them are not over; Lines are those of batches.
	Requests, Lines uint64
	Running         int
	// Prompt, Cached and Generated count tokens; Cached are among Prompt. Unseen were computed for texts that no client
	// saw.
	Prompt, Cached, Generated, Unseen uint64
	// Refused counts those of Requests and Lines that a limit refused, each once, by limit.
	Refused map[Window]uint64
	// Limits are the key's; States are its rates now, if they were asked for.
	Limits Limits
	States []State
}

// Quotas are those of all keys. It is safe for concurrent use.
type Quotas struct {
	accounts map[string]*account
	order    []string
	began    time.Time
	redis    *redis.Client
}

// account is a key's.
type account struct {
	name     string
	limits   Limits
	requests *bucket
	tokens   []*bucket // per minute, per day

	mu    sync.Mutex
	usage Usage
}

// New returns quotas of keys by name. Requests without a key are counted too, under the empty name. client, if not nil,
// is the Redis that replicas share; Close closes it.
func New(keys map[string]Limits, order []string, client *redis.Client, log *slog.Logger) (*Quotas, error) {
	q := &Quotas{accounts: map[string]*account{}, order: append([]string{""}, order...), began: time.Now(),
		redis: client}
	s := &stores{local: newMemory(), log: log}
	if client != nil {
		shared, err := goredisstore.NewCtx(client, "tgi:quota:")
		if err != nil {
			return nil, err
		}
		s.shared = shared
	}
	for _, name := range q.order {
		l := keys[name]
		a := &account{name: name, limits: l, usage: Usage{Key: name, Limits: l, Refused: map[Window]uint64{}}}
		var err error
		add := func(w Window, limit int, period time.Duration) *bucket {
			if limit == 0 || err != nil {
				return nil
			}
			var b *bucket
			b, err = newBucket(s, name, w, limit, period)
			return b
		}
		a.requests = add(RequestsPerMinute, l.RequestsPerMinute, time.Minute)
		for _, b := range []*bucket{add(TokensPerMinute, l.TokensPerMinute, time.Minute),
			add(TokensPerDay, l.TokensPerDay, day)} {
			if b != nil {
				a.tokens = append(a.tokens, b)
			}
		}
		if err != nil {
			return nil, err
		}
		q.accounts[name] = a
	}
	return q, nil
}

const day = 24 * time.Hour

// Close closes the connection to Redis.
func (q *Quotas) Close() error {
	if q.redis == nil {
		return nil
	}
	return q.redis.Close()
}

// Since is when counting began.
func (q *Quotas) Since() time.Time { return q.began }

// Usage returns what each key has used, in the order of the settings, the requests without a key first.
func (q *Quotas) Usage() (out []Usage) {
	for _, name := range q.order {
		a := q.accounts[name]
		a.mu.Lock()
		u := a.usage
		u.Refused = map[Window]uint64{}
		for w, n := range a.usage.Refused {
			u.Refused[w] = n
		}
		a.mu.Unlock()
		out = append(out, u)
	}
	return out
}

// States adds the rates now to a usage.
func (q *Quotas) States(ctx context.Context, u *Usage) {
	a := q.accounts[u.Key]
	for _, b := range append([]*bucket{a.requests}, a.tokens...) {
		if b != nil {
			u.States = append(u.States, b.peek(ctx))
		}
	}
}

// Lease is a request that was let in.
type Lease struct {
	account *account
	line    bool

	mu      sync.Mutex
	left    bool
	refused bool // and counted so
	states  map[Window]State
}

// Enter lets a request of a key in, until Leave, or fails with an *Exceeded and what is known of the rates. A line of a
// batch counts for tokens alone.
func (q *Quotas) Enter(ctx context.Context, name string, line bool) (*Lease, error) {
	a, ok := q.accounts[name]
	if !ok {
		return nil, fmt.Errorf("BUG: quota: there is no key %q", name)
	}
	l := &Lease{account: a, line: line, states: map[Window]State{}}
	if line {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.usage.Lines++
		return l, nil
	}
	if full := a.enter(); full != nil {
		l.left = true
		return l, l.refuse(full)
	}
	if a.requests == nil {
		return l, nil
	}
	st, _, refused := a.requests.take(ctx, 1)
	l.states[RequestsPerMinute] = st
	if refused != nil {
		l.Leave()
		return l, l.refuse(refused)
	}
	return l, nil
}

// busyRetry is when to ask again for a place among the requests of a key.
const busyRetry = time.Second

// enter counts a request and takes one of the places of those at the same time, or says why there is none.
func (a *account) enter() *Exceeded {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.usage.Requests++
	if most := a.limits.Concurrent; most > 0 && a.usage.Running >= most {
		return &Exceeded{Window: Concurrent, Limit: most, Used: a.usage.Running, Asked: 1, RetryAfter: busyRetry}
	}
	a.usage.Running++
	return nil
}

// leave gives the place back.
func (a *account) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.usage.Running--
}

// refuse counts the request as refused, once: others of its texts may be refused, too.
func (l *Lease) refuse(e *Exceeded) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refused {
		return e
	}
	l.refused = true
	l.account.mu.Lock()
	defer l.account.mu.Unlock()
	l.account.usage.Refused[e.Window]++
	return e
}

// Leave ends the request. It may be called more than once.
func (l *Lease) Leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.left && !l.line {
		l.account.leave()
	}
	l.left = true
}

// States returns what is known of the rates, in no order.
func (l *Lease) States() []State {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]State, 0, len(l.states))
	for _, s := range l.states {
		out = append(out, s)
	}
	return out
}

// note keeps what is left of a rate.
func (l *Lease) note(s State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.states[s.Window] = s
}

// Reserve takes n tokens from the rates of the key, or fails with an *Exceeded. settle replaces them by those that were
// used, of which cached ones count like others; it must be called once. What was computed beside them and not reserved
// is owed: the key gets nothing more until its rates have paid for it.
func (l *Lease) Reserve(ctx context.Context, n int) (settle func(prompt, cached, generated, unseen int), err error) {
	a := l.account
	from := make([]*rates, len(a.tokens))
	for i, b := range a.tokens {
		st, by, refused := b.take(ctx, n)
		l.note(st)
		if from[i] = by; refused == nil {
			continue
		}
		for k, before := range a.tokens[:i] {
			before.give(context.WithoutCancel(ctx), from[k], n)
		}
		return nil, l.refuse(refused)
	}
	return func(prompt, cached, generated, unseen int) {
		ctx := context.WithoutCancel(ctx)
		for i, b := range a.tokens {
			b.settle(ctx, from[i], n, prompt+generated, unseen)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.usage.Prompt += uint64(prompt)
		a.usage.Cached += uint64(cached)
		a.usage.Generated += uint64(generated)
		a.usage.Unseen += uint64(unseen)
	}, nil
}

// bucket is one rate of a key.
type bucket struct {
	window Window
	limit  int
	name   string
	*stores
	inMemory, inRedis *rates // the second is nil without Redis
}

// rates are two views of a bucket. Only what is there can be taken by the first; the second gives credit, so that what
// was used without asking counts too, and takes back what is given.
type rates struct{ bound, owed *throttled.GCRARateLimiterCtx }

// owedBuckets is how many times a bucket may owe what it holds, all requests together: more than most requests use, and
// so little that times do not overflow. owe takes what is left where one used more.
const owedBuckets = 1000

// attempts bound how often replicas that change a bucket at the same time try again.
const attempts = 64

func newBucket(s *stores, key string, w Window, limit int, period time.Duration) (*bucket, error) {
	b := &bucket{window: w, limit: limit, name: key + ":" + string(w), stores: s}
	open := func(in throttled.GCRAStoreCtx, tries int) (*rates, error) {
		var both [2]*throttled.GCRARateLimiterCtx
		for i, size := range []int{limit, owedBuckets * limit} {
			l, err := throttled.NewGCRARateLimiterCtx(in, throttled.RateQuota{
				MaxRate: throttled.PerDuration(limit, period), MaxBurst: size - 1})
			if err != nil {
				return nil, fmt.Errorf("quota: %s: %w", w, err)
			}
			l.SetMaxCASAttemptsLimit(tries)
			both[i] = l
		}
		return &rates{both[0], both[1]}, nil
	}
	var err error
	if b.inMemory, err = open(s.local, math.MaxInt); err != nil { // each attempt that fails is another's success
		return nil, err
	}
	if s.shared == nil {
		return b, nil
	}
	if b.inRedis, err = open(s.shared, attempts); err != nil {
		return nil, err
	}
	return b, nil
}

// rate asks for n of the bucket, in Redis if it answers, and returns who answered. With owed it gets them whether they
// are there or not.
func (b *bucket) rate(ctx context.Context, n int, owed bool) (limited bool, r throttled.RateLimitResult, by *rates) {
	view := func(of *rates) *throttled.GCRARateLimiterCtx {
		if owed {
			return of.owed
		}
		return of.bound
	}
	if b.inRedis != nil && b.answers() {
		limited, r, err := view(b.inRedis).RateLimitCtx(ctx, b.name, n)
		if err == nil {
			return limited, r, b.inRedis
		}
		if ctx.Err() == nil {
			b.lost(err)
		}
	}
	limited, r, err := view(b.inMemory).RateLimitCtx(ctx, b.name, n)
	if err != nil {
		panic("BUG: quota: memory: " + err.Error())
	}
	return limited, r, b.inMemory
}

// owe takes n, whether they are there or not; of more than a bucket may owe, what is left of that.
func (b *bucket) owe(ctx context.Context, n int) {
	n = min(n, owedBuckets*b.limit)
	for i := 0; n > 0 && i < attempts; i++ { // others may take some of what is left meanwhile
		limited, r, _ := b.rate(ctx, n, true)
		if !limited {
			return
		}
		n = min(n, r.Remaining)
	}
}

// take takes n, or says why not. by is where n can be given back.
func (b *bucket) take(ctx context.Context, n int) (s State, by *rates, refused *Exceeded) {
	if n > b.limit {
		return b.peek(ctx), nil, &Exceeded{Window: b.window, Limit: b.limit, Asked: n}
	}
	limited, r, by := b.rate(ctx, n, false)
	if !limited {
		return b.state(r), by, nil
	}
	wait := max(time.Second, (r.RetryAfter + time.Second - 1).Truncate(time.Second))
	return b.state(r), by, &Exceeded{Window: b.window, Limit: b.limit, Used: b.limit - b.state(r).Remaining, Asked: n,
		RetryAfter: wait}
}

// give gives n back where it was taken. What Redis has of them while it is away runs out by itself.
func (b *bucket) give(ctx context.Context, by *rates, n int) {
	if n == 0 || by == b.inRedis && !b.answers() {
		return
	}
	if _, _, err := by.owed.RateLimitCtx(ctx, b.name, -n); err != nil && by == b.inRedis && ctx.Err() == nil {
		b.lost(err)
	}
}

// settle replaces n by what was used. What is used beyond a reservation is taken as far as it is there, but what was
// computed beside that is owed.
func (b *bucket) settle(ctx context.Context, by *rates, n, used, unseen int) {
	if used <= n {
		reserved := min(n-used, unseen)
		b.give(ctx, by, n-used-reserved)
		b.owe(ctx, unseen-reserved)
		return
	}
	more := min(used-n, b.limit)
	if limited, r, _ := b.rate(ctx, more, false); limited {
		if rest := min(more, b.state(r).Remaining); rest > 0 {
			b.rate(ctx, rest, false)
		}
	}
	b.owe(ctx, unseen)
}

// peek returns what is left.
func (b *bucket) peek(ctx context.Context) State {
	_, r, _ := b.rate(ctx, 0, false)
	return b.state(r)
}

func (b *bucket) state(r throttled.RateLimitResult) State {
	return State{Window: b.window, Limit: b.limit, Remaining: min(max(r.Remaining, 0), b.limit),
		Reset: max(r.ResetAfter, 0)}
}
