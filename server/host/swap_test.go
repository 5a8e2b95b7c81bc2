package host

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tgi/runtime/draft"
	"tgi/runtime/llm"
	"tgi/server/config"
)

// swappedKind is a plugin in two versions, which differ in what they call themselves and in a text that clients get.
type swappedKind struct {
	name, path string
	says       [2]string // the text, of the same length in both; empty for none
}

// swappedKinds are those that a request has at the same time.
var swappedKinds = []swappedKind{
	{"guard", "../../plugins/std/wasm/redact.wasm", [2]string{"[redacted]", "[version2]"}},
	{"program", "../../sdk/testdata/guests/c/think-then-answer.wasm", [2]string{"Time is up.", "Time is out"}},
	{"draft", "../../examples/known-phrases/c/known-phrases.wasm", [2]string{}},
}

// versions returns the modules of both versions.
func (k swappedKind) versions(t *testing.T) (out [2][]byte) {
	t.Helper()
	wasm, err := os.ReadFile(k.path)
	if err != nil {
		t.Fatal(err)
	}
	out = [2][]byte{wasm, bytes.Replace(wasm, []byte(`"version":"1.`), []byte(`"version":"2.`), 1)}
	if bytes.Equal(out[0], out[1]) {
		t.Fatalf("%s has no version that begins with 1", k.path)
	}
	if k.says[0] != "" {
		out[1] = bytes.ReplaceAll(out[1], []byte(k.says[0]), []byte(k.says[1]))
		if bytes.Contains(out[1], []byte(k.says[0])) || !bytes.Contains(out[1], []byte(k.says[1])) {
			t.Fatalf("%s does not say %q", k.path, k.says[0])
		}
	}
	return out
}

// askSwapped is a request with all three: the program lets the model think for so many tokens, then says that the time
// is up; the guard replaces a letter.
func askSwapped(seed, budget int) []byte {
	return fmt.Appendf(nil, `{"inputs":"Once upon a time","parameters":{"details":true,"max_new_tokens":%d,`+
		`"ignore_eos":true,"seed":%d,"temperature":0.8,"plugins":[{"name":"program","params":{"budget":%d,"end":"</think>"}},`+
		`{"name":"guard","params":{"strings":["a"]}},`+
		`{"name":"draft","params":{"phrases":["Once upon a time, there was"]}}]}}`,
		budget+20, seed, budget)
}

// versionsOf reads of a reply which version of each kind it had: 0 or 1. Text and receipt must say the same.
func versionsOf(reply string) (of [3]int, err error) {
	var r struct {
		Text    string `json:"generated_text"`
		Details struct {
			Receipt struct {
				Plugins []struct{ Name, Version string }
			}
		}
	}
	if err := json.Unmarshal([]byte(reply), &r); err != nil {
		return of, err
	}
	found := 0
	for _, p := range r.Details.Receipt.Plugins {
		for i, k := range swappedKinds {
			if k.name == p.Name {
				found++
				of[i] = int(p.Version[0] - '1')
			}
		}
	}
	if found != len(swappedKinds) {
		return of, fmt.Errorf("%d plugins in the receipt: %s", found, reply)
	}
	for i, k := range swappedKinds {
		if k.says[0] != "" && (!strings.Contains(r.Text, k.says[of[i]]) || strings.Contains(r.Text, k.says[1-of[i]])) {
			return of, fmt.Errorf("%s: version %d in the receipt of %q", k.name, of[i]+1, r.Text)
		}
	}
	return of, nil
}

// TestSwapGuardProgramDraft: while one goroutine puts one version of a guard, a program and a draft after the other in
// place, each of hundreds of requests with all three meets one version of each; none fails, none goes on without one,
// and nothing of them is left.
func TestSwapGuardProgramDraft(t *testing.T) {
	const requests, swaps, workers = 300, 12, 6
	p := openChat(t, func(c *config.Config) { c.Model.Speculation = allGuesses })
	var wasm [3][2][]byte
	for i, k := range swappedKinds {
		wasm[i] = k.versions(t)
		p.upload(t, k.name, wasm[i][0])
	}
	var served, swapped, across atomic.Int64
	var seen [3][2]atomic.Int64
	var all sync.WaitGroup
	all.Go(func() {
		for n := 1; n <= swaps && !t.Failed(); n++ {
			for served.Load() < int64(n*requests/(swaps+1)) && !t.Failed() {
				time.Sleep(time.Millisecond)
			}
			for i, k := range swappedKinds {
				p.upload(t, k.name, wasm[i][n%2])
			}
			swapped.Add(1)
		}
	})
	for w := range workers {
		all.Go(func() {
			for n := 0; swapped.Load() < swaps || served.Load() < requests; n++ {
				began := swapped.Load()
				status, reply := p.call(t, http.MethodPost, "/generate", askSwapped(1+w+n*workers, 12))
				of, err := versionsOf(reply)
				if err != nil || status != http.StatusOK {
					t.Errorf("%d %v", status, err)
				}
				if t.Failed() {
					return
				}
				for i := range of {
					seen[i][of[i]].Add(1)
				}
				served.Add(1)
				across.Add(min(1, swapped.Load()-began))
			}
		})
	}
	all.Wait()
	t.Logf("%d requests, %d swaps, %d requests across one", served.Load(), swapped.Load(), across.Load())
	for i, k := range swappedKinds {
		if seen[i][0].Load() == 0 || seen[i][1].Load() == 0 || across.Load() == 0 {
			t.Errorf("%s: %d and %d requests saw the versions, %d lasted from one to the other", k.name,
				seen[i][0].Load(), seen[i][1].Load(), across.Load())
		}
		s, _ := p.defaultModel().control.set.Get(k.name)
		faults := uint64(0)
		for _, n := range s.Stats.Faults {
			faults += n
		}
		if faults != 0 || s.Stats.Skips != 0 || s.Stats.Loads != uint64(swapped.Load()+1) {
			t.Errorf("%s: %+v", k.name, s.Stats)
		}
	}
	p.settled(t)
	p.quiet(t)
}

// pause stops a sequence, and with it all steps, once it has so many tokens.
type pause struct {
	at            int
	reached, goOn chan struct{}
	once          sync.Once
}

// Draft implements draft.Drafter. It guesses nothing.
func (d *pause) Draft(h llm.History, _, _ []llm.Token) int {
	if len(h.Output) >= d.at {
		d.once.Do(func() {
			close(d.reached)
			<-d.goOn
		})
	}
	return 0
}

// TestRunningRequestKeepsItsVersions: guard, program and draft are replaced in the middle of a text, which ends with
// those that it began with; one that is asked for behind the swap has the new ones, though the other still runs.
func TestRunningRequestKeepsItsVersions(t *testing.T) {
	p := openChat(t, func(c *config.Config) { c.Model.Speculation = allGuesses })
	stop := &pause{at: 20, reached: make(chan struct{}), goOn: make(chan struct{})}
	var began atomic.Int64
	draftBy(t, p, func() draft.Drafter {
		if began.Add(1) > 1 {
			return nil
		}
		return stop // the first run of the first program
	})
	var wasm [3][2][]byte
	for i, k := range swappedKinds {
		wasm[i] = k.versions(t)
		p.upload(t, k.name, wasm[i][0])
	}
	replies := make([]string, 2)
	var all sync.WaitGroup
	ended, goOn := make(chan struct{}), sync.OnceFunc(func() { close(stop.goOn) })
	defer goOn() // the server closes when no step waits
	all.Go(func() {
		defer close(ended)
		_, replies[0] = p.call(t, http.MethodPost, "/generate", askSwapped(1, 40))
	})
	select {
	case <-stop.reached:
	case <-ended:
		t.Fatalf("the first request ends before its token %d: %s", stop.at, replies[0])
	case <-time.After(time.Minute):
		t.Fatalf("the first request does not come to its token %d", stop.at)
	}
	for i, k := range swappedKinds {
		p.upload(t, k.name, wasm[i][1])
	}
	all.Go(func() { _, replies[1] = p.call(t, http.MethodPost, "/generate", askSwapped(1, 40)) })
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		s, _ := p.defaultModel().control.set.Get("program")
		if s.Stats.InstancesOut == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Error("the second program does not begin while the first runs")
			break
		}
	}
	goOn()
	all.Wait()
	for i, reply := range replies {
		of, err := versionsOf(reply)
		if err != nil || of != [3]int{i, i, i} {
			t.Errorf("request %d has versions %v, %v: %s", i, of, err, reply)
		}
	}
	p.settled(t)
	p.quiet(t)
}
