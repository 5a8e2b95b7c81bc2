package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"tgi/models/hf"
	"tgi/models/library"
)

// archiveName is what an archive is called among the items of a Progress.
const archiveName = "archive"

// Fetch brings a model into the library and returns it when it is whole. When
// ctx ends, and after most errors, what has arrived stays for the next call; it
// is thrown away when it turned out to be no checkpoint that can be served. One fetch of an
// id runs at a time: others fail with library.ErrInUse. p may be nil.
func (c *Client) Fetch(ctx context.Context, lib *library.Library, id library.ID, src Source, p *Progress) (library.Model, error) {
	if p == nil {
		p = &Progress{}
	}
	base, err := src.check()
	if err != nil {
		return library.Model{}, fmt.Errorf("model %s: %w", id, err)
	}
	stage, err := lib.Stage(id)
	if err != nil {
		return library.Model{}, err
	}
	defer stage.Close()
	origin, err := c.fill(ctx, stage, src, base, p)
	var m library.Model
	if err == nil {
		m, err = stage.Commit(origin)
	}
	if err == nil {
		return m, nil
	}
	// What an archive holds does not get better by another attempt.
	archive := src.Repo == "" && len(src.Files) == 0
	if errors.Is(err, library.ErrUnusable) || archive && (errors.Is(err, library.ErrPath) || errors.Is(err, library.ErrLimit)) {
		err = errors.Join(err, stage.Discard())
	}
	return library.Model{}, fmt.Errorf("model %s: %w", id, err)
}

// job is one run of Fetch.
type job struct {
	*session
	stage    *library.Stage
	progress *Progress
	files    []File
	sums     []string
	budget   budget
}

// Check returns why a source is not fetched, as far as that shows before the first
// request: it is none, or Options.Allow has something against it.
func (c *Client) Check(src Source) error {
	base, err := src.check()
	if err != nil || c.opt.Allow == nil {
		return err
	}
	if base != nil {
		if err := c.opt.Allow(base); err != nil {
			return err
		}
	}
	files, err := resolve(src.Files, base)
	for i := 0; err == nil && i < len(files); i++ {
		err = c.opt.Allow(files[i].url)
	}
	return err
}

// fill brings all files into the stage.
func (c *Client) fill(ctx context.Context, stage *library.Stage, src Source, base *url.URL, p *Progress) (library.Origin, error) {
	j := &job{session: c.session(base, src.Token), stage: stage, progress: p}
	var origin library.Origin
	var err error
	archive := false
	switch {
	case src.Repo != "":
		j.files, origin.Revision, err = j.list(ctx, base, src)
		if err == nil {
			var u *url.URL
			if u, err = under(base, src.Repo); err == nil {
				origin.Source = show(u)
			}
		}
	case len(src.Files) > 0:
		if j.files, err = resolve(src.Files, base); err == nil {
			origin.Source = show(j.files[0].url)
			if base != nil {
				origin.Source = show(base)
			}
		}
	default:
		archive, origin.Source = true, show(base)
		j.files, err = resolve([]File{{Path: archiveName, URL: base.String(), Size: -1, SHA256: src.SHA256}}, nil)
	}
	if err != nil {
		return origin, err
	}
	if err := j.prepare(); err != nil {
		return origin, err
	}
	if err := j.all(ctx, archive); err != nil {
		return origin, err
	}
	if archive {
		if err := j.stage.Unpack(ctx, partPath(stage.Work(), archiveName)+".part", nil); err != nil {
			return origin, err
		}
		return origin, nil
	}
	origin.SHA256 = map[string]string{}
	for i, f := range j.files {
		origin.SHA256[f.Path] = j.sums[i]
	}
	return origin, j.assemble()
}

// prepare holds the list against the limits and the disk, and removes parts
// that belong to no file of it.
func (j *job) prepare() error {
	limits := j.stage.Limits()
	if len(j.files) > limits.MaxFiles {
		return fmt.Errorf("%w: %d files, at most %d are allowed", library.ErrLimit, len(j.files), limits.MaxFiles)
	}
	left := limits.MaxBytes
	var need int64
	keep := map[string]bool{}
	for _, f := range j.files {
		at := partPath(j.stage.Work(), f.Path)
		keep[filepath.Base(at)] = true
		if f.Size > left {
			return fmt.Errorf("%w: the files have more than %d bytes", library.ErrLimit, limits.MaxBytes)
		}
		left -= max(0, f.Size)
		need += max(0, f.Size)
		if err := j.takeBack(f.Path, at+".part"); err != nil {
			return err
		}
		if st, err := os.Stat(at + ".part"); err == nil {
			need -= min(st.Size(), max(0, f.Size))
		}
	}
	entries, err := os.ReadDir(j.stage.Work())
	if err != nil {
		return disk(err)
	}
	for _, e := range entries {
		if name, _, _ := strings.Cut(e.Name(), "."); !keep[name] {
			if err := os.RemoveAll(filepath.Join(j.stage.Work(), e.Name())); err != nil {
				return disk(err)
			}
		}
	}
	var rest atomic.Int64
	rest.Store(left)
	j.budget = budget{left: func(n int64) int64 { return rest.Add(-n) }, max: limits.MaxBytes}
	j.sums = make([]string, len(j.files))
	j.progress.start(j.files)
	return j.stage.NeedSpace(need)
}

// takeBack makes a part again of a file that an earlier run had put in place
// before it was cut off.
func (j *job) takeBack(name, part string) error {
	root, err := os.OpenRoot(filepath.Dir(j.stage.Files()))
	if err != nil {
		return disk(err)
	}
	defer root.Close()
	from := path.Join(filepath.Base(j.stage.Files()), name)
	if st, err := root.Lstat(from); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	return disk(root.Rename(from, path.Join(filepath.Base(j.stage.Work()), filepath.Base(part))))
}

// all fetches the files, a few at a time. The configuration comes first: a model
// of another kind is refused before its weights are fetched. The first error
// ends the others, whose parts stay.
func (j *job) all(ctx context.Context, archive bool) error {
	order := make([]int, len(j.files))
	for i := range order {
		order[i] = i
	}
	if !archive {
		config := slices.IndexFunc(j.files, func(f File) bool { return f.Path == hf.ConfigFile })
		if config < 0 {
			return fmt.Errorf("%w: %s is missing", library.ErrUnusable, hf.ConfigFile)
		}
		if err := j.one(ctx, config); err != nil {
			return err
		}
		if err := j.checkConfig(); err != nil {
			return err
		}
		order = slices.Delete(order, config, config+1)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	slots := make(chan struct{}, j.opt.Parallel)
	for _, i := range order {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := j.one(ctx, i); err != nil {
				cancel(err) // the first call wins: later errors are its echo
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// maxConfig bounds config.json where it is read as a whole.
const maxConfig = 16 << 20

func (j *job) checkConfig() error {
	f, err := os.Open(partPath(j.stage.Work(), hf.ConfigFile) + ".part")
	if err != nil {
		return disk(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return disk(err)
	}
	if st.Size() > maxConfig {
		return fmt.Errorf("%w: %s has %d bytes, at most %d are allowed", library.ErrLimit, hf.ConfigFile, st.Size(), maxConfig)
	}
	data, err := os.ReadFile(f.Name())
	if err != nil {
		return disk(err)
	}
	if _, err := hf.ParseConfig(data); err != nil {
		return fmt.Errorf("%w: %w", library.ErrUnusable, err)
	}
	return nil
}

// one fetches one file into its part.
func (j *job) one(ctx context.Context, i int) (err error) {
	p, err := j.openPart(j.stage.Work(), &j.files[i])
	if err != nil {
		return fmt.Errorf("%s: %w", j.files[i].Path, err)
	}
	defer func() { err = errors.Join(err, p.close()) }()
	t := &transfer{part: p, s: j.session, grow: j.budget.grow,
		report: func(n, size int64) { j.progress.set(i, n, size) }}
	if p.Size < 0 {
		if err := j.budget.grow(p.n); err != nil {
			return err
		}
	}
	j.sums[i], err = t.run(ctx)
	return err
}

// assemble moves the parts to where the files belong.
func (j *job) assemble() error {
	root, err := os.OpenRoot(filepath.Dir(j.stage.Files()))
	if err != nil {
		return disk(err)
	}
	defer root.Close()
	files, work := filepath.Base(j.stage.Files()), filepath.Base(j.stage.Work())
	if err := errors.Join(root.RemoveAll(files), root.Mkdir(files, 0o755)); err != nil {
		return disk(err)
	}
	for _, f := range j.files {
		to := path.Join(files, f.Path)
		if err := root.MkdirAll(path.Dir(to), 0o755); err != nil {
			return disk(err)
		}
		if err := root.Rename(path.Join(work, filepath.Base(partPath(j.stage.Work(), f.Path))+".part"), to); err != nil {
			return disk(err)
		}
	}
	return nil
}
