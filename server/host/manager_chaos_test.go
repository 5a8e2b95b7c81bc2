package host

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"tgi/conformance/long"
	"tgi/models/library"
	"tgi/models/library/fetch/hubtest"
	"tgi/models/library/lifecycle"
	"tgi/plugins/std"
	"tgi/runtime/filestamp"
	"tgi/server/config"
)

// chaosPatience bounds each request: one that takes longer waits for something that
// does not come.
const chaosPatience = 2 * time.Minute

// chaosIDs are the models: two that are always declared, one of the folder below an id
// of another's form, one that is imported and deleted, and one that is fetched and has
// no tokenizer, so that it can never be loaded.
var chaosIDs = []string{config.DemoModel, "a", "a-b/c", "imported", "fetched"}

// disorder is a server to which several clients do what they like.
type disorder struct {
	*plugged
	t      *testing.T
	hub    *hubtest.Hub
	client *http.Client
	copy   string // a checkpoint to import
	dry    []byte // a module to upload
	quiet  map[string]string

	mu   sync.Mutex
	seen map[string]int // outcomes, by operation
}

// TestChaos: whatever several clients do to the models of a server at the same time,
// every request gets an answer out of those that are documented, replies that are
// whole are those of a quiet server, and nothing is left at the end.
func TestChaos(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what a process holds is read from Linux's /proc")
	}
	lasting := time.Second
	if long.Enabled() {
		lasting = 4 * time.Second
	}
	if long.Soak() {
		lasting = time.Minute
	}
	for seed, policy := range []string{config.PolicyRefuse, config.PolicyEvict} {
		t.Run(policy, func(t *testing.T) { newDisorder(t, policy).run(uint64(seed), lasting) })
	}
}

func newDisorder(t *testing.T, policy string) *disorder {
	hub := hubtest.New(t, hubtest.Checkpoint)
	p := openManager(t, chatFolderOf(t, "a", "a-b/c"), func(c *config.Config) {
		c.Model.Template = config.Auto
		c.Models.Hub, c.Models.Policy = hub.URL, policy
		c.Models.Memory = 2*(20+8)<<20 + 2*fixedOverhead + fixedOverhead/2 // two models
		c.Models.Drain, c.Models.LoadWait = config.Duration(100*time.Millisecond), config.Duration(300*time.Millisecond)
		c.ModelList = demoAnd("a")
		c.ModelList[1].KeepAlive = config.Duration(50 * time.Millisecond)
		c.Plugin = []config.Plugin{{Name: "house", Source: "builtin:dry", OnError: config.OnErrorFail,
			Apply: config.ApplyRequest}}
	})
	p.models.reload = func(running config.Config, _ *filestamp.Stamp) (config.Config, []string, error) {
		running.Plugin = slices.Clone(running.Plugin)
		if running.Plugin[0].Apply == config.ApplyRequest && len(running.Plugin) == 1 {
			running.Plugin = append(running.Plugin, config.Plugin{Name: "second", Source: "builtin:no-repeat-ngram",
				OnError: config.OnErrorFail, Apply: config.ApplyRequest})
		} else {
			running.Plugin = running.Plugin[:1]
		}
		return running, nil, nil
	}
	return &disorder{
		plugged: p, t: t, hub: hub, client: &http.Client{Transport: &http.Transport{}},
		copy: filepath.Join(chatFolderOf(t, "source"), "source"),
		dry:  sure(fs.ReadFile(std.FS(), "dry.wasm")), quiet: map[string]string{}, seen: map[string]int{},
	}
}

// chaosReads are requests for text: the path, the body behind the name of the model and
// what of the reply is the same each time.
var chaosReads = []struct {
	name, path, body string
	part             func(reply string) string
}{
	{"whole", "/generate", `"inputs":"Once upon a time","parameters":{"max_new_tokens":24,"details":true}`,
		func(r string) string { whole, _, _ := strings.Cut(r, `,"receipt":`); return whole }},
	{"plugin", "/generate",
		`"inputs":"Once upon a time","parameters":{"max_new_tokens":12,"plugins":[{"name":"house","params":{"multiplier":0.8}}]}`, func(r string) string { return r }},
	{"grammar", "/generate",
		`"inputs":"x","parameters":{"max_new_tokens":24,"grammar":{"type":"regex","value":"[a-z]{3,9}"}}`,
		func(r string) string { return r }},
	{"stream", "/generate_stream", `"inputs":"Once upon a time","parameters":{"max_new_tokens":40,"ignore_eos":true}`,
		lastEvent},
	{"chat", "/v1/chat/completions", `"messages":[` + hi + `],"temperature":0,"max_tokens":12`, func(r string) string {
		var c struct {
			Choices []struct{ Message struct{ Content string } }
		}
		_ = json.Unmarshal([]byte(r), &c)
		return fmt.Sprint(c.Choices)
	}},
}

// lastEvent returns the last event of a stream.
func lastEvent(reply string) (last string) {
	for s := bufio.NewScanner(strings.NewReader(reply)); s.Scan(); {
		if data, ok := strings.CutPrefix(s.Text(), "data:"); ok {
			last = data
		}
	}
	return last
}

// send does a request. ok is false when ctx ended it.
func (d *disorder) send(ctx context.Context, key, method, path, body string) (answered, bool) {
	ctx, cancel := context.WithTimeout(ctx, chaosPatience)
	defer cancel()
	req := sure(http.NewRequestWithContext(ctx, method, d.url+path, strings.NewReader(body)))
	req.Header.Set("Authorization", "Bearer "+key)
	if strings.HasPrefix(path, "/admin/plugins/") {
		req.Header.Set("Content-Type", "application/wasm")
	} else if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := d.client.Do(req)
	var text []byte
	if err == nil {
		defer res.Body.Close()
		text, err = io.ReadAll(res.Body)
	}
	if err != nil {
		if context.Cause(ctx) == context.DeadlineExceeded && !strings.Contains(err.Error(), "canceled") {
			d.t.Errorf("%s %s: no answer in %v", method, path, chaosPatience)
		} else if ctx.Err() == nil {
			d.t.Errorf("%s %s: %v", method, path, err)
		}
		return answered{}, false
	}
	return answered{res.StatusCode, res.Header, string(text)}, true
}

// note counts an outcome.
func (d *disorder) note(what string, status int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[fmt.Sprint(what, " ", status)]++
}

// shown says whether models were started, stopped and read.
func (d *disorder) shown() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	read := d.seen["whole 200"] + d.seen["stream 200"] + d.seen["grammar 200"] + d.seen["chat 200"]
	return read > 0 && d.seen["start 202"] > 0 && d.seen["stop 202"] > 0
}

// read asks a model for text.
func (d *disorder) read(rng *rand.Rand) {
	c, id := chaosReads[rng.IntN(len(chaosReads))], config.DemoModel
	if rng.IntN(2) == 0 {
		id = chaosIDs[rng.IntN(len(chaosIDs))]
	}
	ctx, cancel := context.WithCancel(d.t.Context())
	defer cancel()
	if rng.IntN(10) == 0 { // a client that leaves
		time.AfterFunc(time.Duration(rng.IntN(60))*time.Millisecond, cancel)
	}
	r, ok := d.send(ctx, "", "POST", c.path, fmt.Sprintf(`{"model":%q,%s}`, id, c.body))
	if !ok {
		return
	}
	d.note(c.name, r.status)
	kind := errorKind(r.text)
	switch {
	case r.status == http.StatusOK && c.part(r.text) == d.quiet[c.name]:
	case r.status == http.StatusOK && errorKind(lastEvent(r.text)) == "generation": // cut off at the end of a drain
	case r.status == http.StatusServiceUnavailable && (kind == "loading" || kind == "model_stopped") &&
		r.header.Get("Retry-After") != "":
	case r.status == http.StatusInsufficientStorage && kind == "insufficient_memory" &&
		r.header.Get("Retry-After") == "":
	case r.status == http.StatusNotFound && kind == "model_not_found" && id != config.DemoModel && id != "a":
	case r.status == http.StatusFailedDependency && kind == "generation":
	default:
		d.t.Errorf("%s of %s: %d %.300s\nwant %.300s", c.name, id, r.status, r.text, d.quiet[c.name])
	}
}

// errorKind is the error_type of a reply of any API; "" for none.
func errorKind(text string) string {
	var e struct {
		Type  string `json:"error_type"`
		Error json.RawMessage
	}
	_ = json.Unmarshal([]byte(text), &e)
	if e.Type == "" && len(e.Error) > 0 { // OpenAI's
		var inner struct{ Code, Type string }
		_ = json.Unmarshal(e.Error, &inner)
		return inner.Code + inner.Type
	}
	return e.Type
}

// socket opens one, asks once and may leave it open for a while.
func (d *disorder) socket(rng *rand.Rand) {
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Duration(50+rng.IntN(300))*time.Millisecond)
	defer cancel()
	id := chaosIDs[rng.IntN(len(chaosIDs))]
	conn, res, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(d.url, "http")+"/api/ws?model="+id,
		&websocket.DialOptions{HTTPClient: d.client})
	if err != nil {
		if res != nil && ctx.Err() == nil {
			d.note("socket", res.StatusCode)
			if !slices.Contains([]int{404, 503, 507},
				res.StatusCode) {
				d.t.Errorf("socket of %s: %d %v", id, res.StatusCode, err)
			}
		}
		return
	}
	defer conn.CloseNow()
	d.note("socket", http.StatusOK)
	body := `{"prompts":[{"request_id":"s","prompt":"Once upon a time"}],"generation_config":{"do_sample":false,"max_new_tokens":20}}`
	if conn.Write(ctx, websocket.MessageText, []byte(body)) != nil {
		return
	}
	for err == nil {
		_, _, err = conn.Read(ctx)
	}
}

// govern does something to the models or their plugins.
func (d *disorder) govern(rng *rand.Rand) {
	id := chaosIDs[rng.IntN(len(chaosIDs))]
	for _, op := range []struct {
		share              int
		name, method, path string
		body               string
		want               []int
	}{
		{6, "start", "PUT", "/v1/models/" + id + "/start", "", []int{200, 202, 404, 409, 507}},
		{3, "stop", "POST", "/v1/models/stop", fmt.Sprintf(`{"model":%q}`, id), []int{200, 202, 404}},
		{2, "delete", "DELETE", "/v1/models/" + []string{"imported", "fetched"}[rng.IntN(2)], "", []int{200, 404, 409}},
		{2, "import", "POST", "/v1/models/import", fmt.Sprintf(`{"model":"imported","modelPath":%q}`, d.copy),
			[]int{202, 409}},
		{2, "pull", "POST", "/v1/models/pull", `{"model":"org/model","id":"fetched"}`, []int{200, 202, 409}},
		{2, "cancel", "DELETE", "/v1/models/pull", `{"taskId":"fetched"}`, []int{200, 404, 409}},
		{1, "upload", "PUT", "/admin/plugins/mine", string(d.dry), []int{200, 201, 422}},
		{1, "remove", "DELETE", "/admin/plugins/mine", "", []int{204, 404}},
		{1, "reload", "POST", "/admin/reload", "", []int{200}},
		{2, "list", "GET", "/v1/models", "", []int{200}},
		{1, "metrics", "GET", "/metrics", "", []int{200}},
		{1, "ready", "GET", "/readyz", "", []int{200}},
		{1, "live", "HEAD", "/livez", "", []int{200}},
	} {
		if rng.IntN(13) >= op.share {
			continue
		}
		r, ok := d.send(d.t.Context(), adminKey, op.method, op.path, op.body)
		if !ok {
			return
		}
		d.note(op.name, r.status)
		if !slices.Contains(op.want, r.status) {
			d.t.Errorf("%s %s %.200q: %d %s", op.method, op.path, op.body, r.status, r.text)
		}
		return
	}
}

// watchBooks holds the books and the counters of the plugins until ctx ends.
func (d *disorder) watchBooks(ctx context.Context) {
	calls := map[string]uint64{}
	for ctx.Err() == nil {
		if err := d.models.roster.Check(); err != nil {
			d.t.Error(err)
		}
		for _, p := range d.models.List() {
			if p.Calls < calls[p.Name] {
				d.t.Errorf("the calls of %s went from %d to %d", p.Name, calls[p.Name], p.Calls)
			}
			calls[p.Name] = p.Calls
		}
		time.Sleep(time.Millisecond)
	}
}

// settle ends everything and waits until it has ended.
func (d *disorder) settle() {
	d.t.Helper()
	deadline := time.Now().Add(chaosPatience)
	for busy := true; busy; {
		busy = false
		for _, s := range d.models.roster.All() {
			var pending *lifecycle.Pending
			switch s.State {
			case lifecycle.Downloading:
				pending, _ = d.models.roster.CancelPull(s.ID) // an error: it has just ended
			case lifecycle.Starting, lifecycle.Running, lifecycle.Stopping:
				pending, _ = d.models.roster.Stop(s.ID)
			default:
				continue
			}
			busy = true
			if pending != nil {
				select {
				case <-pending.Done():
				case <-time.After(time.Until(deadline)):
					d.t.Fatalf("%s is %s and does not end", s.ID, s.State)
				}
			}
		}
	}
	if err := d.models.roster.Check(); err != nil {
		d.t.Error(err)
	}
	if promised, _ := d.models.roster.Memory(); promised != 0 {
		d.t.Errorf("%d bytes are promised to nobody", promised)
	}
	d.client.CloseIdleConnections()
	http.DefaultClient.CloseIdleConnections()
	d.hub.CloseClientConnections() // which the server keeps for its next download
}

// run lets clients loose.
func (d *disorder) run(seed uint64, lasting time.Duration) {
	d.preloading()
	began := time.Now()
	for _, id := range []string{config.DemoModel, "a"} {
		for _, c := range chaosReads {
			r, _ := d.send(d.t.Context(), "", "POST", c.path, fmt.Sprintf(`{"model":%q,%s}`, id, c.body))
			for deadline := time.Now().Add(chaosPatience); r.status == http.StatusServiceUnavailable &&
				time.Now().Before(deadline); {
				r, _ = d.send(d.t.Context(), "", "POST", c.path, fmt.Sprintf(`{"model":%q,%s}`, id, c.body))
			}
			if text := c.part(r.text); r.status != http.StatusOK || text == "" || d.quiet[c.name] != "" &&
				text != d.quiet[c.name] {
				d.t.Fatalf("%s of %s: %d %s", c.name, id, r.status, r.text)
			}
			d.quiet[c.name] = c.part(r.text)
		}
	}
	d.settle()
	before := measure(d.t)
	// On a busy machine, too, models get to run between their starts and stops.
	pace := max(150*time.Millisecond, time.Since(began)/8)

	ctx, end := context.WithCancel(d.t.Context())
	defer end()
	began = time.Now()
	goOn := func() bool { // on a slow machine until there is something to judge by
		took := time.Since(began)
		return took < lasting || took < chaosPatience && !d.shown()
	}
	var clients, watch sync.WaitGroup
	for i := range 6 {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for goOn() {
				switch n := rng.IntN(10); {
				case i < 2 || n == 0:
					d.govern(rng)
					time.Sleep(time.Duration(rng.Int64N(int64(pace))))
				case n == 1:
					d.socket(rng)
				default:
					d.read(rng)
				}
			}
		})
	}
	watch.Go(func() { d.watchBooks(ctx) })
	clients.Wait()
	end()
	watch.Wait()

	d.settle()
	after := measure(d.t)
	for deadline := time.Now().Add(20 * time.Second); after.goroutines > before.goroutines+2 &&
		time.Now().Before(deadline); after = measure(d.t) {
		time.Sleep(20 * time.Millisecond) // connections close on goroutines of their own
	}
	if after.goroutines > before.goroutines+2 || after.files > before.files+2 {
		buf := make([]byte, 1<<20)
		d.t.Errorf("before %+v, after %+v\n%s", before, after, buf[:runtime.Stack(buf, true)])
	}
	d.t.Logf("before %+v, after %+v; outcomes %v", before, after, d.seen)
	if !d.shown() {
		d.t.Error("no model was started, stopped or read: nothing was shown")
	}
	if _, err := d.models.roster.Start(library.ID(config.DemoModel)); err != nil {
		d.t.Error(err)
	}
	d.until(d.t, config.DemoModel, "running")
	r, _ := d.send(d.t.Context(), "", "POST", "/generate", "{"+chaosReads[0].body+"}")
	if chaosReads[0].part(r.text) != d.quiet["whole"] {
		d.t.Errorf("afterwards: %d %s", r.status, r.text)
	}
}
