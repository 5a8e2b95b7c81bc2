package load

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tgi/conformance/live"
	"tgi/conformance/long"
)

// flooded are the settings of a server that lets one key have a thousand requests in it.
const flooded = `
[limits]
max_concurrent_requests = 1200
max_batch_size = 8

[[key]]
name = "one"
key = "one"
scopes = ["generate"]
[[key]]
name = "two"
key = "two"
scopes = ["generate"]
[[key]]
name = "clock"
key = "clock"
scopes = ["generate"]
[[key]]
name = "flood"
key = "flood"
scopes = ["generate"]
`

// floodSize is how many requests the key flood keeps in the server.
const floodSize = 1000

// onTheWay is how many steps may pass while a request and its first token go through HTTP on a machine that does much
// else: so many decide nothing. Whoever waits for the flood waits for thousands.
const onTheWay = 40

// wait is what a polite client's request waited for its first token: time, and steps of the engine.
type wait struct {
	time  time.Duration
	steps int64
}

// TestFloodOverHTTP: beside a key with a thousand requests two other keys get their first tokens after at most twice as
// many steps of the engine as without it, or onTheWay where that is more, in the median and the 99th percentile. A
// third key has a stream that gets a token in each step, and so counts them. The times are printed, measured in turns
// with and without the flood.
func TestFloodOverHTTP(t *testing.T) {
	long.Test(t)
	s := live.Start(t, flooded)
	transport := &http.Transport{MaxIdleConnsPerHost: floodSize}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport}
	clock := startClock(t, c, s.URL)
	defer clock.stop()
	const rounds = 3
	var alone, beside [][]wait
	for round := range rounds {
		alone = append(alone, politeWaits(t, c, s.URL, clock, uint64(round)))
		stop := startFlood(t, c, s)
		beside = append(beside, politeWaits(t, c, s.URL, clock, uint64(round)))
		stop()
		until(t, "the flood is still there", func() bool { return s.Metrics(t)["tgi_batch_current_size"] <= 1 })
	}
	steps := func(w wait) int64 { return w.steps }
	times := func(w wait) int64 { return int64(w.time) }
	for _, what := range []struct {
		name  string
		share float64
	}{{"median", 0.5}, {"99th percentile", 0.99}} {
		p, q := middle(alone, steps, what.share), middle(beside, steps, what.share)
		x, y := middle(alone, times, what.share), middle(beside, times, what.share)
		t.Logf("first tokens, %s: %d steps beside a flood, %d without; %s and %s, %.2f times", what.name, q, p,
			time.Duration(y), time.Duration(x), float64(y)/float64(x))
		if q > max(2*p, onTheWay) {
			t.Errorf("%s: %d steps beside a flood, %d without", what.name, q, p)
		}
	}
}

// middle returns the median of the rounds' percentiles.
func middle(rounds [][]wait, of func(wait) int64, share float64) int64 {
	var all []int64
	for _, round := range rounds {
		var one []int64
		for _, w := range round {
			one = append(one, of(w))
		}
		slices.Sort(one)
		all = append(all, one[int(float64(len(one)-1)*share)])
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// streamAs posts a request of a key whose reply is a stream, and calls event for each of its events until that is
// false.
func streamAs(ctx context.Context, c *http.Client, url, key, body string, event func() bool) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/generate_stream", strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	res, err := c.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		return fmt.Errorf("key %s: %s %s", key, res.Status, text)
	}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if !ok {
			continue
		}
		var is struct{ Error string }
		if err := json.Unmarshal([]byte(data), &is); err != nil {
			return fmt.Errorf("key %s: %w: %s", key, err, data)
		}
		if is.Error != "" {
			return fmt.Errorf("key %s: %s", key, is.Error)
		}
		if !event() {
			return nil
		}
	}
	return lines.Err()
}

// clock counts the tokens of a stream that gets one in each step.
type clock struct {
	steps atomic.Int64
	stop  func()
}

func startClock(t *testing.T, c *http.Client, url string) *clock {
	ctx, cancel := context.WithCancel(t.Context())
	k := &clock{}
	var over sync.WaitGroup
	k.stop = func() { cancel(); over.Wait() }
	over.Go(func() {
		for ctx.Err() == nil {
			err := streamAs(ctx, c, url, "clock", `{"inputs":"Once","parameters":{"max_new_tokens":900,`+
				`"ignore_eos":true}}`, func() bool { k.steps.Add(1); return true })
			if err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	})
	return k
}

// politeWaits lets two keys ask one question after the other, and returns what each waited.
func politeWaits(t *testing.T, c *http.Client, url string, clock *clock, seed uint64) []wait {
	t.Helper()
	const questions = 50
	waits := make([][]wait, 2)
	var all sync.WaitGroup
	for i, key := range []string{"one", "two"} {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		all.Go(func() {
			for range questions {
				time.Sleep(time.Duration(random.IntN(int(20 * time.Millisecond))))
				body := fmt.Sprintf(`{"inputs":"Number %d is","parameters":{"max_new_tokens":8,"ignore_eos":true}}`,
					random.IntN(1000))
				began, before, first := time.Now(), clock.steps.Load(), true
				err := streamAs(t.Context(), c, url, key, body, func() bool {
					if first {
						first = false
						waits[i] = append(waits[i], wait{time.Since(began), clock.steps.Load() - before})
					}
					return true
				})
				if err == nil && first {
					err = fmt.Errorf("key %s: no token came", key)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return slices.Concat(waits...)
}

// startFlood keeps floodSize requests of the key flood in the server until stop is called, which waits for their end.
func startFlood(t *testing.T, c *http.Client, s *live.Server) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range floodSize {
		random := rand.New(rand.NewPCG(7, uint64(i)))
		all.Go(func() {
			for ctx.Err() == nil {
				body := fmt.Sprintf(`{"inputs":"Once upon a time there was %d","parameters":{"max_new_tokens":%d,`+
					`"ignore_eos":true}}`, random.IntN(1000), 1+random.IntN(60))
				r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/generate", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Authorization", "Bearer flood")
				res, err := c.Do(r)
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				text, _ := io.ReadAll(res.Body)
				res.Body.Close()
				if res.StatusCode != http.StatusOK && ctx.Err() == nil {
					t.Errorf("flood: %s %s", res.Status, text)
					return
				}
			}
		})
	}
	until(t, "the flood does not fill the queue", func() bool {
		return s.Metrics(t)["tgi_queue_size"] > floodSize*9/10
	})
	return func() { cancel(); all.Wait() }
}
