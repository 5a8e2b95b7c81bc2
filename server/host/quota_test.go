package host

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tgi/server/config"
)

// keyed posts a body with a key and returns the reply, whose body is read.
func keyed(t testing.TB, url, path, key, body string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body == "" {
		r.Method = http.MethodGet
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

// TestQuotasOverHTTP: headers, refusals in the shape of each API, what is given back, usage and metrics.
func TestQuotasOverHTTP(t *testing.T) {
	c := testConfig()
	generate := []string{config.ScopeGenerate}
	c.Key = []config.Key{
		{Name: "few", Key: "few", Scopes: generate, RequestsPerMinute: 3},
		{Name: "short", Key: "short", Scopes: generate, TokensPerMinute: 100, TokensPerDay: 2000},
		{Name: "free", Key: "free", Scopes: generate},
	}
	c.Server.AdminKeys = []string{"admin"}
	ts := httptest.NewServer(openServer(t, c))
	defer ts.Close()
	body := func(max int) string {
		return fmt.Sprintf(`{"model":"tgi","prompt":"Once upon a time","max_tokens":%d,"ignore_eos":true}`, max)
	}
	for i := range 3 {
		res, text := keyed(t, ts.URL, "/v1/completions", "few", body(2))
		h := res.Header
		if res.StatusCode != 200 || h.Get("x-ratelimit-limit-requests") != "3" ||
			h.Get("x-ratelimit-remaining-requests") != fmt.Sprint(2-i) || h.Get("x-ratelimit-limit-tokens") != "" {
			t.Fatalf("request %d: %d %v %s", i, res.StatusCode, h, text)
		}
		if d, err := time.ParseDuration(h.Get("x-ratelimit-reset-requests")); err != nil || d <= 0 || d > time.Minute {
			t.Errorf("request %d: reset %v %v", i, d, err)
		}
	}
	for path, want := range map[string]string{
		"/v1/completions": `{"error":{"message":"rate limit of this key reached: requests_per_minute is 3, used 3, ` +
			`requested 1; try again in 20s","type":"requests","param":null,"code":"rate_limit_exceeded"},"error_type":"rate_limited"}`,
		"/generate": `{"error":"rate limit of this key reached: requests_per_minute is 3, used 3, requested 1; ` +
			`try again in 20s","error_type":"rate_limited"}`,
	} {
		res, text := keyed(t, ts.URL, path, "few", `{"prompt":"a","inputs":"a"}`)
		if res.StatusCode != 429 || text != want || res.Header.Get("Retry-After") != "20" ||
			res.Header.Get("x-ratelimit-remaining-requests") != "0" {
			t.Errorf("%s: %d %v %s", path, res.StatusCode, res.Header, text)
		}
	}
	res, text := keyed(t, ts.URL, "/v1/messages", "few", `{"model":"tgi","max_tokens":3,"messages":[]}`)
	if res.StatusCode != 429 || !strings.Contains(text, `"type":"rate_limit_error"`) ||
		res.Header.Get("anthropic-ratelimit-requests-limit") != "3" || res.Header.Get("retry-after") == "" ||
		res.Header.Get("x-ratelimit-limit-requests") != "" {
		t.Errorf("messages: %d %v %s", res.StatusCode, res.Header, text)
	}
	if at, err := time.Parse(time.RFC3339, res.Header.Get("anthropic-ratelimit-requests-reset")); err != nil ||
		time.Until(at) > time.Minute {
		t.Errorf("messages: reset %v %v", at, err)
	}
	checkTokens(t, ts.URL, body)
	checkUsage(t, ts.URL)
}

// checkTokens holds the key short to its 100 tokens a minute.
func checkTokens(t *testing.T, url string, body func(int) string) {
	for i := range 4 { // which reserve 52 each and use few
		res, text := keyed(t, url, "/v1/completions", "short",
			strings.Replace(body(48), `,"ignore_eos":true`, `,"stop":" "`, 1))
		if res.StatusCode != 200 || res.Header.Get("x-ratelimit-limit-tokens") != "100" {
			t.Fatalf("request %d: %d %v %s", i, res.StatusCode, res.Header, text)
		}
	}
	if res, text := keyed(t, url, "/v1/completions", "short", body(99)); res.StatusCode != 429 ||
		!strings.Contains(text, `"type":"tokens"`) || res.Header.Get("Retry-After") != "" ||
		!strings.Contains(text, "request too large for this key: tokens_per_minute is 100, requested 1") {
		t.Errorf("more than there ever is: %d %v %s", res.StatusCode, res.Header, text)
	}
	refused := false
	for range 10 {
		res, text := keyed(t, url, "/v1/completions", "short", body(30))
		if refused = res.StatusCode == 429; refused {
			if res.Header.Get("Retry-After") == "" || !strings.Contains(text, `"code":"rate_limit_exceeded"`) {
				t.Errorf("refused with %v %s", res.Header, text)
			}
			break
		}
	}
	if !refused {
		t.Error("300 tokens were not too many for 100 a minute")
	}
}

// checkUsage reads what the keys have used.
func checkUsage(t *testing.T, url string) {
	_, text := keyed(t, url, "/admin/usage", "admin", "")
	var got struct {
		Since time.Time
		Keys  []struct {
			Key              *string
			Requests         int
			Prompt_tokens    int //nolint:revive // the field's name
			Generated_tokens int //nolint:revive // the field's name
			Refused          map[string]int
			Limits           map[string]map[string]float64
		}
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || len(got.Keys) != 5 {
		t.Fatalf("usage: %v %s", err, text)
	}
	few, short := got.Keys[1], got.Keys[2]
	if got.Keys[0].Key != nil || *few.Key != "few" || few.Requests != 6 || few.Generated_tokens != 6 ||
		few.Refused["requests_per_minute"] != 3 || few.Limits["requests_per_minute"]["limit"] != 3 {
		t.Errorf("few: %s", text)
	}
	if short.Limits["tokens_per_day"]["remaining"] >= 2000 || short.Refused["tokens_per_minute"] != 2 {
		t.Errorf("short: %s", text)
	}
	if res, _ := keyed(t, url, "/admin/usage", "few", ""); res.StatusCode != 403 {
		t.Errorf("usage for a user: %d", res.StatusCode)
	}
	_, metrics := keyed(t, url, "/metrics", "", "")
	for _, want := range []string{`tgi_key_requests_total{key="few"} 6`, `tgi_key_tokens_total{key="few",kind="generated"} 6`,
		`tgi_key_refused_total{key="few",limit="requests_per_minute"} 3`, `tgi_key_requests_running{key="short"} 0`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
}

// TestFloodOfAKey: three keys and a flood over HTTP. The flood is refused what is too much, none of the others'
// requests is. How long they wait is counted where it does not depend on what else this machine does: runtime/engine,
// TestFloodDelaysNoFirstToken.
func TestFloodOfAKey(t *testing.T) {
	c := testConfig()
	c.Limits.MaxTotalTokens, c.Limits.MaxBatchSize = 256, 8
	for _, name := range []string{"one", "two", "flood"} {
		c.Key = append(c.Key, config.Key{Name: name, Key: name, Scopes: []string{config.ScopeGenerate}})
	}
	ts := httptest.NewServer(openServer(t, c))
	defer ts.Close()
	stop := flood(t, ts.URL)
	defer stop()
	var all sync.WaitGroup
	for _, key := range []string{"one", "two"} {
		all.Go(func() {
			for i := range 10 {
				res, text := keyed(t, ts.URL, "/generate", key, fmt.Sprintf(
					`{"inputs":"Number %d is","parameters":{"max_new_tokens":4}}`, i))
				if res.StatusCode != 200 {
					t.Errorf("key %s: %d %s", key, res.StatusCode, text)
				}
			}
		})
	}
	all.Wait()
}

// flood keeps 150 requests of the key flood on their way until stop is called, which returns when it holds all it can.
func flood(t *testing.T, url string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var refused atomic.Int64
	full := make(chan struct{})
	for range 150 {
		all.Go(func() {
			for ctx.Err() == nil {
				r, _ := http.NewRequestWithContext(ctx, http.MethodPost, url+"/generate", strings.NewReader(
					`{"inputs":"Once upon a time there was","parameters":{"max_new_tokens":150,"ignore_eos":true}}`))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Authorization", "Bearer flood")
				res, err := http.DefaultClient.Do(r)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode == http.StatusTooManyRequests {
					if refused.Add(1) == 1 {
						close(full)
					}
					select {
					case <-time.After(20 * time.Millisecond):
					case <-ctx.Done():
					}
				}
			}
		})
	}
	<-full
	return func() { cancel(); all.Wait() }
}

// TestQuotasOfManyTexts: a call of many texts that have more tokens than its key may have now is refused as a whole, in
// the words of the limit and with the time to wait; none of them costs any.
func TestQuotasOfManyTexts(t *testing.T) {
	c := testConfig()
	c.Key = []config.Key{{Name: "short", Key: "short", Scopes: []string{config.ScopeGenerate}, TokensPerMinute: 500,
		ConcurrentRequests: 1}}
	ts := httptest.NewServer(openServer(t, c))
	defer ts.Close()
	vertex := func(n, most int) string {
		one := fmt.Sprintf(`{"inputs":"Once upon a time","parameters":{"max_new_tokens":%d}},`, most)
		return `{"instances":[` + strings.TrimSuffix(strings.Repeat(one, n), ",") + `]}`
	}
	infer := func(n, most int) string {
		in := strings.Repeat(`{"name":"a","shape":[1],"datatype":"UINT8","data":[65]},`, n)
		out := strings.Repeat(`{"name":"a"},`, n)
		return fmt.Sprintf(`{"id":"1","inputs":[%s],"parameters":{"max_new_tokens":%d},"outputs":[%s]}`,
			strings.TrimSuffix(in, ","), most, strings.TrimSuffix(out, ","))
	}
	for range 3 { // what is refused takes nothing
		res, text := keyed(t, ts.URL, "/vertex", "short", vertex(30, 50))
		if res.StatusCode != 429 || !strings.Contains(text, "tokens_per_minute is 500, requested 1500") {
			t.Fatalf("%d %s", res.StatusCode, text)
		}
	}
	if res, text := keyed(t, ts.URL, "/vertex", "short", vertex(6, 20)); res.StatusCode != 200 {
		t.Fatalf("%d %s", res.StatusCode, text)
	}
	for path, body := range map[string]string{"/vertex": vertex(8, 60),
		"/v2/models/tgi/versions/1/infer": infer(8, 60)} {
		res, text := keyed(t, ts.URL, path, "short", body)
		if res.StatusCode != 429 || !strings.Contains(text, "tokens_per_minute is 500, used") ||
			res.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %v %s", path, res.StatusCode, res.Header, text)
		}
	}
	// 8 texts of 55 tokens fit, with their prompts they do not: that is known when they begin
	if res, text := keyed(t, ts.URL, "/vertex", "short", vertex(30, 13)); res.StatusCode != 429 {
		t.Errorf("%d %s", res.StatusCode, text)
	}
}
