package dispatch

import (
	"context"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/embeddings"
	"tgi/server/generate"
)

// Model is a model that runs, as APIs see it. It is safe for concurrent use, and must
// not be changed once it was handed out.
type Model struct {
	// ID is its name.
	ID string
	// Service runs its requests.
	Service *generate.Service
	// Limits bound them, sized for the model.
	Limits config.Limits
	// DType is the type of its weights, Revision the downloaded revision; either may be
	// empty.
	DType, Revision string
	// Architecture is the class that its config.json names. Images says that it reads them.
	Architecture string
	Images       bool
	// Device is what it runs on: cpu or cuda. GPU says more of the latter; nil on the CPU.
	Device string
	GPU    *GPU
	// Speculate is how many tokens are guessed ahead at most, 0 if none are.
	Speculate int
	// KVDisk returns the state of the prompts that are kept on disk; nil where those of the model are not.
	KVDisk func() server.KVDisk
	// Vocab is the number of token ids, EOS are those that end a text.
	Vocab int
	EOS   []llm.Token
	// TokenBytes returns the bytes that a token stands for, which need not be whole
	// characters; nil knows none.
	TokenBytes func(llm.Token) ([]byte, bool)
	// Decoder returns what turns the tokens behind context into text; without context
	// they begin one.
	Decoder func(context []llm.Token) Decoder
	// Adapters returns the names of its low-rank adapters; nil is none. Parent is the model's name, if this is one.
	Adapters func() []string
	Parent   string
	// Plugins returns those that it runs; nil is none.
	Plugins func() []server.Plugin
	// Stopping reports whether the model is being unloaded, so that long-lived connections
	// must end; nil is never.
	Stopping func() bool
}

// GPU is the device that a model computes on.
type GPU struct {
	// Name is the driver's for it, Index its number among those that CUDA shows.
	Name  string
	Index int
	// Memory is its bytes, Cache those of the model's KV cache.
	Memory, Cache int64
	// Graphs are the numbers of rows that decoding steps are padded to, to run as CUDA graphs.
	Graphs []int
}

// Embedder is a model that turns texts into vectors or scores, as APIs see it. It is safe for concurrent use.
type Embedder struct {
	// ID is its name.
	ID string
	// Service runs its requests.
	Service *embeddings.Service
	// DType is the type of its weights, Revision the downloaded revision; either may be empty.
	DType, Revision string
}

// Embedders are what requests with texts are sent to. It is safe for concurrent use.
type Embedders interface {
	// UseEmbedder is Models.Use for models of some tasks. "" is the default model if it has one of them, or else the
	// first that has. A model of another task is a *server.WrongTask.
	UseEmbedder(ctx context.Context, name string, tasks ...server.Task) (m *Embedder, release func(), err error)
	// Task returns what the model does that name means to a route of any task; Generates where there is none.
	Task(ctx context.Context, name string) server.Task
}

// Decoder turns the tokens of one text into characters. It belongs to one goroutine.
type Decoder interface {
	// Next returns what the token adds to the text, special tokens included; "" while
	// the bytes of a character are incomplete.
	Next(llm.Token) string
	// Flush ends the text and returns what was held back.
	Flush() string
}

// Models are what requests are sent to. It is safe for concurrent use.
type Models interface {
	// Use returns the model that name means. It may be used until release, which is
	// called exactly once. "" is the default model, and so is a Placeholder that no
	// model is called. ctx ends with the request and carries its key; waiting for a
	// model to load ends with it.
	//
	// Errors are replied to the client in the shape of the route. One that wraps
	// server.ErrModel says that there is no model of that name; others are
	// server.ErrModelKey, *server.NotServing and those of the server's table. After
	// an error release is not called.
	Use(ctx context.Context, name string) (m *Model, release func(), err error)
	// Has reports whether a model is called name, loaded or not. Names that only mean one, as unknown ones may mean
	// the default, are not.
	Has(name string) bool
}
