// Package kvevents tells routers which blocks the caches of models hold, in the form of vLLM's KV events: messages of
// ZeroMQ of topic, sequence number and a batch of events in msgpack. A second socket sends again what was missed.
//
// The token loop leaves what changed in a Stream; the Publisher's goroutine encodes and sends it.
package kvevents

import (
	"encoding/binary"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"tgi/server/kvevents/zmtp"
)

// Options say where and how much.
type Options struct {
	// Endpoint is the address that subscribers connect to, Replay the one for requests of what was missed; "" is none.
	Endpoint, Replay string
	// Buffer bounds the bytes of batches that are kept for replays, for each model; Queue those that wait for a
	// subscriber.
	Buffer, Queue int
	// Peers bounds the connections to each address.
	Peers int
}

// batchBlocks bounds the blocks of a batch.
const batchBlocks = 256

// Publisher sends the events of all models.
type Publisher struct {
	options Options
	pub     *zmtp.Pub
	replay  *zmtp.Router
	wake    chan struct{} // has room for one
	stop    chan struct{}
	ending  sync.Once
	stopped chan struct{}

	batches, replays atomic.Int64

	mu    sync.Mutex
	feeds map[string]*feed // by topic
	open  map[*Stream]bool
}

// feed is what was sent of a topic. It outlives the model, so that sequence numbers go on when that is loaded again.
type feed struct {
	topic []byte

	mu    sync.Mutex
	next  uint64 // sequence number
	sent  map[uint64]*block
	kept  [][]byte // the latest batches, up to that before next
	bytes int
}

// Open listens.
func Open(o Options) (*Publisher, error) {
	p := &Publisher{options: o, wake: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
		feeds: map[string]*feed{}, open: map[*Stream]bool{}}
	var err error
	if p.pub, err = zmtp.NewPub(o.Endpoint, o.Peers, o.Queue); err != nil {
		return nil, err
	}
	if o.Replay != "" {
		if p.replay, err = zmtp.NewRouter(o.Replay, o.Peers, p.answer); err != nil {
			return nil, errors.Join(err, p.pub.Close())
		}
	}
	go p.send()
	return p, nil
}

// Stream begins to tell of a model's cache, which is empty.
func (p *Publisher) Stream(topic string) *Stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.feeds[topic]
	if f == nil {
		f = &feed{topic: []byte(topic), sent: map[uint64]*block{}}
		p.feeds[topic] = f
	}
	s := &Stream{publisher: p, feed: f, present: map[uint64]*block{}, over: make(chan struct{})}
	p.open[s] = true
	return s
}

// Close ends all connections. What streams did not say yet is lost. It may be called again; a nil Publisher is none.
func (p *Publisher) Close() error {
	if p == nil {
		return nil
	}
	var err error
	p.ending.Do(func() {
		close(p.stop)
		<-p.stopped
		err = p.pub.Close()
		if p.replay != nil {
			err = errors.Join(err, p.replay.Close())
		}
	})
	return err
}

// Stats are those of a publisher at one moment.
type Stats struct {
	zmtp.PubStats
	// Batches counts messages that were sent, to however many subscribers, Replays the requests for what was missed.
	Batches, Replays int64
}

// Stats returns those of now; Full and Broken count the connections to both addresses.
func (p *Publisher) Stats() Stats {
	s := Stats{p.pub.Stats(), p.batches.Load(), p.replays.Load()}
	if p.replay != nil {
		r := p.replay.Stats()
		s.Full, s.Broken = s.Full+r.Full, s.Broken+r.Broken
	}
	return s
}

func (p *Publisher) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// send sends what streams were told, until Close.
func (p *Publisher) send() {
	defer close(p.stopped)
	for {
		select {
		case <-p.stop:
			return
		case <-p.wake:
		}
		p.mu.Lock()
		open := make([]*Stream, 0, len(p.open))
		for s := range p.open {
			open = append(open, s)
		}
		p.mu.Unlock()
		for _, s := range open {
			p.sendStream(s)
		}
	}
}

// sendStream sends what a stream was told.
func (p *Publisher) sendStream(s *Stream) {
	f := s.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	changes, closed := s.take(f.sent)
	for len(changes) > 0 {
		n := min(len(changes), batchBlocks)
		p.sendBatch(f, changes[:n], false)
		changes = changes[n:]
	}
	if !closed {
		return
	}
	p.sendBatch(f, nil, true)
	f.kept, f.bytes = nil, 0
	p.mu.Lock()
	delete(p.open, s)
	p.mu.Unlock()
	close(s.over)
}

// sendBatch sends one batch and keeps it for replays.
func (p *Publisher) sendBatch(f *feed, changes []change, cleared bool) {
	for _, c := range changes {
		if delete(f.sent, c.hash); c.stored != nil {
			f.sent[c.hash] = c.stored
		}
	}
	b := appendBatch(nil, now(), changes, cleared)
	p.pub.Send(f.topic, sequence(f.next), b)
	p.batches.Add(1)
	f.next++
	f.kept, f.bytes = append(f.kept, b), f.bytes+len(b)
	for f.bytes > p.options.Buffer {
		f.bytes -= len(f.kept[0])
		f.kept[0], f.kept = nil, f.kept[1:]
	}
}

// answer sends batches from a sequence number on again, then the number -1. A request may name the topic; without that
// there must be only one. Where the first of them are not kept any more, a batch that says what is cached now takes
// their place.
func (p *Publisher) answer(request [][]byte, reply func(parts ...[]byte) error) error {
	if len(request) > 2 || len(request[0]) != 8 {
		return errors.New("kvevents: a request has a sequence number of 8 bytes, and may have a topic")
	}
	p.replays.Add(1)
	if f := p.asked(request[1:]); f != nil {
		first, batches := f.from(binary.BigEndian.Uint64(request[0]))
		for i, b := range batches {
			if err := reply(sequence(first+uint64(i)), b); err != nil {
				return err
			}
		}
	}
	return reply(sequence(math.MaxUint64), nil)
}

// asked returns what a request is about; nil if it does not say so.
func (p *Publisher) asked(topic [][]byte) *feed {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(topic) > 0 {
		return p.feeds[string(topic[0])]
	}
	for _, f := range p.feeds {
		if len(p.feeds) == 1 {
			return f
		}
	}
	return nil
}

// from returns the batches from a number on, and the number of the first.
func (f *feed) from(start uint64) (first uint64, batches [][]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	oldest := f.next - uint64(len(f.kept))
	if start >= f.next {
		return f.next, nil
	}
	if start >= oldest {
		return start, append(batches, f.kept[start-oldest:]...)
	}
	changes := difference(nil, f.sent)
	batches = append(batches, appendBatchAfter(now(), changes))
	return oldest - 1, append(batches, f.kept...)
}

func sequence(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func now() float64 { return float64(time.Now().UnixMicro()) / 1e6 }
