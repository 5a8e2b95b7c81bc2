package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

// archiveName is the name of an archive among the items of a Progress.
const archiveName = "archive"

// Fetch downloads a model into the library and returns it once it is complete. When ctx is
// done, and after most errors, what has arrived is kept for the next call; it is discarded
// if it is not a checkpoint that can be served. Only one fetch of an id runs at a time:
// others fail with library.ErrInUse. p may be nil.
func (c *Client) Fetch(ctx context.Context, lib *library.Library, id library.ID, src Source,
	p *Progress) (library.Model, error) {
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
	origin, err := c.fetchInto(ctx, stage, src, base, p)
	var m library.Model
	if err == nil {
		m, err = stage.Commit(origin)
	}
	if err == nil {
		return m, nil
	}
	// Another attempt would not change what an archive holds.
	archive := src.Repo == "" && len(src.Files) == 0
	if errors.Is(err, library.ErrUnusable) || archive && (errors.Is(err, library.ErrPath) ||
		errors.Is(err, library.ErrLimit)) {
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

// Check validates a source without sending a request: its fields, and its URLs by
// Options.Allow.
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

// Look asks whether a source has a model, and fetches none of it: a hub is asked for the files of a repository, any
// other host for the first byte of each. Errors are those of Fetch.
func (c *Client) Look(ctx context.Context, src Source) error {
	base, err := src.check()
	if err != nil {
		return err
	}
	s := c.session(base, src.Token)
	if src.Repo != "" {
		_, _, err = s.list(ctx, base, src)
		return err
	}
	var urls []*url.URL
	files, err := resolve(src.Files, base)
	for _, f := range files {
		urls = append(urls, f.url)
	}
	if len(src.Files) == 0 {
		urls = append(urls, base)
	}
	for i := 0; err == nil && i < len(urls); i++ {
		err = s.look(ctx, urls[i])
	}
	return err
}

// look asks for the first byte of a file.
func (s *session) look(ctx context.Context, u *url.URL) error {
	err := s.retry(ctx, func() (bool, error) {
		res, err := s.get(ctx, u, map[string]string{"Range": "bytes=0-0"})
		if err != nil {
			return false, err
		}
		defer res.Body.Close()
		if res.StatusCode >= 400 && res.StatusCode != http.StatusRequestedRangeNotSatisfiable {
			return false, failure(res)
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", redactURL(u), err)
	}
	return nil
}

// fetchInto downloads all files of a source into the stage.
func (c *Client) fetchInto(ctx context.Context, stage *library.Stage, src Source, base *url.URL,
	p *Progress) (library.Origin, error) {
	j := &job{session: c.session(base, src.Token), stage: stage, progress: p}
	var origin library.Origin
	var err error
	archive := false
	switch {
	case src.Repo != "":
		j.files, origin.Revision, err = j.list(ctx, base, src)
		if err == nil {
			var u *url.URL
			if u, err = joinURL(base, src.Repo); err == nil {
				origin.Source = redactURL(u)
			}
		}
	case len(src.Files) > 0:
		if j.files, err = resolve(src.Files, base); err == nil {
			origin.Source = redactURL(j.files[0].url)
			if base != nil {
				origin.Source = redactURL(base)
			}
		}
	default:
		archive, origin.Source = true, redactURL(base)
		j.files, err = resolve([]File{{Path: archiveName, URL: base.String(), Size: -1, SHA256: src.SHA256}}, nil)
	}
	if err != nil {
		return origin, err
	}
	if err := j.prepare(); err != nil {
		return origin, err
	}
	if err := j.fetchAll(ctx, archive); err != nil {
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

// prepare checks the list against the limits and the free disk space, and removes parts that
// belong to no file of the list.
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
		if err := j.reclaimPart(f.Path, at+".part"); err != nil {
			return err
		}
		if st, err := os.Stat(at + ".part"); err == nil {
			need -= min(st.Size(), max(0, f.Size))
		}
	}
	entries, err := os.ReadDir(j.stage.Work())
	if err != nil {
		return wrapDisk(err)
	}
	for _, e := range entries {
		if name, _, _ := strings.Cut(e.Name(), "."); !keep[name] {
			if err := os.RemoveAll(filepath.Join(j.stage.Work(), e.Name())); err != nil {
				return wrapDisk(err)
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

// reclaimPart turns a file back into a part if an earlier, interrupted run had already moved
// it to its final place.
func (j *job) reclaimPart(name, part string) error {
	root, err := os.OpenRoot(filepath.Dir(j.stage.Files()))
	if err != nil {
		return wrapDisk(err)
	}
	defer root.Close()
	from := path.Join(filepath.Base(j.stage.Files()), name)
	if st, err := root.Lstat(from); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	return wrapDisk(root.Rename(from, path.Join(filepath.Base(j.stage.Work()), filepath.Base(part))))
}

// fetchAll fetches the files, Options.Parallel at a time. The configuration comes first, so
// that an unsupported model is refused before its weights are fetched. The first error
// cancels the others; their parts are kept. It returns when all its goroutines have ended.
func (j *job) fetchAll(ctx context.Context, archive bool) error {
	order := make([]int, len(j.files))
	for i := range order {
		order[i] = i
	}
	if !archive && !slices.ContainsFunc(j.files, func(f File) bool { return hf.IsGGUF(f.Path) }) {
		config := slices.IndexFunc(j.files, func(f File) bool {
			return f.Path == hf.ConfigFile || f.Path == hf.AdapterConfigFile
		})
		if config < 0 {
			return fmt.Errorf("%w: %s is missing", library.ErrUnusable, hf.ConfigFile)
		}
		if err := j.fetchOne(ctx, config); err != nil {
			return err
		}
		if err := j.checkConfig(j.files[config].Path); err != nil {
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
			if err := j.fetchOne(ctx, i); err != nil {
				cancel(err) // the first call wins; later errors only follow from it
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// maxConfig limits config.json, which is read into memory.
const maxConfig = 16 << 20

// checkConfig checks the configuration, of a model or of an adapter, that was fetched.
func (j *job) checkConfig(name string) error {
	f, err := os.Open(partPath(j.stage.Work(), name) + ".part")
	if err != nil {
		return wrapDisk(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return wrapDisk(err)
	}
	if st.Size() > maxConfig {
		return fmt.Errorf("%w: %s has %d bytes, at most %d are allowed", library.ErrLimit, name, st.Size(),
			maxConfig)
	}
	data, err := os.ReadFile(f.Name())
	if err != nil {
		return wrapDisk(err)
	}
	if name == hf.AdapterConfigFile {
		_, err = hf.ParseAdapterConfig(data)
	} else {
		_, err = hf.ParseConfig(data)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", library.ErrUnusable, err)
	}
	return nil
}

// fetchOne downloads one file into its part.
func (j *job) fetchOne(ctx context.Context, i int) (err error) {
	p, err := j.openPart(j.stage.Work(), &j.files[i])
	if err != nil {
		return fmt.Errorf("%s: %w", j.files[i].Path, err)
	}
	defer func() { err = errors.Join(err, p.close()) }()
	t := &transfer{part: p, s: j.session, reserve: j.budget.reserve,
		report: func(n, size int64) { j.progress.set(i, n, size) }}
	if p.Size < 0 {
		if err := j.budget.reserve(p.n); err != nil {
			return err
		}
	}
	j.sums[i], err = t.run(ctx)
	return err
}

// assemble moves the parts to their files' places.
func (j *job) assemble() error {
	root, err := os.OpenRoot(filepath.Dir(j.stage.Files()))
	if err != nil {
		return wrapDisk(err)
	}
	defer root.Close()
	files, work := filepath.Base(j.stage.Files()), filepath.Base(j.stage.Work())
	if err := errors.Join(root.RemoveAll(files), root.Mkdir(files, 0o755)); err != nil {
		return wrapDisk(err)
	}
	for _, f := range j.files {
		to := path.Join(files, f.Path)
		if err := root.MkdirAll(path.Dir(to), 0o755); err != nil {
			return wrapDisk(err)
		}
		if err := root.Rename(path.Join(work, filepath.Base(partPath(j.stage.Work(), f.Path))+".part"),
			to); err != nil {
			return wrapDisk(err)
		}
	}
	return nil
}
