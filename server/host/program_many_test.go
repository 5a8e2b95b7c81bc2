package host

import (
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/server/config"
)

// TestThousandPrograms: a thousand programs wait for the model at the same time, each for a run of its own. All get
// their text, an ordinary request beside them is served while they wait, and nothing is left of them.
func TestThousandPrograms(t *testing.T) {
	const n = 1000
	p := programming(t, func(c *config.Config) {
		c.Runtime.Verify = false
		c.Limits.MaxConcurrentRequests = 8*n + 64
		c.Limits.MaxBatchSize = 2
	})
	const body = `{"inputs":"Once upon a time","parameters":{"max_new_tokens":16,"seed":1%s}}`
	_, want := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil, body, ""))
	most, before, anonymous := used{}, settled(), 0
	var programs, watch sync.WaitGroup
	done := make(chan struct{})
	watch.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(200 * time.Millisecond):
				now := footprint()
				most.goroutines, most.heap = max(most.goroutines, now.goroutines), max(most.heap, now.heap)
				status, _ := os.ReadFile("/proc/self/status") // on Linux
				var kilobytes int
				_, anon, _ := strings.Cut(string(status), "RssAnon:")
				_, _ = fmt.Sscan(anon, &kilobytes)
				anonymous = max(anonymous, kilobytes)
			}
		}
	})
	began := time.Now()
	for range n {
		programs.Go(func() {
			if status, got := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil, body,
				`,"plugins":`+do("plain"))); status != http.StatusOK || got != want {
				t.Errorf("%d %s, want %s", status, got, want)
			}
		})
	}
	for p.defaultModel().engine.Stats().Waiting < n/2 && time.Since(began) < time.Minute {
		time.Sleep(10 * time.Millisecond)
	}
	waiting := p.defaultModel().engine.Stats().Waiting
	status, got := p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil, body, ""))
	if status != http.StatusOK || got != want {
		t.Errorf("beside them: %d %s", status, got)
	}
	programs.Wait()
	close(done)
	watch.Wait()
	t.Logf("%d waited; before %+v, at most %+v and %d KB anonymous, %v", waiting, before, most, anonymous,
		time.Since(began).Round(time.Millisecond))
	if waiting < n/2 {
		t.Errorf("only %d waited at the same time", waiting)
	}
	p.quiet(t)
	http.DefaultClient.CloseIdleConnections()
	if after := settled(); after.goroutines > before.goroutines+20 || after.heap > before.heap+64<<20 {
		t.Errorf("something is left: %+v, then %+v", before, after)
	}
}

// settled is the footprint after collections.
func settled() used {
	runtime.GC()
	runtime.GC()
	return footprint()
}
