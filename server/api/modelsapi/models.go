package modelsapi

import (
	"context"
	"time"
)

// State is where a model is in its life.
type State string

// The states. A model goes from NotDownloaded by Downloading to Downloaded, from
// there or from Stopped by Starting to Running, and by Stopping to Stopped. Any
// step that fails ends in Failed, from where it can be tried again.
const (
	NotDownloaded State = "not_downloaded"
	Downloading   State = "downloading"
	Downloaded    State = "downloaded"
	Starting      State = "starting"
	Running       State = "running"
	Stopping      State = "stopping"
	Stopped       State = "stopped"
	Failed        State = "error"
)

// Model is a model as it is at one moment: a value, made for each caller. Of
// its fields ID, Created and State are always there; others are left out of
// replies when they are zero.
type Model struct {
	// ID is unique and what requests name; see CheckID.
	ID string
	// Name is what people call it; empty for ID. Description is a sentence.
	Name, Description string
	// Owner is OpenAI's owned_by; empty for ID, as TGI has it.
	Owner string
	// Created is when the server came to know the model.
	Created time.Time
	State   State
	// Embedding says that it makes vectors of texts.
	Embedding bool
	// Local says that all files are there. It matters to a model in the state
	// Failed alone: the document shows it as downloaded or not_downloaded.
	Local bool
	// Failure is why the last step failed, in words for clients: no paths, no
	// credentials. It may accompany any state; Failed has one always.
	Failure string
	// Source is the absolute URL that the files came or would come from, without
	// credentials; empty for none.
	Source string
	// Format is that of the files, such as safetensors.
	Format string
	// Quantization is the form of the weights, such as int4.
	Quantization string
	// Params counts the parameters.
	Params int64
	// MemoryBytes is what running it takes, as Insufficient compares it;
	// DiskBytes is the size of its files.
	MemoryBytes, DiskBytes int64
	// Context bounds prompt and output together, in tokens.
	Context int
	// Parallel is how many sequences run at once, Threads how many threads
	// compute them.
	Parallel, Threads int
	// Sampling is what requests get that do not say; nil when it is not known.
	Sampling *Sampling
	// Modalities are what it reads, such as text and image; Templates names its chat templates where it has several.
	// Both are nil while it does not run.
	Modalities, Templates []string
	// Parent is the model of which this is a low-rank adapter; empty for a model.
	Parent string
	// Progress of the download that runs or was broken off; nil for none.
	Progress *Progress
}

// Sampling are defaults of requests.
type Sampling struct {
	Temperature, TopP float64
	// TopK is 0 for all tokens.
	TopK int
	// MaxTokens bounds the output; 0 is the rest of the context.
	MaxTokens int
}

// Progress of a download, in bytes.
type Progress struct {
	Done int64
	// Total is 0 while it is not known.
	Total int64
}

// Pull asks for a download.
type Pull struct {
	// Source is the id of a model that is known, the name of a repository such
	// as org/name, org/name:tag or org/name@revision, or an http or https URL
	// without a user. It has 1 to 2048 bytes without control characters; unless
	// it is a URL it is parts of letters, digits and any of -_.:@+ between
	// slashes.
	Source string
	// ID is the id that the model gets, which passed CheckID. Empty leaves it to
	// Models, which must hold what it makes of Source against CheckID.
	ID string
	// Name is what people call it; may be empty.
	Name string
}

// Import asks for a checkpoint on the server's own disk to be copied into the
// models folder.
type Import struct {
	// ID is the id that the model gets. It passed CheckID.
	ID string
	// Path is the checkpoint, as the client gave it: 1 to 4096 bytes without
	// control characters. Where it may lie is for Models to say.
	Path string
	// Name is what people call it; may be empty.
	Name string
}

// Adapter asks for a low-rank adapter on the server's own disk to be loaded.
type Adapter struct {
	// Model is the id of its model; empty is the default.
	Model string
	// Name is what requests call it. It passed CheckID.
	Name string
	// Path is its folder, as the client gave it: 1 to 4096 bytes without control characters.
	Path string
	// Replace lets it take the place of another of its name.
	Replace bool
}

// Models are what the routes act on. It is safe for concurrent use.
//
// Every id and taskId is a string that a client sent: look it up, and make no
// path of it. ctx ends with the request and carries its key, whose list of
// models Models may hold the id against; what an action began continues without
// it. Actions return without waiting for the end of what they began, with the
// model as it is then. They are idempotent: one that finds the model where it
// should go, or on the way there, is no error.
//
// Errors are, or wrap, ErrUnknown (also of models that the key may not use),
// ErrBusy, ErrConflict, *Insufficient, *generate.Invalid with a Field
// that is a member of the body, and those of the server's table. The text of
// anything else is for the log alone: clients see a 500.
type Models interface {
	// List returns all models that the key may see, the default first. The
	// caller owns the slice.
	List(ctx context.Context) ([]Model, error)
	// Get returns a model by its id, or by a name that means the default.
	Get(ctx context.Context, id string) (Model, error)
	// Start loads a model: the state is Starting or Running. A model without its
	// files is ErrConflict, one whose memory does not suffice *Insufficient.
	Start(ctx context.Context, id string) (Model, error)
	// Stop lets running requests finish and frees the memory: the state is
	// Stopping, or whatever it was of a model that does not run.
	Stop(ctx context.Context, id string) (Model, error)
	// Pull begins a download, or goes on with one that was broken off: the state
	// is Downloading, or whatever it was of a model whose files are there.
	Pull(ctx context.Context, p Pull) (Model, error)
	// CancelPull ends a download; Pull can go on with it. A model of which none
	// runs is ErrConflict.
	CancelPull(ctx context.Context, id string) (Model, error)
	// Import adds a model: the state is Downloading while files are copied, then
	// Downloaded. An id that is taken is ErrConflict.
	Import(ctx context.Context, i Import) (Model, error)
	// Delete removes a model's files. A model that is
	// Starting, Running or Stopping is ErrConflict; Downloading is ErrBusy.
	Delete(ctx context.Context, id string) error
	// LoadAdapter gives a model a further adapter, and loads the model if need be. A
	// name that is taken is ErrConflict, and so is a model without memory for it.
	LoadAdapter(ctx context.Context, a Adapter) error
	// UnloadAdapter takes it away again, or one of the settings, until the server
	// ends. Requests that use it end with it.
	UnloadAdapter(ctx context.Context, name string) error
}
