package fetch

import (
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"time"
)

// progress prints messages, one a line; on a terminal it rewrites one line during a download.
type progress struct {
	out      io.Writer
	terminal bool
	every    time.Duration // between reports
}

func newProgress(out io.Writer, terminal bool) *progress {
	p := &progress{out: out, terminal: terminal, every: 10 * time.Second}
	if out == nil {
		p.out = io.Discard
	}
	if terminal {
		p.every = 200 * time.Millisecond
	}
	return p
}

func (p *progress) line(format string, args ...any) { fmt.Fprintf(p.out, format+"\n", args...) }

// watch reports how much of about total bytes lies in dir until done is called.
func (p *progress) watch(what, dir string, total int64) (done func()) {
	p.line("%s (about %d MB)", what, total/1e6)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(p.every)
		defer tick.Stop()
		start := time.Now()
		for {
			select {
			case <-stop:
				if p.terminal {
					fmt.Fprint(p.out, "\r\x1b[K")
				}
				return
			case <-tick.C:
				p.report(folderSize(dir), total, time.Since(start))
			}
		}
	})
	return func() {
		close(stop)
		wg.Wait()
	}
}

func (p *progress) report(have, total int64, passed time.Duration) {
	have = min(have, total) // pip has a second copy for a moment
	text := fmt.Sprintf("  %d of about %d MB, %d s", have/1e6, total/1e6, int(passed.Seconds()))
	if p.terminal {
		fmt.Fprintf(p.out, "\r\x1b[K%s", text)
		return
	}
	p.line("%s", text)
}

// folderSize returns the bytes of the files in dir.
func folderSize(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // it may have been renamed meanwhile
		}
		if info, err := d.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}
