package modelsapi

import (
	"cmp"
	"math"
	"net/url"
	"strconv"
)

// Bounds of the document, beyond which a value is left out.
const (
	docTokens   = 4096 // of ctx_len and token_limit
	docContext  = 128  // the least ctx_len of engine_parameters
	docParallel = 10
	docTopK     = 100
)

// head is what every object that describes a model begins with: OpenAI's four
// members.
type head struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	Parent  string `json:"parent,omitempty"` // as vLLM has it
}

// tail is what every object that describes a model ends with: the exact state
// and what belongs to it.
type tail struct {
	Status        State `json:"status"`
	ContextLength int   `json:"context_length,omitempty"`
	// Modalities and Templates are of models that run: text, and image where it reads them; the names of its chat
	// templates where it has several.
	Modalities []string  `json:"input_modalities,omitempty"`
	Templates  []string  `json:"chat_templates,omitempty"`
	Progress   *progress `json:"progress,omitempty"`
	Failure    string    `json:"failure,omitempty"`
}

// progress of a download.
type progress struct {
	Done  int64  `json:"bytes_done"`
	Total *int64 `json:"bytes_total"` // null while it is not known
}

// item is a Model of the list.
type item struct {
	head
	Type        string   `json:"type"`
	Version     string   `json:"version"`
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	State       string   `json:"state,omitempty"`
	Format      string   `json:"format,omitempty"`
	SourceURL   string   `json:"source_url"`
	Settings    settings `json:"settings"`
	Metadata    metadata `json:"metadata"`
	tail
}

// settings of the list are texts, whatever they are.
type settings struct {
	Context    string             `json:"ctx_len,omitempty"`
	Embedding  string             `json:"embedding"`
	Parallel   string             `json:"n_parallel,omitempty"`
	Parameters settingsParameters `json:"parameters"`
}

type settingsParameters struct {
	Temperature string `json:"temperature,omitempty"`
	TokenLimit  string `json:"token_limit,omitempty"`
	TopK        string `json:"top_k,omitempty"`
	TopP        string `json:"top_p,omitempty"`
	Stream      string `json:"stream"`
}

// metadata is free in one schema; the other knows two of its members.
type metadata struct {
	Quantization string `json:"quantization,omitempty"`
	Size         string `json:"size,omitempty"`
	MemoryBytes  int64  `json:"memory_bytes,omitempty"`
	DiskBytes    int64  `json:"disk_bytes,omitempty"`
}

// single is a GetModelResponse.
type single struct {
	head
	State           string           `json:"state"`
	SourceURL       string           `json:"source_url"`
	Engine          engineParameters `json:"engine_parameters"`
	Parameters      modelParameters  `json:"parameters"`
	ModelParameters modelParameters  `json:"model_parameters"`
	Metadata        metadata         `json:"metadata"`
	Name            string           `json:"name"`
	Description     string           `json:"description,omitempty"`
	Format          string           `json:"format,omitempty"`
	tail
}

type engineParameters struct {
	Context   *int `json:"ctx_len,omitempty"`
	Parallel  *int `json:"n_parallel,omitempty"`
	Batching  bool `json:"cont_batching"`
	Threads   *int `json:"cpu_threads,omitempty"`
	Embedding bool `json:"embedding"`
}

type modelParameters struct {
	Context     *int     `json:"ctx_len,omitempty"`
	Embedding   bool     `json:"embedding"`
	Parallel    *int     `json:"n_parallel,omitempty"`
	Temperature *float64 `json:"temperature,omitempty"`
	TokenLimit  *int     `json:"token_limit,omitempty"`
	TopK        *int     `json:"top_k,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
}

// change is the reply to an action.
type change struct {
	ID       string    `json:"id"`
	Object   string    `json:"object"`
	State    State     `json:"state"`
	Message  string    `json:"message"`
	Warning  string    `json:"warning,omitempty"`
	Progress *progress `json:"progress,omitempty"`
	Failure  string    `json:"failure,omitempty"`
	// Task and TaskID are of downloads. There is one for each model at most, so
	// the model's id is the task's.
	Task   *task  `json:"task,omitempty"`
	TaskID string `json:"taskId,omitempty"`
	// Handle and Result are of imports.
	Handle string `json:"modelHandle,omitempty"`
	Result string `json:"result,omitempty"`
}

// task is a download as Jan's successor shows it; its one item is the model.
type task struct {
	ID    string     `json:"id"`
	Type  string     `json:"type"`
	Items []taskItem `json:"items"`
}

type taskItem struct {
	ID         string `json:"id"`
	Bytes      *int64 `json:"bytes"`
	Downloaded int64  `json:"downloadedBytes"`
	URL        string `json:"downloadUrl"`
}

// deletion is a DeleteModelResponse.
type deletion struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
	Message string `json:"message"`
}

func (m *Model) head() head {
	return head{m.ID, "model", m.Created.Unix(), cmp.Or(m.Owner, m.ID), m.Parent}
}

func (m *Model) tail() tail {
	return tail{m.State, m.Context, m.Modalities, m.Templates, m.progress(), m.Failure}
}

func (m *Model) progress() *progress {
	if m.Progress == nil {
		return nil
	}
	p := &progress{Done: m.Progress.Done}
	if m.Progress.Total > 0 {
		p.Total = &m.Progress.Total
	}
	return p
}

// source is the model's URL, or a name in the form of one.
func (m *Model) source() string {
	return cmp.Or(m.Source, "urn:tgi:model:"+url.PathEscape(m.ID))
}

// listed is the state in the words of the list; empty is the document's null.
func (m *Model) listed() string {
	switch m.State {
	case Downloading, Starting, Stopping:
		return string(m.State)
	case Downloaded, Running, Stopped:
		return "ready"
	}
	return ""
}

// got is the state in the words of a single model: a step that is on its way is
// shown as not done yet.
func (m *Model) got() string {
	switch m.State {
	case Downloaded, Running, Stopped:
		return string(m.State)
	case Starting:
		return string(Stopped)
	case Stopping:
		return string(Running)
	case Failed:
		if m.Local {
			return string(Downloaded)
		}
	}
	return string(NotDownloaded)
}

func (m *Model) item() item {
	i := item{
		head: m.head(), Type: "model", Version: "1", Name: cmp.Or(m.Name, m.ID), Description: m.Description,
		State:  m.listed(),
		Format: m.Format, SourceURL: m.source(), Metadata: m.metadata(), tail: m.tail(),
		Settings: settings{Context: text(m.Context), Embedding: strconv.FormatBool(m.Embedding),
			Parallel:   text(m.Parallel),
			Parameters: settingsParameters{Stream: "true"}},
	}
	if s := m.Sampling; s != nil {
		p := &i.Settings.Parameters
		p.Temperature, p.TopP = strconv.FormatFloat(s.Temperature, 'f', -1, 64), strconv.FormatFloat(s.TopP, 'f', -1,
			64)
		p.TopK, p.TokenLimit = strconv.Itoa(s.TopK), text(s.MaxTokens)
	}
	return i
}

func (m *Model) single() single {
	p := modelParameters{Context: within(m.Context, 1, docTokens), Parallel: within(m.Parallel, 1, docParallel),
		Embedding: m.Embedding}
	if s := m.Sampling; s != nil {
		p.Temperature, p.TopP = within(s.Temperature, 0, 2), within(s.TopP, 0, 1)
		p.TopK, p.TokenLimit = within(s.TopK, 0, docTopK), within(s.MaxTokens, 1, docTokens)
	}
	return single{
		head: m.head(), State: m.got(), SourceURL: m.source(), Parameters: p, ModelParameters: p,
		Metadata: m.metadata(),
		Engine: engineParameters{Context: within(m.Context, docContext, docTokens), Parallel: p.Parallel,
			Batching: true, Embedding: m.Embedding,
			Threads: within(m.Threads, 1, math.MaxInt)},
		Name: cmp.Or(m.Name, m.ID), Description: m.Description, Format: m.Format, tail: m.tail(),
	}
}

func (m *Model) metadata() metadata {
	return metadata{m.Quantization, sizeOf(m.Params), m.MemoryBytes, m.DiskBytes}
}

func (m *Model) change(message, warning string) change {
	return change{ID: m.ID, Object: "model", State: m.State, Message: message, Warning: warning, Progress: m.progress(),
		Failure: m.Failure}
}

// task returns the download of the model.
func (m *Model) task() *task {
	one := taskItem{ID: m.ID, URL: m.source()}
	if p := m.progress(); p != nil {
		one.Bytes, one.Downloaded = p.Total, p.Done
	}
	return &task{m.ID, "Model", []taskItem{one}}
}

// within returns v unless it is outside the bounds.
func within[T int | float64](v, least, most T) *T {
	if v < least || v > most {
		return nil
	}
	return &v
}

// text is n in digits, nothing for 0.
func text(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// sizeOf writes a number of parameters as names of models do: 494M, 1.5B.
func sizeOf(params int64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "B"}, {1e6, "M"}, {1e3, "K"}} {
		if n := float64(params) / unit.size; n >= 1 {
			return strconv.FormatFloat(math.Round(n*10)/10, 'f', -1, 64) + unit.name
		}
	}
	return text(int(params))
}
