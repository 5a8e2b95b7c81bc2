// Package load holds the server to what it owes a crowd: every request one
// end, and nothing left over once all are gone.
package load

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/conformance/live"
	"tgi/conformance/long"
)

// settings make the cache small, so that sequences wait and step back, and all
// of it is in use before memory is measured.
const settings = `
[limits]
max_batch_total_tokens = 8192
`

// clients is how many send requests at the same time.
const clients = 200

// TestLoad lets 200 clients send requests, a fifth of which they leave and a
// tenth of which are broken: ten seconds, or two minutes under make soak.
func TestLoad(t *testing.T) {
	long.Test(t)
	duration := 10 * time.Second
	if long.Soak() {
		duration = 2 * time.Minute
	}
	quiet := live.Start(t, settings)
	crowd(t, quiet, 200*time.Millisecond, 1)
	fresh := remains(t, quiet)

	s := live.Start(t, settings)
	total := &tally{by: map[outcome]int{}}
	var memory []int
	for round := range 4 { // the first two fill the cache and whatever else is kept
		total.add(crowd(t, s, duration/4, uint64(round)))
		idle(t, s)
		memory = append(memory, kilobytes(t, s))
	}
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("outcomes %v, memory in KiB after each round %v", total.by, memory)
	account(t, s, total)
	// The server's memory moves up and down with what it was last asked; more
	// than a quarter is more than that.
	if first, last := memory[1], memory[len(memory)-1]; last > first+first/4 {
		t.Errorf("memory grew from %d to %d KiB: %v", first, last, memory)
	}
	for what, n := range remains(t, s) {
		if n > fresh[what] {
			t.Errorf("%d left over of %s; a server that had a few requests has %d", n, what, fresh[what])
		}
	}
}

// crowd lets the clients send requests for a while, and waits for the last reply.
func crowd(t *testing.T, s *live.Server, d time.Duration, seed uint64) *tally {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	tallies := make([]*tally, clients)
	var wg sync.WaitGroup
	for i := range tallies {
		wg.Go(func() {
			tallies[i] = client(ctx, &http.Client{Transport: transport, Timeout: time.Minute}, s.URL,
				rand.New(rand.NewPCG(seed, uint64(i))))
		})
	}
	wg.Wait()
	sum := &tally{by: map[outcome]int{}}
	for _, one := range tallies {
		sum.add(one)
	}
	for _, wrong := range sum.wrong[:min(5, len(sum.wrong))] {
		t.Error(wrong)
	}
	return sum
}

// until waits for what the server does after its clients have gone; the minute
// is for a server that never does it.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("a minute after the clients have gone: %s", what)
		}
	}
}

// idle waits until the server has nothing to do and holds nothing.
func idle(t *testing.T, s *live.Server) {
	t.Helper()
	for _, name := range []string{"tgi_batch_current_size", "tgi_queue_size", "tgi_kv_blocks_used"} {
		until(t, name+" is not 0", func() bool { return s.Metrics(t)[name] == 0 })
	}
	until(t, "requests have no end", func() bool {
		m := s.Metrics(t)
		return m["tgi_request_count"] == m["tgi_request_success"]+m.Sum("tgi_request_failure")
	})
}

// account holds the server's figures against what the clients saw. What became
// of a request that was left is the server's word alone, but for its number.
func account(t *testing.T, s *live.Server, saw *tally) {
	t.Helper()
	m := s.Metrics(t)
	failure := func(label string) int { return int(m[fmt.Sprintf("tgi_request_failure{err=%q}", label)]) }
	count, success := int(m["tgi_request_count"]), int(m["tgi_request_success"])
	known := saw.by[done] + saw.by[invalid] + saw.by[crowded] + saw.by[leftLater]
	if count < known || count > known+saw.by[left] {
		t.Errorf("tgi_request_count is %d; the clients know of %d and left %d early", count, known, saw.by[left])
	}
	if got := failure("validation"); got != saw.by[invalid] {
		t.Errorf("%d requests failed by validation; the clients saw %d", got, saw.by[invalid])
	}
	gone := saw.by[left] + saw.by[leftLater]
	for _, c := range []struct {
		name      string
		got, seen int
	}{{"succeeded", success, saw.by[done]}, {"met overload", failure("overloaded"), saw.by[crowded]},
		{"were dropped", failure("dropped"), 0}} {
		if c.got < c.seen || c.got > c.seen+gone {
			t.Errorf("%d requests %s; the clients saw %d and left %d", c.got, c.name, c.seen, gone)
		}
	}
	if sum := success + failure("validation") + failure("overloaded") + failure("dropped"); sum != count {
		t.Errorf("%d of %d requests failed for another reason: %v", count-sum, count, failures(m))
	}
	for what, n := range map[string]int{"complete replies": saw.by[done], "refusals": saw.by[invalid],
		"unreadable bodies": saw.by[refused], "clients that left": gone} {
		if n == 0 {
			t.Errorf("the load had no %s", what)
		}
	}
}

func failures(m live.Metrics) live.Metrics {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(k string, _ float64) bool { return !strings.HasPrefix(k, "tgi_request_failure") })
	return m
}

// kilobytes is the memory that the server's process holds.
func kilobytes(t *testing.T, s *live.Server) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
	if err != nil {
		t.Skipf("this system does not tell a process's memory: %v", err)
	}
	n, err := strconv.Atoi(string(regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(b)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// descriptors counts the files and connections that the server has open.
func descriptors(t *testing.T, s *live.Server) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.PID()))
	if err != nil {
		t.Skipf("this system does not tell a process's files: %v", err)
	}
	return len(entries)
}

// remains ends the server, whose clients have gone, and counts its goroutines
// by what started them.
func remains(t *testing.T, s *live.Server) map[string]int {
	t.Helper()
	http.DefaultClient.CloseIdleConnections() // of Metrics
	last, since := descriptors(t, s), time.Now()
	until(t, "connections are still being closed", func() bool {
		if n := descriptors(t, s); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > 200*time.Millisecond
	})
	counts := map[string]int{"open files": last}
	starter := regexp.MustCompile(`(?m)^created by (\S+)`)
	for _, stack := range s.Goroutines(t) {
		by := "the program's start"
		if m := starter.FindStringSubmatch(stack); m != nil {
			by = m[1]
		}
		counts["goroutines started by "+by]++
	}
	return counts
}
