package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"tgi/server/api/redislink"
)

// How long a claim lasts unless it is renewed, and how often its holder does.
const (
	claimLasts  = 15 * time.Second
	claimRenews = 5 * time.Second
)

// timeout bounds one exchange with Redis, connecting included.
const timeout = redislink.Timeout

// Scripts run as one step in Redis. KEYS are a state's and its claim's, ARGV[1]
// is what tells a claim from others.
var (
	// claimScript returns 1 and the beginning of the state, or 0.
	claimScript = redis.NewScript(`
if not redis.call('SET', KEYS[2], ARGV[1], 'NX', 'PX', ARGV[2]) then return {0, ''} end
return {1, redis.call('GETRANGE', KEYS[1], 0, ARGV[3])}`)
	renewScript = redis.NewScript(`
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[2], ARGV[2])`)
	saveScript = redis.NewScript(`
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[3], 'PX', ARGV[2])
return redis.call('DEL', KEYS[2])`)
	dropScript = redis.NewScript(`
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
return redis.call('DEL', KEYS[2])`)
	releaseScript = redis.NewScript(`
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[2])`)
)

// Redis keeps states where every replica finds them. A claim is a key of its own
// that ends by itself claimLasts after its holder died; saving and dropping
// fail with ErrLost once it has ended, so that no one writes over what another
// replica went on with.
type Redis struct {
	client *redis.Client
	limits Limits
	renews time.Duration
	giving sync.WaitGroup // claims that are given back behind their callers, and probes
}

// OpenRedis returns the store at url (redis://, rediss:// or unix://, as
// redis.ParseURL reads them). It connects when it is first used.
func OpenRedis(url string, l Limits) (*Redis, error) {
	client, err := redislink.Open(url)
	if err != nil {
		return nil, fmt.Errorf("generate_api.store.redis_url: %w", err)
	}
	return &Redis{client: client, limits: l, renews: claimRenews}, nil
}

// Probe asks Redis for a sign of life, and hands lost why there is none. It does not wait for that.
func (s *Redis) Probe(lost func(error)) {
	s.giving.Go(func() {
		if err := redislink.Ping(s.client); err != nil {
			lost(fmt.Errorf("%w: %w", ErrUnavailable, err))
		}
	})
}

// Close implements Store.
func (s *Redis) Close() error {
	s.giving.Wait() // each ends by its timeout
	return s.client.Close()
}

// Claim implements Store.
func (s *Redis) Claim(ctx context.Context, key Key) (Claim, error) {
	c := &redisClaim{store: s, token: rand.Text(), stop: make(chan struct{})}
	// Braces keep both on one node of a cluster.
	c.keys = []string{"tgi:{" + key.String() + "}:state", "tgi:{" + key.String() + "}:claim"}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	got, err := claimScript.Run(ctx, s.client, c.keys, c.token, claimLasts.Milliseconds(), s.limits.MaxState).Slice()
	if err != nil {
		c.give() // it may have been taken
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if len(got) != 2 {
		return nil, fmt.Errorf("%w: %d values from a script of two", ErrUnavailable, len(got))
	}
	if taken, ok := got[0].(int64); !ok || taken != 1 {
		return nil, ErrBusy
	}
	if text, ok := got[1].(string); ok && text != "" {
		c.state = []byte(text)
	}
	c.renewing.Go(c.renew)
	return c, nil
}

// redisClaim implements Claim.
type redisClaim struct {
	store    *Redis
	keys     []string
	token    string
	state    []byte
	stop     chan struct{}
	renewing sync.WaitGroup
}

func (c *redisClaim) State() []byte { return c.state }

// renew keeps the claim until stop is closed or the claim is lost. Where Redis
// does not answer it tries again: Save finds out whether the claim survived.
func (c *redisClaim) renew() {
	tick := time.NewTicker(c.store.renews)
	defer tick.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-tick.C:
		}
		if err := c.run(context.Background(), renewScript, claimLasts.Milliseconds()); errors.Is(err, ErrLost) {
			return
		}
	}
}

// run runs a script that returns 0 when the claim is not there any more.
func (c *redisClaim) run(ctx context.Context, script *redis.Script, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	held, err := script.Run(ctx, c.store.client, c.keys, append([]any{c.token}, args...)...).Int()
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case held == 0:
		return ErrLost
	}
	return nil
}

// end stops the renewing.
func (c *redisClaim) end() {
	close(c.stop)
	c.renewing.Wait()
}

// give gives the key back behind the caller, who cannot report an error:
// the claim ends by itself.
func (c *redisClaim) give() {
	c.store.giving.Go(func() { _ = c.run(context.Background(), releaseScript) })
}

func (c *redisClaim) Save(ctx context.Context, state []byte) error {
	c.end()
	if len(state) > c.store.limits.MaxState {
		_ = c.run(ctx, releaseScript)
		return fmt.Errorf("%w: %d bytes of at most %d", ErrTooLarge, len(state), c.store.limits.MaxState)
	}
	err := c.run(ctx, saveScript, c.store.limits.TTL.Milliseconds(), state)
	if errors.Is(err, ErrUnavailable) {
		c.give()
	}
	return err
}

func (c *redisClaim) Drop(ctx context.Context) error {
	c.end()
	err := c.run(ctx, dropScript)
	if errors.Is(err, ErrUnavailable) {
		c.give()
	}
	return err
}

func (c *redisClaim) Release() {
	c.end()
	_ = c.run(context.Background(), releaseScript) // it ends by itself where that fails
}
