package scale

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"tgi/conformance/live"
)

// redis runs the system's redis-server on loopback until the test ends, and returns its URL.
func redis(t *testing.T) string {
	t.Helper()
	port := strconv.Itoa(freePort(t))
	cmd := exec.Command("redis-server", "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no",
		"--dir", t.TempDir())
	said := &output{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	await(t, "redis-server listens", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return "redis://127.0.0.1:" + port + "/0"
}

// rate is the limit of the key "limited".
const rate = 6

// sharing are the settings of replicas that share what can be shared.
func sharing(url string) string {
	return fmt.Sprintf(`[generate_api.store]
redis_url = %[1]q
[responses]
redis_url = %[1]q
[quota]
redis_url = %[1]q
[[key]]
name = "free"
key = "free"
scopes = ["generate", "models"]
[[key]]
name = "limited"
key = "limited"
scopes = ["generate"]
requests_per_minute = %d
`, url, rate)
}

// response is what is read of one of the Responses API.
type response struct{ ID, Status string }

// as returns the headers of a key.
func as(key string) []string { return []string{"Authorization", "Bearer " + key} }

// getAs is a GET with the key "free".
func getAs(t *testing.T, url string) (int, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer free")
	r, err := client.Do(q)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(b)
}

// TestShared: replicas with one Redis behind HAProxy are one server for responses, texts to continue and limits.
func TestShared(t *testing.T) {
	enabled(t)
	f := start(t, routers[1], sharing(redis(t)))
	a, b := f.replicas[0], f.replicas[1]
	t.Run("responses", func(t *testing.T) { responses(t, a, b) })
	t.Run("background", func(t *testing.T) { background(t, a, b) })
	t.Run("texts", func(t *testing.T) { texts(t, a, b) })
	t.Run("quotas", func(t *testing.T) { f.quotas(t) })
}

// respond posts to /v1/responses and reads the reply.
func respond(t *testing.T, s *live.Server, more map[string]any) (response, string) {
	t.Helper()
	body := map[string]any{"model": "tgi-demo", "temperature": 0}
	for name, v := range more {
		body[name] = v
	}
	r := post(t.Context(), s.URL+"/v1/responses", body, as("free")...)
	var got response
	if err := json.Unmarshal([]byte(r.body), &got); r.status != 200 || err != nil || got.ID == "" {
		t.Fatalf("/v1/responses: %d %s", r.status, r.body)
	}
	return got, r.body
}

// responses: one that was made at a replica is known at the other, and goes on there.
func responses(t *testing.T, a, b *live.Server) {
	first, _ := respond(t, a, map[string]any{"input": "What is three plus four?"})
	if status, body := getAs(t, b.URL+"/v1/responses/"+first.ID); status != 200 || !strings.Contains(body, first.ID) {
		t.Errorf("at the other replica: %d %s", status, body)
	}
	_, body := respond(t, b, map[string]any{"input": "And five plus one?", "previous_response_id": first.ID})
	var usage struct {
		Usage struct {
			In int `json:"input_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(body), &usage); err != nil {
		t.Fatal(err)
	}
	_, alone := respond(t, b, map[string]any{"input": "And five plus one?"})
	short := usage.Usage.In
	if err := json.Unmarshal([]byte(alone), &usage); err != nil {
		t.Fatal(err)
	}
	if short <= usage.Usage.In {
		t.Errorf("the second turn has %d tokens with the first before it, and %d without", short, usage.Usage.In)
	}
}

// background: one that runs at a replica can be followed at the other to its end.
func background(t *testing.T, a, b *live.Server) {
	got, _ := respond(t, a, map[string]any{"input": "What is three plus four?", "background": true, "store": true})
	await(t, "the response is complete at the other replica", func() bool {
		status, body := getAs(t, b.URL+"/v1/responses/"+got.ID)
		var now response
		if err := json.Unmarshal([]byte(body), &now); status != 200 || err != nil {
			t.Fatalf("at the other replica: %d %s", status, body)
		}
		if now.Status == "failed" || now.Status == "incomplete" {
			t.Fatalf("the response is %s: %s", now.Status, body)
		}
		return now.Status == "completed"
	})
}

// texts: one that stopped at its length goes on at the other replica as it does at the same.
func texts(t *testing.T, a, b *live.Server) {
	part := func(s *live.Server, id string) string {
		r := post(t.Context(), s.URL+"/api/generate-one", map[string]any{"request_id": id, "prompt": "My name is",
			"stream_response": false, "generation_config": map[string]any{"max_new_tokens": 5, "do_sample": false}},
			as("free")...)
		if r.status != 200 {
			t.Fatalf("/api/generate-one: %d %s", r.status, r.body)
		}
		return r.body
	}
	first, there := part(a, "moves"), part(b, "moves")
	same, here := part(a, "stays"), part(a, "stays")
	if first != same || there != here || there == first {
		t.Errorf("continued at the other replica: %q then %q; at the same: %q then %q", first, there, same, here)
	}
}

// quotas: a key has its rate of the fleet, not of each replica.
func (f *fleet) quotas(t *testing.T) {
	began, served, refused := time.Now(), 0, 0
	for range 2 * rate {
		r := post(t.Context(), f.url+"/v1/completions", map[string]any{"model": "tgi-demo", "prompt": "a",
			"max_tokens": 1}, as("limited")...)
		switch {
		case r.status == 200:
			served++
		case r.status == 429 && r.header.Get("Retry-After") != "":
			refused++
		default:
			t.Fatalf("%d %s", r.status, r.body)
		}
	}
	most := rate + int(time.Since(began).Minutes()*rate) + 1
	if served < rate || served > most {
		t.Errorf("%d of %d requests were served, %d refused; want %d to %d", served, 2*rate, refused, rate, most)
	}
	all, alone := 0, 0 // what came to the replicas, and what they would have served if each had counted alone
	for _, s := range f.replicas {
		n := int(counter(t, s, `tgi_key_requests_total{key="limited"`))
		all, alone = all+n, alone+min(n, rate)
	}
	if all != 2*rate || alone <= most {
		t.Errorf("the replicas count %d requests of the key, want %d; alone they would serve %d, want more than %d",
			all, 2*rate, alone, most)
	}
}
