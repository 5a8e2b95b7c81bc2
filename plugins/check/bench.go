package check

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	kit "tgi/conformance/guest"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/program"
)

// BenchOptions say what is measured. The zero value measures a request without parameters.
type BenchOptions struct {
	Vocabulary int       // tokens; 0: 128256
	Steps      int       // and pieces of text, for each set of parameters; 0: 1000
	Config     string    // JSON object; "" is {}
	Params     []string  // sets of parameters, each measured alone; none: {}
	Grammars   []Grammar // sources of a guest of kind grammar; none: some in the languages that everybody knows
	Limits     Limits
	Seed       uint64 // of logits and tokens
}

// What BenchOptions stand for where they say nothing.
const (
	DefaultVocabulary = 128256
	DefaultSteps      = 1000
)

// Series is what one kind of call took, over and over. Times are wall time on this machine.
type Series struct {
	Name  string        `json:"name"`
	Count int           `json:"count"`
	P50   time.Duration `json:"p50_ns"` // all of it: the host's work and the guest's
	P99   time.Duration `json:"p99_ns"`
	// Guest is the part of it inside the guest; 0 where that is not measured apart.
	GuestP50 time.Duration `json:"guest_p50_ns,omitempty"`
	GuestP99 time.Duration `json:"guest_p99_ns,omitempty"`
	FuelP50  int64         `json:"fuel_p50,omitempty"`
	FuelP99  int64         `json:"fuel_p99,omitempty"`
	Budget   int64         `json:"budget,omitempty"` // what the limit gives such a call; a step's is an average
}

// BenchRun is what one set of parameters came to.
type BenchRun struct {
	Params string     `json:"params"`
	Calls  []Series   `json:"calls"`
	Masks  []MaskRate `json:"masks,omitempty"` // of kind grammar
	// Program is what the last text of a program came to.
	Program *ProgramCounts `json:"program,omitempty"`
	// steps at which the token was known already, and the guest was not called
	Forced int `json:"forced"`
	// Memory is that of an instance when its sequence begins, Grown by how much the longest sequence made it grow. One
	// that grew is not reused.
	Memory int `json:"memory_bytes"`
	Grown  int `json:"grown_bytes"`
	// Fault is what ended the run, as a server would have told it; "" where nothing did.
	Fault string `json:"fault,omitempty"`
}

// MaskRate is how many steps a second texts of one language make: a mask, and the token that was chosen accepted.
type MaskRate struct {
	Language  string  `json:"language"`
	PerSecond float64 `json:"per_second"`
}

// BenchReport is what [Bench] measured.
type BenchReport struct {
	Name       string     `json:"name"`
	Vocabulary int        `json:"vocabulary"`
	Load       []Series   `json:"load"`
	Baseline   []Series   `json:"baseline"` // in the same run: what a step costs that does nothing
	Runs       []BenchRun `json:"runs"`
}

// Bench measures a module with the server's own code, over a synthetic vocabulary, synthetic logits, and a synthetic
// conversation and text. The error says why the module can't be loaded or measured; a fault at a step is in the report.
func Bench(ctx context.Context, name string, wasm []byte, o BenchOptions) (*BenchReport, error) {
	if o.Vocabulary == 0 {
		o.Vocabulary = DefaultVocabulary
	}
	if o.Steps == 0 {
		o.Steps = DefaultSteps
	}
	if o.Vocabulary < MinVocabulary || o.Steps < 1 {
		return nil, fmt.Errorf("vocabulary %d, steps %d: want at least %d and 1", o.Vocabulary, o.Steps, MinVocabulary)
	}
	if o.Config == "" {
		o.Config = "{}"
	}
	if slices.ContainsFunc(guest.Kinds(wasm), guest.Converses) {
		o.Config = kit.WithModel(o.Config)
	}
	if len(o.Params) == 0 {
		o.Params = []string{"{}"}
	}
	cache, err := os.MkdirTemp("", "tgi-plugin-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(cache)
	engine, err := sandbox.New(sandbox.Config{CacheDir: cache})
	if err != nil {
		return nil, err
	}
	b := &bench{o: o, engine: engine, vocab: newSynthetic(o.Vocabulary), rows: newRows(o.Vocabulary, o.Seed)}
	r := &BenchReport{Name: name, Vocabulary: o.Vocabulary}
	if r.Load, err = b.load(ctx, name, wasm); err != nil {
		return nil, err
	}
	if r.Baseline, err = b.baseline(ctx); err != nil {
		return nil, err
	}
	g, err := b.open(ctx, name, wasm)
	if err != nil {
		return nil, err
	}
	defer end(g)
	for _, params := range o.Params {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r.Runs = append(r.Runs, b.run(ctx, g, params, o.Steps))
	}
	return r, nil
}

// bench is what all measurements of one module share.
type bench struct {
	o      BenchOptions
	engine *sandbox.Engine
	vocab  *synthetic
	rows   *rows
}

func (b *bench) open(ctx context.Context, name string, wasm []byte) (*guest.Guest, error) {
	return guest.Load(ctx, b.engine, guest.Config{
		Program: program.Functions(),
		Name:    name, Wasm: wasm, Config: []byte(b.o.Config), Limits: b.o.Limits, Vocabulary: b.vocab,
	})
}

// end closes a guest and waits until it is gone.
func end(g *guest.Guest) {
	g.Close()
	<-g.Drained()
}

// loads is how often a module is loaded from the cache.
const loads = 5

// load measures all up to the snapshot: the first time, from the cache of compiled modules, and of that tgi_init alone.
func (b *bench) load(ctx context.Context, name string, wasm []byte) ([]Series, error) {
	cold, cached := recorder{name: "load, compiled"}, recorder{name: "load, from the cache"}
	for i := range 1 + loads {
		began := time.Now()
		g, err := b.open(ctx, name, wasm)
		if err != nil {
			return nil, err
		}
		if took := time.Since(began); i == 0 {
			cold.add(took, 0, 0)
		} else {
			cached.add(took, 0, 0)
		}
		end(g)
	}
	init, err := b.init(ctx, name, wasm)
	if err != nil {
		return nil, err
	}
	return []Series{cold.series(), cached.series(), init}, nil
}

// init measures tgi_init alone.
func (b *bench) init(ctx context.Context, name string, wasm []byte) (Series, error) {
	limits, err := b.o.Limits.WithDefaults(guest.Kinds(wasm))
	if err != nil {
		return Series{}, err
	}
	r := recorder{name: "tgi_init", budget: limits.FuelLoad}
	m, err := open(ctx, b.engine, name, wasm, limits)
	if m != nil {
		defer m.close()
	}
	if err != nil {
		return Series{}, err
	}
	for range loads {
		in, err := m.Load(b.vocab.host())
		if err != nil {
			return Series{}, err
		}
		at, err := in.Call("tgi_alloc", uint64(len(b.o.Config)))
		if err == nil {
			copy(in.Memory()[at:], b.o.Config)
			began := time.Now()
			_, err = in.Call("tgi_init", at, uint64(len(b.o.Config)))
			took := time.Since(began)
			r.add(took, took, in.(*instance).used)
		}
		in.Close()
		if err != nil {
			return Series{}, err
		}
	}
	return r.series(), nil
}

// baseline measures a guest that does nothing, and the copying of a row.
func (b *bench) baseline(ctx context.Context) ([]Series, error) {
	g, err := guest.Load(ctx, b.engine, guest.Config{Name: "noop", Wasm: noop().encode(), Vocabulary: b.vocab})
	if err != nil {
		return nil, err
	}
	defer end(g)
	run := b.run(ctx, g, "{}", min(b.o.Steps, DefaultSteps))
	i := slices.IndexFunc(run.Calls, func(s Series) bool { return s.Name == processName+"pass" })
	if i < 0 {
		return nil, fmt.Errorf("BUG: the guest that does nothing: %+v", run)
	}
	nothing := run.Calls[i]
	nothing.Name, nothing.Budget = "process of a guest that does nothing", 0
	from, to := make([]float32, b.o.Vocabulary), make([]float32, b.o.Vocabulary)
	r := recorder{name: fmt.Sprintf("copying a row of %d bytes", 4*b.o.Vocabulary)}
	for range 200 {
		began := time.Now()
		copy(to, from)
		r.add(time.Since(began), 0, 0)
	}
	return []Series{nothing, r.series()}, nil
}

// recorder collects what a Series sums up.
type recorder struct {
	name         string
	budget       int64
	total, guest []time.Duration
	fuel         []int64
}

func (r *recorder) add(total, guest time.Duration, fuel int64) {
	r.total, r.guest, r.fuel = append(r.total, total), append(r.guest, guest), append(r.fuel, fuel)
}

func (r *recorder) series() Series {
	return Series{
		Name: r.name, Count: len(r.total), P50: quantile(r.total, 50), P99: quantile(r.total, 99),
		GuestP50: quantile(r.guest, 50), GuestP99: quantile(r.guest, 99),
		FuelP50: quantile(r.fuel, 50), FuelP99: quantile(r.fuel, 99), Budget: r.budget,
	}
}

// quantile is the value that percent of all do not exceed; it sorts list.
func quantile[T time.Duration | int64](list []T, percent int) T {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[max(0, (len(list)*percent+99)/100-1)]
}
