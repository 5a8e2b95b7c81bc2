package modelsapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tgi/server"
	"tgi/server/config"
	"tgi/server/generate"
)

// fake is Models in a list. Actions take one step of a model's life each, so
// that asking again shows the next.
type fake struct {
	models []Model
	// asked are the calls, such as "start a/b".
	asked []string
	// pull and import are those of the latest call.
	pull    Pull
	imports Import
}

var born = time.Unix(1700000000, 0)

// shelf returns models in all states. The first is made of the examples of
// Jan's document.
func shelf() *fake {
	zephyr := Model{
		ID: "zephyr-7b", Name: "Zephyr 7B", Owner: "_", Created: time.Unix(1253935178, 0), State: Running, Local: true,
		Description: "Chats <politely>.", Format: "ggufv3", Quantization: "Q3_K_L", Params: 7_000_000_000,
		Source:      "https://huggingface.co/TheBloke/zephyr-7B-beta-GGUF/blob/main/zephyr-7b-beta.Q4_K_M.gguf",
		MemoryBytes: 5_000_000_000, DiskBytes: 4_000_000_000, Context: 2048, Parallel: 4, Threads: 8,
		Sampling: &Sampling{Temperature: 0.7, TopP: 1, TopK: 0, MaxTokens: 2048},
	}
	return &fake{models: []Model{
		zephyr,
		{ID: "meta/llama", Created: born, State: Downloaded, Local: true, Context: 131072, Parallel: 128,
			Params: 494_000_000},
		{ID: "big", Created: born, State: Stopped, Local: true},
		{ID: "waits", Created: born, State: Downloaded, Local: true},
		{ID: "org/part", Created: born, State: Downloading, Progress: &Progress{Done: 10, Total: 40}},
		{ID: "org/begun", Created: born, State: Downloading, Progress: &Progress{}},
		{ID: "up", Created: born, State: Starting, Local: true},
		{ID: "down", Created: born, State: Stopping, Local: true},
		{ID: "torn", Created: born, State: Failed, Failure: "the checksum of model.safetensors is wrong",
			Progress: &Progress{Done: 9, Total: 9}},
		{ID: "ill", Created: born, State: Failed, Local: true, Failure: "config.json has no architectures"},
		{ID: "new", Created: born, State: NotDownloaded, Source: "https://example.com/new"},
		{ID: "start", Created: born, State: Running, Local: true},
		{ID: "a/stop", Created: born, State: Running, Local: true},
	}}
}

// find returns a model to change.
func (f *fake) find(call, id string) (*Model, error) {
	f.asked = append(f.asked, call+" "+id)
	for i := range f.models {
		if f.models[i].ID == id {
			return &f.models[i], nil
		}
	}
	switch id {
	case "trouble":
		return nil, errors.New("secret")
	case "drains":
		return nil, server.ErrLoading
	}
	return nil, fmt.Errorf("%w: in no folder", ErrUnknown)
}

func (f *fake) List(context.Context) ([]Model, error) {
	if f.models == nil {
		return nil, errors.New("secret")
	}
	return f.models, nil
}

func (f *fake) Get(_ context.Context, id string) (Model, error) {
	if id == "tgi" {
		id = f.models[0].ID
	}
	m, err := f.find("get", id)
	if err != nil {
		return Model{}, err
	}
	return *m, nil
}

func (f *fake) Start(_ context.Context, id string) (Model, error) {
	m, err := f.find("start", id)
	if err != nil {
		return Model{}, err
	}
	switch {
	case m.ID == "big":
		return Model{}, fmt.Errorf("start: %w", &Insufficient{Of: "memory", Need: 8 << 30, Free: 3 << 30})
	case m.ID == "waits":
		return Model{}, server.ErrUnhealthy
	case m.State == NotDownloaded:
		return Model{}, fmt.Errorf("%w: %s is not downloaded", ErrConflict, id)
	case m.State == Starting:
		m.State = Running
	case m.State == Downloaded || m.State == Stopped:
		m.State = Starting
	}
	return *m, nil
}

func (f *fake) Stop(_ context.Context, id string) (Model, error) {
	m, err := f.find("stop", id)
	if err != nil {
		return Model{}, err
	}
	switch m.State {
	case Stopping:
		m.State = Stopped
	case Running:
		m.State = Stopping
	}
	return *m, nil
}

func (f *fake) Pull(_ context.Context, p Pull) (Model, error) {
	f.pull = p
	if p.Source == "org/huge" {
		f.asked = append(f.asked, "pull "+p.Source)
		return Model{}, &Insufficient{Of: "disk", Need: 90, Free: 80}
	}
	m, err := f.find("pull", p.Source)
	switch {
	case errors.Is(err, ErrUnknown) && strings.Contains(p.Source, "/"):
		id := p.ID
		if id == "" {
			id, _, _ = strings.Cut(p.Source, "@")
		}
		return Model{ID: id, Name: p.Name, Created: born, State: Downloading}, nil
	case err != nil:
		return Model{}, err
	case m.State == NotDownloaded:
		m.State, m.Progress = Downloading, &Progress{Total: 7}
	}
	return *m, nil
}

func (f *fake) CancelPull(_ context.Context, id string) (Model, error) {
	m, err := f.find("cancel", id)
	if err != nil {
		return Model{}, err
	}
	if m.State != Downloading {
		return Model{}, fmt.Errorf("%w: no download of %s runs", ErrConflict, id)
	}
	m.State = NotDownloaded
	return *m, nil
}

func (f *fake) Import(_ context.Context, i Import) (Model, error) {
	f.imports = i
	f.asked = append(f.asked, "import "+i.ID)
	switch {
	case i.Path == "/etc":
		return Model{}, &generate.Invalid{Field: "modelPath", Msg: "`modelPath` must lie in the models folder"}
	case i.ID == "zephyr-7b":
		return Model{}, fmt.Errorf("%w: %s is there", ErrConflict, i.ID)
	case i.Path == "small":
		return Model{ID: i.ID, State: Downloaded, Local: true}, nil
	}
	return Model{ID: i.ID, State: Downloading, Progress: &Progress{Total: 12}}, nil
}

func (f *fake) Delete(_ context.Context, id string) error {
	m, err := f.find("delete", id)
	switch {
	case err != nil:
		return err
	case m.State == Running:
		return fmt.Errorf("%w: %s is running", ErrConflict, id)
	case m.State == Downloading:
		return fmt.Errorf("%w: %s is being downloaded", ErrBusy, id)
	}
	f.models = append([]Model{}, f.models...)
	for i := range f.models {
		if f.models[i].ID == id {
			f.models = append(f.models[:i], f.models[i+1:]...)
			break
		}
	}
	return nil
}

// LoadAdapter knows the folder /srv/adapter alone.
func (f *fake) LoadAdapter(_ context.Context, a Adapter) error {
	f.asked = append(f.asked, fmt.Sprintf("load %+v", a))
	if a.Model != "" {
		if _, err := f.find("adapt", a.Model); err != nil {
			return err
		}
	}
	switch {
	case a.Name == "taken" && !a.Replace:
		return fmt.Errorf("%w: adapter taken is loaded already", ErrConflict)
	case a.Path != "/srv/adapter":
		return &generate.Invalid{Field: "lora_path", Msg: "`lora_path`: there is no adapter_config.json"}
	}
	return nil
}

// UnloadAdapter knows the adapter taken alone.
func (f *fake) UnloadAdapter(_ context.Context, name string) error {
	f.asked = append(f.asked, "unload "+name)
	if name != "taken" {
		return ErrUnknown
	}
	return nil
}

// adminKey opens the routes of administrators. Those that read are open, because
// there is no other key.
const adminKey = "operator"

func serve(m Models) *server.Server {
	c := config.Default().Server
	c.AdminKeys = []string{adminKey}
	return server.New(server.Options{
		Config: c, APIs: []server.API{New(m)}, Healthy: func() error { return nil }, Log: slog.New(slog.DiscardHandler),
	})
}

// ask sends a request of an administrator; a body is JSON.
func ask(s *server.Server, method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if body == "" {
		r = httptest.NewRequest(method, target, http.NoBody)
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Authorization", "Bearer "+adminKey)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	return rec
}

// TestScopes: reading needs the scope generate or models, whatever changes something admin.
func TestScopes(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range New(shelf()).Routes() {
		reads := r.Method == http.MethodGet && !strings.Contains(r.Path, "/download/")
		want := server.Admin
		if reads {
			want = server.Listing
		}
		if r.Scope != want || r.BodyLimit != bodyLimit {
			t.Errorf("%s %s: scope %v, limit %d", r.Method, r.Path, r.Scope, r.BodyLimit)
		}
		seen[r.Method+" "+r.Path] = true
	}
	for _, route := range []string{
		"GET /v1/models", "GET /v1/models/{id:.+}", "GET /v1/models/download/{id:.+}",
		"PUT /v1/models/{id:.+}/start", "POST /v1/models/{id:.+}/start", "PUT /v1/models/{id:.+}/stop",
		"POST /v1/models/{id:.+}/stop",
		"POST /v1/models/start", "POST /v1/models/stop", "POST /v1/models/pull", "POST /v1/models/import",
		"DELETE /v1/models/{id:.+}", "DELETE /v1/models/pull", "POST /v1/load_lora_adapter",
		"POST /v1/unload_lora_adapter",
	} {
		if !seen[route] {
			t.Errorf("there is no %s", route)
		}
		delete(seen, route)
	}
	if len(seen) > 0 {
		t.Errorf("more routes: %v", seen)
	}
	s := serve(shelf())
	for method, want := range map[string]int{http.MethodGet: 200, http.MethodDelete: 401, http.MethodPut: 405} {
		if rec := ask(s, method, "/v1/models/meta/llama", "", "Authorization", "none"); rec.Code != want {
			t.Errorf("%s without a key: %d, want %d", method, rec.Code, want)
		}
	}
	if rec := ask(s, http.MethodPut, "/v1/models/meta/llama/start", "", "Authorization",
		"Bearer wrong"); rec.Code != 401 {
		t.Errorf("a start with a wrong key: %d", rec.Code)
	}
}
