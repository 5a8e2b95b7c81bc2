package host

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/server/api/admin"
	"tgi/server/config"
)

// canaryShown is what the admin route tells of a canary.
func (p *plugged) canaryShown(t testing.TB, name string) (c admin.Canary) {
	t.Helper()
	status, text := p.call(t, http.MethodGet, "/admin/plugins/"+name+"/canary", nil)
	if status != http.StatusOK || json.Unmarshal([]byte(text), &c) != nil {
		t.Fatal(status, text)
	}
	return c
}

// tried puts a module on trial.
func (p *plugged) tried(t testing.TB, name, query string, wasm []byte) {
	t.Helper()
	if status, text := p.call(t, http.MethodPut, "/admin/plugins/"+name+"?"+query, wasm); status != http.StatusCreated {
		t.Fatal(name, status, text)
	}
}

// TestShadowIsUnseen: with shadows of every example of the SDKs, good and hostile ones, replies have the same bytes as
// without, greedy and drawn, with guesses, rewinds, grammars by steps and several requests at a time; and a shadow that
// is the serving version answers all as that does.
func TestShadowIsUnseen(t *testing.T) {
	plain, guesses := guessing(t)
	list := everyKind(2)
	for _, x := range keptExamples {
		for _, name := range x.names {
			guesses.tried(t, x.language+"-"+name, "canary=100&canary_shadow&canary_faults=1000",
				sdkGuest(t, x.language, name))
		}
	}
	guard := `,"plugins":[{"name":"banned-strings","params":{"strings":["red","the"]}},` +
		`{"name":"c-banned-and-boost","params":{"ban":[300,301],"boost":{"#200":3,"#201":-2}}}]`
	for seed := range 3 {
		list = append(list, asked{fmt.Sprint("rewinds, seed ", seed), "/generate", fmt.Sprintf(
			`{"inputs":%q,"parameters":{"details":true,"max_new_tokens":24,"seed":%d,"temperature":0.9%s}}`, redHat,
			seed+1, guard)})
	}
	want := make([]string, len(list))
	for i, a := range list {
		status, text := plain.call(t, http.MethodPost, a.route, []byte(a.body))
		if status != http.StatusOK {
			t.Fatalf("%s: %d %s", a.name, status, text)
		}
		want[i] = steady(text)
	}
	next := make(chan int)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range next {
				a := list[i]
				if _, got := guesses.call(t, http.MethodPost, a.route, []byte(a.body)); steady(got) != want[i] {
					t.Errorf("%s: got %s\nwant %s", a.name, got, want[i])
				}
			}
		})
	}
	for i := range list {
		next <- i
	}
	close(next)
	wg.Wait()
	var shadows []admin.Canary
	eventually(t, "all requests are compared or dropped", func() bool {
		shadows = guesses.models.Canaries()
		return !slices.ContainsFunc(shadows, func(c admin.Canary) bool {
			return c.Finished+c.Faulty+c.Compared.Dropped < c.Bound
		})
	})
	answers, bound, dropped := uint64(0), uint64(0), uint64(0)
	for _, c := range shadows {
		answers, bound, dropped = answers+c.Compared.Answers, bound+c.Bound, dropped+c.Compared.Dropped
		if c.Faulty+c.Compared.DifferentAnswers != 0 {
			t.Errorf("%+v", c)
		}
	}
	if answers < 100 || 4*dropped > bound {
		t.Errorf("%d answers were compared, and %d of %d requests dropped", answers, dropped, bound)
	}
}

// eventually waits until what is asked holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not after a minute: ", what)
		}
	}
}

// TestPromotion: a canary and a shadow serve by themselves after enough good requests, and end where there are too many
// faults or differences; what was decided is shown until the next.
func TestPromotion(t *testing.T) {
	p := openPlugged(t, nil)
	module := func(version string, body ...byte) []byte {
		m := when(body)
		m.description = strings.Replace(m.description, `"version":"1"`, fmt.Sprintf(`"version":%q`, version), 1)
		return m.wasm()
	}
	p.upload(t, "mine", module("one", 0x01))
	generate := func(n int, params string) {
		t.Helper()
		for range n {
			p.call(t, http.MethodPost, "/generate", fmt.Appendf(nil,
				`{"inputs":"Once","parameters":{"max_new_tokens":2,"plugins":[{"name":"mine","params":%s}]}}`, params))
		}
	}
	becomes := func(state, says string) admin.Canary {
		t.Helper()
		var c admin.Canary
		eventually(t, state+" "+says, func() bool {
			c = p.canaryShown(t, "mine")
			return c.State == state && strings.Contains(c.Why, says)
		})
		return c
	}
	serves := func(version string) {
		t.Helper()
		if _, text := p.call(t, http.MethodGet, "/admin/plugins/mine", nil); !strings.Contains(text,
			fmt.Sprintf(`"version":%q`, version)) {
			t.Errorf("%s serves, want %s", text, version)
		}
	}
	p.tried(t, "mine", "canary=100&promote_after=3", module("two", 0x01, 0x01))
	generate(2, "{}")
	if c := p.canaryShown(t, "mine"); c.State != admin.CanaryRuns || c.PromoteAfter != 3 || c.Finished != 2 {
		t.Errorf("%+v", c)
	}
	generate(1, "{}")
	if c := becomes(admin.CanaryPromoted, "after 3 requests, of which 0 were faulty"); c.Canary.Version != "two" {
		t.Errorf("%+v", c)
	}
	serves("two")
	p.tried(t, "mine", "canary=100&canary_shadow&promote_after=3", module("three", 0x01, 0x01, 0x01))
	generate(4, `{"a":1}`)
	becomes(admin.CanaryPromoted, "0 were faulty and 0 were answered differently")
	serves("three")
	p.tried(t, "mine", "canary=100&canary_shadow&promote_after=3&canary_faults=2", module("bad", unreached))
	generate(3, `{"a":1}`)
	becomes(admin.CanaryAborted, "2 requests were faulty")
	serves("three")
	if status, text := p.call(t, http.MethodPost, "/admin/plugins/mine/canary/promote", nil); status != 422 ||
		!strings.Contains(text, "the canary of mine was aborted and has ended: 2 requests were faulty") {
		t.Error("what was ended is promoted:", status, text)
	}
	if status, _ := p.call(t, http.MethodDelete, "/admin/plugins/mine/canary", nil); status != 204 {
		t.Error(status)
	}
	if status, _ := p.call(t, http.MethodGet, "/admin/plugins/mine/canary", nil); status != 404 {
		t.Error("what was dismissed is shown:", status)
	}
	p.tried(t, "mine", "canary=100&promote_after=1&promote_time=1h", module("later", 0x01))
	generate(2, "{}")
	if c := p.canaryShown(t, "mine"); c.State != admin.CanaryRuns ||
		!c.PromoteNotBefore.After(c.Began.Add(59*time.Minute)) {
		t.Errorf("before its time: %+v", c)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	due := p.models.canaries["mine"]
	due.least = 0
	for range 50 { // the server closes when it is due: sometimes before, sometimes while it is promoted
		p.models.decide(ended, "mine", due)
	}
	if c := p.canaryShown(t, "mine"); c.State != admin.CanaryRuns {
		t.Errorf("ended while it was promoted: %+v", c)
	}
}

// TestCanaryRaces: trials, promotions, ends, uploads, rollbacks, removals and reloads at the same time fail no request,
// leave one version that serves, and a canary that is of it or none.
func TestCanaryRaces(t *testing.T) {
	p := openPlugged(t, func(c *config.Config) { c.Plugins.Uploads = t.TempDir() })
	one, two := when([]byte{0x01}).wasm(), when([]byte{0x01, 0x01}).wasm()
	p.upload(t, "mine", one)
	stop := make(chan struct{})
	var asking, changing sync.WaitGroup
	for range 2 {
		asking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if status, text := p.generate(t, 2, "mine", "{}"); status != 200 {
					t.Error(status, text)
				}
			}
		})
	}
	for i, do := range []func(n int) (int, string){
		func(n int) (int, string) {
			return p.call(t, http.MethodPut, fmt.Sprintf("/admin/plugins/mine?canary=%d&promote_after=2", 50+n), two)
		},
		func(n int) (int, string) {
			return p.call(t, http.MethodPut, "/admin/plugins/mine?canary=100&canary_shadow&promote_after=1", two)
		},
		func(int) (int, string) { return p.call(t, http.MethodPost, "/admin/plugins/mine/canary/promote", nil) },
		func(int) (int, string) { return p.call(t, http.MethodDelete, "/admin/plugins/mine/canary", nil) },
		func(int) (int, string) { return p.call(t, http.MethodPut, "/admin/plugins/mine", one) },
		func(int) (int, string) { return p.call(t, http.MethodPost, "/admin/plugins/mine/rollback", nil) },
		func(int) (int, string) { return p.call(t, http.MethodPost, "/admin/reload", nil) },
	} {
		changing.Go(func() {
			for n := range 4 {
				if status, text := do(n); status >= 500 {
					t.Error(i, status, text)
				}
			}
		})
	}
	changing.Wait()
	close(stop)
	asking.Wait()
	if status, text := p.generate(t, 2, "mine", "{}"); status != 200 {
		t.Error(status, text)
	}
	if status, text := p.call(t, http.MethodDelete, "/admin/plugins/mine", nil); status != 204 {
		t.Error(status, text)
	}
	if list := p.models.Canaries(); len(list) > 0 {
		t.Errorf("%+v", list)
	}
}
