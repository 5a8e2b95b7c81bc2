package plugins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"tgi/sdk/abi"
)

// Report says what a reload did, by name.
type Report struct {
	Loaded    []string         // new, or another version than before
	Unchanged []string         // same module and settings: nothing was touched
	Removed   []string         // not wanted any more
	Failed    map[string]error // rejected; what served before, if anything, goes on serving
	// Late are files of the folder that take long to load: they come in, or are rejected, when that is through, and what served
	// before, if anything, goes on serving until then.
	Late []string
}

// Reload makes specs and the folder what is installed: what changed is loaded beside what serves, held to the same
// checks as at the start, and takes its place for new requests, all at once. One that fails leaves the old version
// serving. Uploads stay, unless a spec has their name. The error is for specs that are wrong in themselves (ErrSpec; then
// nothing is done), for a folder that can't be read (then its plugins stay as they are), for ErrClosed, and for ctx,
// which ends a reload before anything is replaced. One reload runs at a time; others wait. Uploads come and go meanwhile.
func (s *Set) Reload(ctx context.Context, specs []Spec) (Report, error) {
	if err := s.checkSpecs(specs); err != nil {
		return Report{}, err
	}
	return s.reload(ctx, func() []Spec { return slices.Clone(specs) })
}

// refresh reloads with the specs there are.
func (s *Set) refresh(ctx context.Context) (Report, error) {
	return s.reload(ctx, func() []Spec { return s.specs })
}

// reload does Reload's work. wanted is asked for the specs with change held.
func (s *Set) reload(ctx context.Context, wanted func() []Spec) (Report, error) {
	select {
	case s.reloads <- struct{}{}:
	case <-ctx.Done():
		return Report{}, context.Cause(ctx)
	}
	defer func() { <-s.reloads }()
	ctx, done, err := s.during(ctx)
	if err != nil {
		return Report{}, err
	}
	defer done()
	end, err := s.begin(ctx)
	if err != nil {
		return Report{}, err
	}
	specs := wanted()
	jobs, folderErr := s.jobs(specs)
	s.round++
	round := s.round
	end()
	patience := folderPatience
	if round == 1 {
		patience = startPatience
	}
	late, err := s.runAll(ctx, jobs, patience)
	if err == nil {
		end, err = s.begin(ctx)
	}
	if err != nil {
		for _, j := range jobs {
			j.discard(nil)
		}
		return Report{}, err
	}
	defer end()
	for i, j := range jobs {
		switch e := s.names[j.name]; {
		case slices.Contains(late, j):
			jobs[i] = &job{wanted: j.wanted, err: fmt.Errorf("%w: %s: %w", ErrLoad, j.name, errLate), late: true}
			s.loading.Go(func() { s.finish(j, round) })
		case j.origin == fromFolder && e != nil && e.origin == fromUpload: // the upload came meanwhile
			j.discard(nil)
			jobs[i] = nil
		}
	}
	jobs = slices.DeleteFunc(jobs, func(j *job) bool { return j == nil })
	s.resolve(jobs)
	before := s.names
	r := s.commit(jobs, specs)
	for name, err := range r.Failed {
		e := s.names[name]
		if e.rejectedAs(before[name]) {
			continue // whoever watches the folder sees it at every change of another file
		}
		serves := "the version before it"
		if e.current == nil {
			serves = "none"
		}
		s.log.Error("plugin rejected", "plugin", name, "error", err, "serving", serves)
	}
	return r, folderErr
}

// runAll runs the jobs: those of the specs to their end, then those of the folder. What of the folder is not through after
// wait runs on and is returned.
func (s *Set) runAll(ctx context.Context, jobs []*job, wait time.Duration) (late []*job, err error) {
	// One processor is left to those who serve: an engine that comes back from its model would otherwise wait for
	// one for as long as those who load may run without a pause.
	slots := make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))
	run := func(ctx context.Context, origin origin) (started []*job) {
		for _, j := range jobs {
			if j.origin != origin || j.same { // same: a plugin of a folder that can't be read
				continue
			}
			started = append(started, j)
			j.through = make(chan struct{})
			s.loading.Go(func() {
				defer close(j.through)
				slots <- struct{}{}
				leave := sync.OnceFunc(func() { <-slots })
				defer leave()
				// What takes longer waits for a compiler, which runs elsewhere: it is no reason to keep others waiting.
				defer time.AfterFunc(slotTurn, leave).Stop()
				j.run(ctx, s)
			})
		}
		return started
	}
	for _, j := range run(ctx, fromSpec) {
		<-j.through
	}
	// What runs on does so for nobody in particular: until the set is closed.
	onward, giveUp := context.WithCancelCause(s.life)
	patience := time.NewTimer(wait)
	defer patience.Stop()
	for _, j := range run(onward, fromFolder) {
		select {
		case <-j.through:
			continue
		default:
		}
		select {
		case <-j.through:
		case <-patience.C:
			patience.Reset(0) // nor is there any for the others
			late = append(late, j)
		case <-ctx.Done():
			giveUp(context.Cause(ctx))
			<-j.through
		}
	}
	if err := context.Cause(ctx); err != nil {
		giveUp(err)
		for _, j := range late {
			<-j.through
		}
		return nil, err
	}
	if len(late) == 0 {
		giveUp(nil)
	} else {
		s.loading.Go(func() {
			for _, j := range late {
				<-j.through
			}
			giveUp(nil)
		})
	}
	return late, nil
}

// slotTurn is how long loading a module may keep the next one from being begun.
const slotTurn = time.Second

// How long files of the folder are waited for: at the start, where requests would miss an honest module that a busy machine
// compiles slowly, and in a reload, where what else changed waits with them.
const (
	startPatience  = 30 * time.Second
	folderPatience = 5 * time.Second
)

// errLate: the module is not through yet.
var errLate = errors.New("is still being loaded")

// finish installs a job of a reload that did not wait for it, unless another reload has looked at the folder since.
func (s *Set) finish(j *job, round int) {
	<-j.through
	end, err := s.begin(s.life)
	if err == nil && s.life.Err() != nil {
		end()
		err = ErrClosed
	}
	if err != nil {
		j.discard(nil)
		return
	}
	defer end()
	e := s.names[j.name]
	if s.round != round || e == nil || e.origin != fromFolder {
		j.discard(nil)
		return
	}
	if j.err == nil && !j.same {
		_ = s.fit(j) // what is wrong stays in j.err
	}
	next, was := s.put(j)
	if was != nil {
		was.drop()
	}
	if next.rejectedAs(e) {
		return
	}
	if j.err != nil {
		s.log.Error("plugin rejected", "plugin", j.name, "error", j.err)
	} else if v := next.current; !j.same {
		s.log.Info("plugin loaded", "plugin", j.name, "source", j.source, "sha256", v.sum(), "version", v.guest.Description().Version)
	}
}

// jobs lists what should be there: the specs, then the folder's files whose names are not taken.
func (s *Set) jobs(specs []Spec) (jobs []*job, folderErr error) {
	defer func() {
		for _, j := range jobs {
			if e := s.names[j.name]; e != nil && e.current != nil && !j.same {
				e.current.hold() // until the job has run
				j.serving, j.steady = e.current, e.origin != fromUpload
			}
		}
	}()
	taken := map[string]bool{}
	for _, spec := range specs {
		jobs = append(jobs, &job{wanted: spec.wanted()})
		taken[spec.Name] = true
	}
	files, err := s.folder()
	if err != nil { // it may come back: nothing of it is taken away
		for _, e := range s.order {
			if e.origin == fromFolder && !taken[e.name] {
				jobs = append(jobs, &job{wanted: e.wanted, same: true})
			}
		}
		return jobs, err
	}
	for _, file := range files {
		name := strings.ToValidUTF8(strings.TrimSuffix(filepath.Base(file), ".wasm"), "?")
		if e := s.names[name]; taken[name] || e != nil && e.origin == fromUpload {
			s.log.Warn("plugin file ignored: its name is taken", "plugin", name, "file", file)
			continue
		}
		taken[name] = true
		jobs = append(jobs, &job{wanted: wanted{name: name, origin: fromFolder, source: file, set: settings{}.withDefaults()}})
	}
	return jobs, nil
}

// folder lists the modules of the folder, sorted. What begins with a dot is somebody's temporary file.
func (s *Set) folder() (files []string, err error) {
	if s.o.Folder == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(s.o.Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("folder of plugins: %w", err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".wasm") || strings.HasPrefix(e.Name(), ".") || e.IsDir() {
			continue
		}
		files = append(files, filepath.Join(s.o.Folder, e.Name()))
	}
	return files, nil
}

// discard frees what was loaded in vain, for the reason given.
func (j *job) discard(why error) {
	j.letGo()
	j.err = why
	if j.fresh != nil {
		j.fresh.guest.Close()
		j.fresh = nil
	}
}

// resolve rejects those new versions that can't serve beside the others: all that apply always must fit one request.
func (s *Set) resolve(jobs []*job) {
	for again := true; again; {
		again = false
		always, sampler := 0, ""
		count := func(name string, v *version) (why error) {
			if v == nil || v.set.apply != ApplyAlways {
				return nil
			}
			if always++; always > MaxPerRequest {
				return fmt.Errorf("apply is %q for %d plugins, the limit is %d", ApplyAlways, always, MaxPerRequest)
			}
			if v.rules() && sampler != "" {
				return fmt.Errorf("apply is %q for two plugins of kind %q, %s is the other", ApplyAlways, abi.KindSampler, sampler)
			}
			if v.rules() {
				sampler = name
			}
			return nil
		}
		replaced := map[string]bool{}
		for _, j := range jobs {
			if j.fresh != nil {
				replaced[j.name] = true
			}
		}
		for _, e := range s.order {
			if stays := e.origin == fromUpload || slices.ContainsFunc(jobs, func(j *job) bool { return j.name == e.name }); stays && !replaced[e.name] {
				_ = count(e.name, e.current) // they served together before
			}
		}
		for _, j := range jobs {
			if j.fresh == nil {
				continue
			}
			if why := count(j.name, j.fresh); why != nil {
				j.discard(fmt.Errorf("%w: %s: %w", ErrLoad, j.name, why))
				again = true // what it would have replaced serves on, and counts
				break
			}
		}
	}
}

// commit makes the outcome of jobs what is installed.
func (s *Set) commit(jobs []*job, specs []Spec) Report {
	r := Report{Failed: map[string]error{}}
	var old []*version
	names, order := map[string]*entry{}, []*entry{}
	s.mu.Lock()
	for _, j := range jobs {
		e, was := j.install(s.names[j.name])
		names[j.name], order = e, append(order, e)
		switch {
		case j.late:
			r.Late = append(r.Late, j.name)
		case j.err != nil:
			r.Failed[j.name] = j.err
		case j.same:
			r.Unchanged = append(r.Unchanged, j.name)
		default:
			r.Loaded = append(r.Loaded, j.name)
		}
		if was != nil {
			old = append(old, was)
		}
	}
	for _, e := range s.order {
		switch {
		case names[e.name] != nil:
		case e.origin == fromUpload:
			names[e.name], order = e, append(order, e)
		default:
			r.Removed = append(r.Removed, e.name)
			if e.current != nil {
				old = append(old, e.current)
			}
		}
	}
	s.names, s.order, s.specs = names, order, specs
	s.mu.Unlock()
	for _, v := range old {
		v.drop()
	}
	for _, name := range r.Loaded {
		v := names[name].current
		s.log.Info("plugin loaded", "plugin", name, "source", names[name].source, "sha256", v.sum(), "version", v.guest.Description().Version)
	}
	for _, name := range r.Removed {
		s.log.Info("plugin removed", "plugin", name)
	}
	return r
}

// install gives the entry that takes the place of e, which may be nil, and the version that it replaces.
func (j *job) install(e *entry) (next *entry, was *version) {
	next = &entry{wanted: j.wanted, err: j.err, late: j.late, tried: j.sum}
	if e != nil {
		next.ledger, next.current = e.ledger, e.current
	} else {
		next.ledger = &ledger{}
	}
	if j.fresh != nil {
		was = next.current
		next.ledger.enter(j.fresh)
		next.current = j.fresh
	}
	return next, was
}

// put installs one job beside all others, the uploads by name at the end; the caller holds change.
func (s *Set) put(j *job) (*entry, *version) {
	e, was := j.install(s.names[j.name])
	names := maps.Clone(s.names)
	names[j.name] = e
	order := slices.Clone(s.order)
	if i := slices.IndexFunc(order, func(x *entry) bool { return x.name == j.name }); i >= 0 {
		order[i] = e
	} else {
		i := len(order)
		for i > 0 && order[i-1].origin == fromUpload && order[i-1].name > j.name {
			i--
		}
		order = slices.Insert(order, i, e)
	}
	s.mu.Lock()
	s.names, s.order = names, order
	s.mu.Unlock()
	return e, was
}
