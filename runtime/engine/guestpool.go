package engine

import (
	"sync"
	"time"
)

// lateAfter is how long a job of user code counts as one of the workers: much longer
// than an ordinary call and short compared with a step.
const lateAfter = 2 * time.Millisecond

// guestPool runs user code. At most workers jobs run at once, not counting late ones: a
// call that is paused, or waits for something, does not block the others. Late jobs are
// bounded because each guest has at most as many running jobs as there are workers. The
// next job is the one whose guests have used the least time (start-time fair queueing,
// Goyal et al. 1996), so that one guest's many rows leave the others their share.
type guestPool struct {
	workers int

	mu      sync.Mutex
	queue   []*guestJob
	running map[*guestJob]bool
	busy    int // running jobs that are not late
	shares  map[string]*share
	clock   time.Duration // the start tag of the job that began last
	timer   *time.Timer   // of expire; nil before the first job that waited
	armed   bool          // it runs
	lookout bool          // somebody calls watch soon: until then no timer runs
	wg      sync.WaitGroup
}

// guestJob is a piece of work on behalf of guests.
type guestJob struct {
	guests []string
	run    func()
	began  time.Time
	late   bool
}

// share is the time that a guest has used.
type share struct {
	spent   time.Duration // in ended jobs, advanced to the clock when the guest was idle
	jobs    int           // waiting or running
	running int
}

func newGuestPool(workers int) *guestPool {
	return &guestPool{workers: workers, running: make(map[*guestJob]bool), shares: make(map[string]*share)}
}

// submit queues run; it is called on a goroutine of the pool.
func (p *guestPool) submit(guests []string, run func()) {
	p.enqueue(guests, run)
	p.serve()
}

// enqueue is submit for a caller of serve, which starts the job unless a worker, or help, did meanwhile.
func (p *guestPool) enqueue(guests []string, run func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(guests)
	p.queue = append(p.queue, &guestJob{guests: guests, run: run})
}

// serve starts what waits, as far as workers are free.
func (p *guestPool) serve() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dispatch()
}

// help makes the caller's goroutine, which is one of wg, a worker until there are enough, or no more jobs.
func (p *guestPool) help() {
	p.mu.Lock()
	var j *guestJob
	if p.busy < p.workers {
		j = p.next()
	}
	p.mu.Unlock()
	p.work(j)
}

// count adds a job to those of its guests. p.mu is held.
func (p *guestPool) count(guests []string) {
	for _, g := range guests {
		s := p.shares[g]
		if s == nil {
			s = new(share)
			p.shares[g] = s
		}
		if s.jobs == 0 { // a guest earns no credit while it is idle
			s.spent = max(s.spent, p.clock)
		}
		s.jobs++
	}
}

// dispatch starts jobs while workers are free. p.mu is held.
func (p *guestPool) dispatch() {
	for p.busy < p.workers {
		j := p.next()
		if j == nil {
			break
		}
		p.wg.Go(func() { p.work(j) })
	}
	p.arm()
}

// next removes the job to run next from the queue and counts it as running; nil if there
// is none. p.mu is held.
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
	p.start(j)
	return j
}

// start counts a job as running. p.mu is held.
func (p *guestPool) start(j *guestJob) {
	for _, g := range j.guests {
		p.shares[g].running++
	}
	p.busy++
	p.running[j] = true
	j.began = time.Now()
}

// begin counts a job that the caller runs, and then ends; nil if there are others.
func (p *guestPool) begin(guests []string) *guestJob {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.running)+len(p.queue) > 0 {
		return nil
	}
	p.wg.Add(1)
	p.count(guests)
	j := &guestJob{guests: guests}
	p.start(j)
	return j
}

// end ends such a job.
func (p *guestPool) end(j *guestJob) {
	p.mu.Lock()
	p.finish(j)
	p.dispatch()
	p.mu.Unlock()
	p.wg.Done()
}

// tag returns the job's start tag: the most time that any of its guests has used. It
// returns false if a guest already runs as many jobs as it may. p.mu is held.
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

// work runs a job, and then others from the queue while the pool has room.
func (p *guestPool) work(j *guestJob) {
	for j != nil {
		j.run()
		p.mu.Lock()
		p.finish(j)
		j = nil
		if p.busy < p.workers {
			j = p.next()
		}
		p.dispatch() // the end of this job may allow more than the one that follows here
		p.mu.Unlock()
	}
}

// finish removes an ended job from the accounting. p.mu is held.
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
		if p.armed {
			p.armed = !p.timer.Stop()
		}
	}
}

// postpone says that watch is called soon. Most jobs are done by then, and none of them starts the timer, which would
// wake a thread.
func (p *guestPool) postpone() {
	p.mu.Lock()
	p.lookout = true
	p.mu.Unlock()
}

// watch ends what postpone began.
func (p *guestPool) watch() {
	p.mu.Lock()
	p.lookout = false
	p.arm()
	p.mu.Unlock()
}

// arm starts the timer that marks jobs as late while others wait. p.mu is held.
func (p *guestPool) arm() {
	if p.armed || p.lookout || len(p.queue) == 0 || p.busy == 0 {
		return
	}
	first := time.Duration(0)
	for j := range p.running {
		if d := lateAfter - time.Since(j.began); !j.late && (first == 0 || d < first) {
			first = max(d, 1)
		}
	}
	p.armed = true
	if p.timer == nil {
		p.timer = time.AfterFunc(first, p.expire)
		return
	}
	p.timer.Reset(first)
}

// expire marks the late jobs and starts others in their place.
func (p *guestPool) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	for j := range p.running {
		if !j.late && time.Since(j.began) >= lateAfter {
			j.late = true
			p.busy--
		}
	}
	p.dispatch()
}

// wait returns when all jobs have ended, and what else uses wg. Nobody but these may call
// submit any more.
func (p *guestPool) wait() {
	p.wg.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
}
