package engine

import (
	"sync"
	"time"
)

// lateAfter is how long a job of user code counts as one of the workers. It is much
// more than a decent call takes and little beside a step.
const lateAfter = 2 * time.Millisecond

// guestPool runs user code. At most workers jobs run at once, those aside that are
// late: a call that is paused, or waits for anything else, keeps nobody from working.
// What bounds the late ones is that a guest has at most as many jobs under way as
// there are workers. Whose guests have had the least time is next (start-time fair
// queueing): one guest's many rows leave the others their share.
type guestPool struct {
	workers int

	mu      sync.Mutex
	queue   []*guestJob
	running map[*guestJob]bool
	busy    int // running jobs that are not late
	shares  map[string]*share
	clock   time.Duration // the start tag of the job that began last
	timer   *time.Timer   // nil while nothing waits for a job to be late
	wg      sync.WaitGroup
}

// guestJob is a piece of work in the name of guests.
type guestJob struct {
	guests []string
	run    func()
	began  time.Time
	late   bool
}

// share is what a guest has had.
type share struct {
	spent   time.Duration // in jobs that ended, and what it missed while it wanted nothing
	jobs    int           // that wait or run
	running int
}

func newGuestPool(workers int) *guestPool {
	return &guestPool{workers: workers, running: make(map[*guestJob]bool), shares: make(map[string]*share)}
}

// submit has run called soon, on another goroutine.
func (p *guestPool) submit(guests []string, run func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range guests {
		s := p.shares[g]
		if s == nil {
			s = new(share)
			p.shares[g] = s
		}
		if s.jobs == 0 { // who comes back has no claim on the time in which it was away
			s.spent = max(s.spent, p.clock)
		}
		s.jobs++
	}
	p.queue = append(p.queue, &guestJob{guests: guests, run: run})
	p.dispatch()
}

// dispatch begins what may begin. p.mu is held.
func (p *guestPool) dispatch() {
	for p.busy < p.workers {
		j := p.next()
		if j == nil {
			break
		}
		p.wg.Go(func() { p.work(j) })
	}
	p.watch()
}

// next takes the job from the queue that is to begin now, and counts it as running;
// nil when there is none. p.mu is held.
func (p *guestPool) next() *guestJob {
	best, least := -1, time.Duration(0)
	for i, j := range p.queue {
		if tag, ok := p.tag(j); ok && (best < 0 || tag < least) {
			best, least = i, tag
		}
	}
	if best < 0 {
		return nil
	}
	j := p.queue[best]
	p.queue = append(p.queue[:best], p.queue[best+1:]...)
	p.clock = max(p.clock, least)
	for _, g := range j.guests {
		p.shares[g].running++
	}
	p.busy++
	p.running[j] = true
	j.began = time.Now()
	return j
}

// tag returns what the job's guest that had the most has had; false when a guest has
// as many jobs under way as it may. p.mu is held.
func (p *guestPool) tag(j *guestJob) (tag time.Duration, ok bool) {
	for _, g := range j.guests {
		s := p.shares[g]
		if s.running >= p.workers {
			return 0, false
		}
		tag = max(tag, s.spent)
	}
	return tag, true
}

// work runs a job, and others for as long as this is one of the workers.
func (p *guestPool) work(j *guestJob) {
	for j != nil {
		j.run()
		p.mu.Lock()
		p.finish(j)
		j = nil
		if p.busy < p.workers {
			j = p.next()
		}
		p.dispatch() // what the end of this job allows beside the one that follows it here
		p.mu.Unlock()
	}
}

// finish takes a job that ended off the books. p.mu is held.
func (p *guestPool) finish(j *guestJob) {
	delete(p.running, j)
	if !j.late {
		p.busy--
	}
	took := time.Since(j.began)
	for _, g := range j.guests {
		s := p.shares[g]
		s.running--
		s.jobs--
		s.spent += took
	}
	if len(p.running) == 0 && len(p.queue) == 0 {
		clear(p.shares)
		p.clock = 0
	}
}

// watch sees to it that jobs become late while others wait. p.mu is held.
func (p *guestPool) watch() {
	if p.timer != nil || len(p.queue) == 0 || p.busy == 0 {
		return
	}
	first := time.Duration(0)
	for j := range p.running {
		if d := lateAfter - time.Since(j.began); !j.late && (first == 0 || d < first) {
			first = max(d, 1)
		}
	}
	p.timer = time.AfterFunc(first, p.expire)
}

// expire finds out which jobs are late and has others take their places.
func (p *guestPool) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = nil
	for j := range p.running {
		if !j.late && time.Since(j.began) >= lateAfter {
			j.late = true
			p.busy--
		}
	}
	p.dispatch()
}

// wait returns when all jobs have ended. None may be submitted any more.
func (p *guestPool) wait() {
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
}
