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

// Report lists what a reload did, by name.
type Report struct {
	Loaded    []string         // new, or another version than before
	Unchanged []string         // same module and settings
	Removed   []string         // no longer configured
	Failed    map[string]error // rejected; the previous version, if any, keeps serving
	// Late are files of the folder that take long to load. They are installed or rejected when loading ends; the
	// previous version, if any, serves until then.
	Late []string
}

// Reload makes specs and the folder what is installed: what changed is loaded beside what serves, held to the same
// checks as at the start, and takes its place for new requests, all at once. One that fails leaves the old version
// serving. Uploads stay, unless a spec has their name: then they wait until none has it (see Options.Kept). The error
// is for specs that are wrong in themselves (ErrSpec; then nothing is done), for a folder that can't be read (then its
// plugins stay as they are), for ErrClosed, and for ctx, which ends a reload before anything is replaced. One reload
// runs at a time; others wait. Uploads come and go meanwhile.
func (s *Set) Reload(ctx context.Context, specs []Spec) (Report, error) {
	if err := s.checkSpecs(specs); err != nil {
		return Report{}, err
	}
	return s.reload(ctx, func() []Spec { return slices.Clone(specs) })
}

// refresh reloads with the current specs.
func (s *Set) refresh(ctx context.Context) (Report, error) {
	return s.reload(ctx, func() []Spec { return s.specs })
}

// reload does Reload's work. getSpecs is called with change held.
func (s *Set) reload(ctx context.Context, getSpecs func() []Spec) (Report, error) {
	select {
	case s.reloads <- struct{}{}:
	case <-ctx.Done():
		return Report{}, context.Cause(ctx)
	}
	defer func() { <-s.reloads }()
	ctx, done, err := s.loadContext(ctx)
	if err != nil {
		return Report{}, err
	}
	defer done()
	unlock, err := s.lockChanges(ctx)
	if err != nil {
		return Report{}, err
	}
	specs := getSpecs()
	jobs, folderErr := s.jobs(specs)
	s.round++
	round := s.round
	unlock()
	timeout := folderTimeout
	if round == 1 {
		timeout = startTimeout
	}
	late, err := s.runAll(ctx, jobs, timeout)
	if err == nil {
		unlock, err = s.lockChanges(ctx)
	}
	if err == nil {
		s.tryGrammars(ctx, slices.DeleteFunc(slices.Clone(jobs), func(j *job) bool { return slices.Contains(late, j) }))
	}
	if err != nil {
		s.discardAll(jobs, late)
		return Report{}, err
	}
	defer unlock()
	for i, j := range jobs {
		switch e := s.names[j.name]; {
		case slices.Contains(late, j):
			jobs[i] = &job{desired: j.desired, err: fmt.Errorf("%w: %s: %w", ErrLoad, j.name, errLate), late: true}
			s.loading.Go(func() { s.installLate(j, round) })
		case j.origin == fromFolder && e != nil && e.origin == fromUpload: // the upload came meanwhile
			j.discard(nil)
			jobs[i] = nil
		}
	}
	jobs = slices.DeleteFunc(jobs, func(j *job) bool { return j == nil })
	s.rejectConflicts(jobs)
	before, order := s.names, s.order
	r := s.commit(jobs, specs)
	s.o.Kinds.change(order, s.names, s.o.Folder != "" && folderErr == nil)
	for name, err := range r.Failed {
		e := s.names[name]
		if e.sameRejection(before[name]) {
			continue // already logged: every change of another file reloads this one too
		}
		if round == 1 && e.preventsStart() {
			continue // Open returns it
		}
		serves := "the version before it"
		if e.current == nil {
			serves = "none"
		}
		s.o.Logs.add(name, "host", abi.LevelError, "rejected: "+err.Error())
		s.log.Error("plugin rejected", append(s.whereIs(err), "plugin", name, "error", err, "serving", serves)...)
	}
	return r, folderErr
}

// discardAll discards jobs, the late ones when they have ended.
func (s *Set) discardAll(jobs, late []*job) {
	for _, j := range jobs {
		if !slices.Contains(late, j) {
			j.discard(nil)
			continue
		}
		s.loading.Go(func() {
			<-j.done
			j.discard(nil)
		})
	}
}

// runAll runs the jobs: those of the specs and of uploads to their end, then those of the folder. It returns the
// folder's jobs that are still running after timeout.
func (s *Set) runAll(ctx context.Context, jobs []*job, timeout time.Duration) (late []*job, err error) {
	// One processor stays free for serving: the engine would otherwise wait for one, after each step of the model, as
	// long as the loaders run without a pause.
	slots := make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))
	run := func(ctx context.Context, origin origin) (started []*job) {
		for _, j := range jobs {
			if j.origin != origin || j.unchanged { // same: a plugin of a folder that can't be read
				continue
			}
			started = append(started, j)
			j.done = make(chan struct{})
			s.loading.Go(func() {
				defer close(j.done)
				slots <- struct{}{}
				releaseSlot := sync.OnceFunc(func() { <-slots })
				defer releaseSlot()
				// What takes longer waits for a compiler in another process, and need not delay the other jobs.
				defer time.AfterFunc(slotTime, releaseSlot).Stop()
				j.run(ctx, s)
			})
		}
		return started
	}
	for _, j := range slices.Concat(run(ctx, fromSpec), run(ctx, fromUpload)) {
		<-j.done
	}
	// Late jobs outlive ctx: only closing the set cancels them.
	lateCtx, cancelLate := context.WithCancelCause(s.life)
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for _, j := range run(lateCtx, fromFolder) {
		select {
		case <-j.done:
			continue
		default:
		}
		select {
		case <-j.done:
		case <-timer.C:
			timer.Reset(0) // the others have no time left either
			late = append(late, j)
		case <-ctx.Done():
			cancelLate(context.Cause(ctx))
			<-j.done
		}
	}
	if err := context.Cause(ctx); err != nil {
		cancelLate(err)
		for _, j := range late {
			<-j.done
		}
		return nil, err
	}
	if len(late) == 0 {
		cancelLate(nil)
	} else {
		s.loading.Go(func() {
			for _, j := range late {
				<-j.done
			}
			cancelLate(nil)
		})
	}
	return late, nil
}

// slotTime is how long one load may delay the start of the next.
const slotTime = time.Second

// How long the start and a reload wait for files of the folder. The start is patient, since requests would miss a good
// module that a busy machine compiles slowly. In a reload all other changes wait too.
const (
	startTimeout  = 30 * time.Second
	folderTimeout = 5 * time.Second
)

// errLate means that the module is still being loaded.
var errLate = errors.New("is still being loaded")

// installLate installs a job that its reload did not wait for, unless another reload has read the folder since.
func (s *Set) installLate(j *job, round int) {
	<-j.done
	unlock, err := s.lockChanges(s.life)
	if err == nil && s.life.Err() != nil {
		unlock()
		err = ErrClosed
	}
	if err != nil {
		j.discard(nil)
		return
	}
	defer unlock()
	e := s.names[j.name]
	if s.round != round || e == nil || e.origin != fromFolder {
		j.discard(nil)
		return
	}
	if j.err == nil && !j.unchanged {
		s.tryGrammars(s.life, []*job{j})
	}
	if j.err == nil && !j.unchanged {
		_ = s.checkConflicts(j) // the error stays in j.err
	}
	next, replaced := s.installJob(j)
	if replaced != nil {
		replaced.unref()
	}
	s.o.Kinds.change(nil, s.names, false)
	s.endTrial(e, next, "another version of the plugin was loaded")
	if next.sameRejection(e) {
		return
	}
	if j.err != nil {
		s.o.Logs.add(j.name, "host", abi.LevelError, "rejected: "+j.err.Error())
		s.log.Error("plugin rejected", "plugin", j.name, "error", j.err)
	} else if v := next.current; !j.unchanged {
		s.o.Logs.add(j.name, "host", abi.LevelInfo, "loaded, sha256 "+v.sum())
		s.log.Info("plugin loaded", "plugin", j.name, "source", j.source, "sha256", v.sum(), "version",
			v.guest.Description().Version)
	}
}

// jobs makes a job for each spec, then for each upload whose name none of them has any more, then for each of the
// folder's files whose name is not taken.
func (s *Set) jobs(specs []Spec) (jobs []*job, folderErr error) {
	defer func() {
		for _, j := range jobs {
			if e := s.names[j.name]; e != nil && e.current != nil && !j.unchanged {
				e.current.ref() // until the job has run
				j.serving, j.reloadOnly = e.current, e.origin != fromUpload
			}
		}
	}()
	taken, sources := map[string]bool{}, map[string]string{}
	for _, spec := range specs {
		jobs = append(jobs, &job{desired: spec.desired()})
		taken[spec.Name], sources[spec.Name] = true, spec.Source
	}
	for _, e := range s.order {
		if taken[e.name] || e.origin == fromUpload {
			continue
		}
		if k := s.kept(e.name); k != nil {
			jobs = append(jobs, k.job(e.name))
			taken[e.name] = true
		}
	}
	files, err := s.folder()
	if err != nil { // it may come back: keep its plugins
		for _, e := range s.order {
			if e.origin == fromFolder && !taken[e.name] {
				jobs = append(jobs, &job{desired: e.desired, unchanged: true})
			}
		}
		return jobs, err
	}
	for _, file := range files {
		name := strings.ToValidUTF8(strings.TrimSuffix(filepath.Base(file), ".wasm"), "?")
		if sameFile(sources[name], file) {
			continue // a spec says how this very file is used
		}
		if e := s.names[name]; taken[name] || e != nil && e.origin == fromUpload || s.kept(name) != nil {
			s.log.Warn("plugin file ignored: its name is taken", "plugin", name, "file", file)
			continue
		}
		taken[name] = true
		w := desired{name: name, origin: fromFolder, source: file, settings: settings{}.withDefaults()}
		if s.o.Verify != nil {
			w.verify = func(module []byte) error { return s.o.Verify(file, module) }
		}
		jobs = append(jobs, &job{desired: w})
	}
	return jobs, nil
}

// sameFile reports whether two paths lead to one file.
func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// folder lists the modules of the folder, sorted. It ignores names that begin with a dot: they are temporary files.
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

// discard frees what the job loaded and sets its error to reason.
func (j *job) discard(reason error) {
	j.releaseServing()
	j.err = reason
	if j.loaded != nil {
		j.loaded.guest.Close()
		j.loaded = nil
	}
}

// rejectConflicts rejects new versions that can't serve beside the others: one request must be able to have all plugins
// that apply always.
func (s *Set) rejectConflicts(jobs []*job) {
	for again := true; again; {
		again = false
		always, sampler := 0, ""
		count := func(name string, v *version) (reason error) {
			if v == nil || v.settings.apply != ApplyAlways {
				return nil
			}
			if always++; always > MaxPerRequest {
				return wrongSetting("apply", "apply is %q for %d plugins, the limit is %d", ApplyAlways, always,
					MaxPerRequest)
			}
			if v.alwaysSamples() && sampler != "" {
				return wrongSetting("apply", "apply is %q for two plugins of kind %q, %s is the other", ApplyAlways,
					abi.KindSampler, sampler)
			}
			if v.alwaysSamples() {
				sampler = name
			}
			return nil
		}
		replaced := map[string]bool{}
		for _, j := range jobs {
			if j.loaded != nil {
				replaced[j.name] = true
			}
		}
		for _, e := range s.order {
			if remains := e.origin == fromUpload || slices.ContainsFunc(jobs, func(j *job) bool {
				return j.name == e.name
			}); remains && !replaced[e.name] {
				_ = count(e.name, e.current) // they served together before
			}
		}
		for _, j := range jobs {
			if j.loaded == nil {
				continue
			}
			if reason := count(j.name, j.loaded); reason != nil {
				j.discard(j.ofSpec(fmt.Errorf("%w: %s: %w", ErrLoad, j.name, reason)))
				again = true // the version it would have replaced keeps serving, and counts
				break
			}
		}
	}
}

// commit installs the results of the jobs.
func (s *Set) commit(jobs []*job, specs []Spec) Report {
	r := Report{Failed: map[string]error{}}
	var old []*version
	before := s.order
	names, order, uploads := map[string]*entry{}, []*entry{}, []*entry{}
	s.mu.Lock()
	for _, j := range jobs {
		e, replaced := j.install(s.names[j.name])
		if names[j.name] = e; j.origin == fromUpload {
			uploads = append(uploads, e)
		} else {
			order = append(order, e)
		}
		switch {
		case j.late:
			r.Late = append(r.Late, j.name)
		case j.err != nil:
			r.Failed[j.name] = j.err
		case j.unchanged:
			r.Unchanged = append(r.Unchanged, j.name)
		default:
			r.Loaded = append(r.Loaded, j.name)
		}
		if replaced != nil {
			old = append(old, replaced)
		}
	}
	for _, e := range s.order {
		switch {
		case names[e.name] != nil:
		case e.origin == fromUpload:
			names[e.name], uploads = e, append(uploads, e)
		default:
			r.Removed = append(r.Removed, e.name)
			if e.current != nil {
				old = append(old, e.current)
			}
		}
	}
	slices.SortFunc(uploads, func(a, b *entry) int { return strings.Compare(a.name, b.name) })
	s.names, s.order, s.specs = names, append(order, uploads...), specs
	s.mu.Unlock()
	for _, v := range old {
		v.unref()
	}
	for _, e := range before {
		s.endTrial(e, names[e.name], "another version of the plugin was loaded, or it was removed")
	}
	for _, name := range r.Loaded {
		v := names[name].current
		s.o.Logs.add(name, "host", abi.LevelInfo, "loaded, sha256 "+v.sum())
		s.log.Info("plugin loaded", "plugin", name, "source", names[name].source, "sha256", v.sum(), "version",
			v.guest.Description().Version)
	}
	for _, name := range r.Removed {
		s.log.Info("plugin removed", "plugin", name)
	}
	return r
}

// install returns the entry that replaces e, which may be nil, and the version that is replaced.
func (j *job) install(e *entry) (next *entry, replaced *version) {
	next = &entry{desired: j.desired, err: j.err, late: j.late, triedSum: j.sum}
	if e != nil {
		next.totals, next.current = e.totals, e.current
		if j.loaded == nil && e.origin == j.origin { // beside the version that goes on
			next.canary = e.canary
		}
	} else {
		next.totals = &statsTotals{}
	}
	if v := next.current; j.loaded != nil {
		replaced = v
		next.totals.addVersion(j.loaded)
		next.current = j.loaded
	} else if v != nil && j.err != nil && j.origin == fromUpload && v.origin != fromUpload {
		replaced, next.current = v, nil // a spec's, which is gone: it must not answer for the upload
	}
	return next, replaced
}

// installJob installs one job and keeps all other entries; uploads come last, by name. The caller holds change.
func (s *Set) installJob(j *job) (*entry, *version) {
	e, replaced := j.install(s.names[j.name])
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
	return e, replaced
}
