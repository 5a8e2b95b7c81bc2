package ollama

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tgi/server"
	"tgi/server/api/modelsapi"
	"tgi/server/fields"
	"tgi/server/wire"
)

// Info is a model as this API shows it: a value, made for each caller.
type Info struct {
	modelsapi.Model
	// Changed is when its files were fetched or last changed; zero where nobody knows, as of one that is embedded.
	Changed time.Time
	// Architecture is the class that its config.json names; empty where that is not known.
	Architecture string
	// Layers, KVHeads, HeadDim, Hidden and Vocab are those of the model.
	Layers, KVHeads, HeadDim, Hidden, Vocab int
	// Task is what it does.
	Task server.Task
	// Template is the source of its chat template, in Jinja; empty for none.
	Template string
	// Tools, Thinking and Vision say what conversations with it may have.
	Tools, Thinking, Vision bool
	// Expires is when it is unloaded if nobody uses it; zero for never.
	Expires time.Time
	// OnDevice says that it is in a GPU's memory.
	OnDevice bool
}

// details are Ollama's ModelDetails.
type details struct {
	Parent       string   `json:"parent_model"`
	Format       string   `json:"format"`
	Family       string   `json:"family"`
	Families     []string `json:"families"`
	Size         string   `json:"parameter_size"`
	Quantization string   `json:"quantization_level"`
	Context      int      `json:"context_length,omitempty"`
	Width        int      `json:"embedding_length,omitempty"`
}

func (m *Info) details() details {
	family := m.family()
	return details{m.Parent, m.Format, family, []string{family}, sizeOf(m.Params), m.Quantization, m.Context, m.Hidden}
}

// family is the architecture as files in the GGUF format write it, such as qwen2 for Qwen2ForCausalLM.
func (m *Info) family() string {
	name := m.Architecture
	if i := strings.Index(name, "For"); i > 0 {
		name = name[:i]
	}
	return strings.ToLower(strings.TrimSuffix(name, "Model"))
}

// sizeOf writes a number of parameters as Ollama does: 494.03M, 1.5B.
func sizeOf(n int64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "K"}} {
		if f := float64(n) / unit.size; f >= 1 {
			return strconv.FormatFloat(math.Round(f*100)/100, 'f', -1, 64) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// digest identifies what the server knows of a model's files: Ollama's is the sum of their list.
func (m *Info) digest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d\x00%d", m.ID, m.Format, m.DiskBytes, m.Changed.UnixMilli()))
	return hex.EncodeToString(sum[:])
}

// capabilities has Ollama's words for what a model can do.
func (m *Info) capabilities() []string {
	if m.Task != server.Generates {
		return []string{"embedding"}
	}
	list := []string{"completion"}
	for _, c := range []struct {
		has  bool
		name string
	}{{m.Tools, "tools"}, {m.Vision, "vision"}, {m.Thinking, "thinking"}} {
		if c.has {
			list = append(list, c.name)
		}
	}
	return list
}

// listed is Ollama's ListModelResponse.
type listed struct {
	Name         string    `json:"name"`
	Model        string    `json:"model"`
	Modified     time.Time `json:"modified_at"`
	Size         int64     `json:"size"`
	Digest       string    `json:"digest"`
	Details      details   `json:"details"`
	Capabilities []string  `json:"capabilities"`
}

// tags serves GET /api/tags.
func (a *API) tags(w http.ResponseWriter, r *http.Request) error {
	all, err := a.options.Library.List(r.Context())
	if err != nil {
		return err
	}
	list := make([]listed, len(all))
	for i := range all {
		m := &all[i]
		list[i] = listed{tagged(m.ID), tagged(m.ID), m.Created, m.DiskBytes, m.digest(), m.details(), m.capabilities()}
	}
	return server.WriteValue(w, http.StatusOK, struct {
		Models []listed `json:"models"`
	}{list})
}

// loaded is Ollama's ProcessModelResponse.
type loaded struct {
	Name    string    `json:"name"`
	Model   string    `json:"model"`
	Size    int64     `json:"size"`
	Digest  string    `json:"digest"`
	Details details   `json:"details"`
	Expires time.Time `json:"expires_at"`
	VRAM    int64     `json:"size_vram"`
	Context int       `json:"context_length"`
}

// never is how far away Ollama puts the end of what has none.
const never = time.Duration(math.MaxInt64)

// ps serves GET /api/ps.
func (a *API) ps(w http.ResponseWriter, r *http.Request) error {
	all, err := a.options.Library.List(r.Context())
	if err != nil {
		return err
	}
	list := []loaded{}
	for i := range all {
		m := &all[i]
		if m.State != modelsapi.Running || m.Parent != "" {
			continue
		}
		one := loaded{Name: tagged(m.ID), Model: tagged(m.ID), Size: m.MemoryBytes, Digest: m.digest(),
			Details: m.details(), Expires: m.Expires.UTC(), Context: m.Context}
		if m.Expires.IsZero() {
			one.Expires = a.now().Add(never).UTC()
		}
		if m.OnDevice {
			one.VRAM = m.MemoryBytes
		}
		list = append(list, one)
	}
	return server.WriteValue(w, http.StatusOK, struct {
		Models []loaded `json:"models"`
	}{list})
}

// naming is a body that names a model.
type naming struct {
	model, older string
	stream       bool
}

// readName reads a body that names a model. Its other members change nothing.
func readName(r *http.Request) (*naming, error) {
	body, err := server.ReadAnyBody(r)
	if err != nil {
		return nil, err
	}
	n := &naming{stream: true}
	err = server.Decode(r.Context(), body, func(r *wire.Reader) error {
		return r.Object("struct Request", []wire.Field{
			{Name: "model", Read: fields.Text(&n.model)}, {Name: "name", Read: fields.Text(&n.older)},
			{Name: "stream", Read: unlessNull(&n.stream)},
		})
	})
	if err == nil {
		n.model, err = subject(n.model, n.older)
	}
	return n, err
}

// shown is Ollama's ShowResponse.
type shown struct {
	Modelfile    string         `json:"modelfile"`
	Parameters   string         `json:"parameters"`
	Template     string         `json:"template"`
	Details      details        `json:"details"`
	Info         map[string]any `json:"model_info"`
	Capabilities []string       `json:"capabilities"`
	Modified     time.Time      `json:"modified_at"`
}

// show serves POST /api/show.
func (a *API) show(w http.ResponseWriter, r *http.Request) error {
	n, err := readName(r)
	if err != nil {
		return err
	}
	m, err := a.options.Library.Get(r.Context(), means(n.model, a.options.Models.Has))
	if err != nil {
		return about(n.model, err)
	}
	family := m.family()
	info := map[string]any{"general.architecture": family, "general.basename": m.ID,
		"general.parameter_count": m.Params}
	for name, value := range map[string]int{"context_length": m.Context, "embedding_length": m.Hidden,
		"block_count": m.Layers, "attention.head_count_kv": m.KVHeads, "attention.key_length": m.HeadDim,
		"vocab_size": m.Vocab} {
		if value > 0 {
			info[family+"."+name] = value
		}
	}
	return server.WriteValue(w, http.StatusOK, shown{
		Modelfile: "# The settings of this model are the server's (tgi.toml); it has no Modelfile.\nFROM " + tagged(m.ID) +
			"\n",
		Template: m.Template, Details: m.details(), Info: info, Capabilities: m.capabilities(), Modified: m.Created,
	})
}

// remove serves DELETE /api/delete.
func (a *API) remove(w http.ResponseWriter, r *http.Request) error {
	n, err := readName(r)
	if err != nil {
		return err
	}
	if err := a.options.Library.Delete(r.Context(), means(n.model, a.options.Models.Has)); err != nil {
		return about(n.model, err)
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// progress is Ollama's ProgressResponse.
type progress struct {
	Status    string `json:"status"`
	Digest    string `json:"digest,omitempty"`
	Total     int64  `json:"total,omitempty"`
	Completed int64  `json:"completed,omitempty"`
}

// append writes p.
func (p *progress) append(b []byte) []byte {
	b = wire.AppendString(append(b, `{"status":`...), p.Status)
	if p.Digest != "" {
		b = wire.AppendString(append(b, `,"digest":`...), p.Digest)
	}
	for _, n := range []struct {
		name  string
		bytes int64
	}{{"total", p.Total}, {"completed", p.Completed}} {
		if n.bytes > 0 {
			b = wire.AppendInt(append(b, ','), n.name, int(n.bytes))
		}
	}
	return append(b, '}')
}

// pull serves POST /api/pull: it begins a download, or follows one that goes on. A client that leaves does not end it.
func (a *API) pull(w http.ResponseWriter, r *http.Request) error {
	n, err := readName(r)
	if err != nil {
		return err
	}
	from := source(n.model)
	if id := means(n.model, a.options.Models.Has); a.options.Models.Has(id) {
		from = id
	}
	if err := modelsapi.CheckSource("model", from); err != nil {
		return err
	}
	m, err := a.options.Library.Pull(r.Context(), modelsapi.Pull{Source: from})
	if err != nil {
		return about(n.model, err)
	}
	lines := server.NewLines(w)
	tell := func(p progress) error {
		if !n.stream {
			return nil
		}
		return lines.Send(p.append(nil))
	}
	if err := a.follow(r, &m, tell); err != nil {
		if r.Context().Err() != nil || !lines.Began() {
			return err
		}
		server.Note(r.Context(), err)
		f := explain(err)
		_ = lines.Send(appendError(nil, &f)) // the last words, heard or not
		return nil
	}
	if last := (progress{Status: "success"}); n.stream {
		_ = lines.Send(last.append(nil))
	} else {
		server.WriteJSON(w, last.append(nil))
	}
	return nil
}

// follow tells how a download gets on until it is over.
func (a *API) follow(r *http.Request, m *modelsapi.Model, tell func(progress) error) error {
	if err := tell(progress{Status: "pulling manifest"}); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(m.ID))
	p := progress{Status: "pulling " + m.ID, Digest: "sha256:" + hex.EncodeToString(sum[:])}
	ticks := time.NewTicker(a.poll)
	defer ticks.Stop()
	for m.State == modelsapi.Downloading {
		if at := m.Progress; at != nil && at.Total > 0 && (at.Done != p.Completed || at.Total != p.Total) {
			p.Completed, p.Total = at.Done, at.Total
			if err := tell(p); err != nil {
				return err
			}
		}
		select {
		case <-ticks.C:
		case <-r.Context().Done():
			return r.Context().Err()
		}
		now, err := a.options.Library.Get(r.Context(), m.ID)
		if err != nil {
			return err
		}
		m = &now.Model
	}
	switch {
	case m.State == modelsapi.Failed:
		return refused(http.StatusInternalServerError, "pull model: %s", m.Failure)
	case m.State == modelsapi.NotDownloaded:
		return refused(http.StatusInternalServerError, "pull model: the download was stopped")
	}
	return nil
}
