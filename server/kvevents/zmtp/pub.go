package zmtp

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxTopics bounds the subscriptions of one subscriber.
const maxTopics = 64

// Pub sends messages to all that subscribed to a beginning of their first part.
type Pub struct {
	listener
	queue int // bytes

	mu          sync.Mutex
	subscribers map[*subscriber]bool
	skipped     atomic.Int64
}

// PubStats are those of a publisher at one moment.
type PubStats struct {
	Stats
	// Subscribers are connected and have greeted; Queued bytes wait for them.
	Subscribers, Queued int64
	// Skipped counts messages that subscribers missed since their queues were full.
	Skipped int64
}

// subscriber is one connection.
type subscriber struct {
	mu     sync.Mutex
	topics [][]byte
	queue  [][]byte
	bytes  int
	wake   chan struct{} // has room for one
}

// NewPub listens for at most so many subscribers. At most queue bytes wait for each; it misses what comes beyond them.
func NewPub(address string, peers, queue int) (*Pub, error) {
	p := &Pub{listener: listener{peers: peers}, queue: queue, subscribers: map[*subscriber]bool{}}
	return p, p.listen(address, p.serve)
}

// Address is where subscribers connect.
func (p *Pub) Address() net.Addr { return p.in.Addr() }

// Stats returns those of now.
func (p *Pub) Stats() PubStats {
	s := PubStats{Stats: p.stats(), Skipped: p.skipped.Load()}
	p.mu.Lock()
	defer p.mu.Unlock()
	for one := range p.subscribers {
		s.Subscribers++
		s.Queued += int64(one.waiting())
	}
	return s
}

// Close ends all connections. Messages that wait have a second to be sent.
func (p *Pub) Close() error {
	for end := time.Now().Add(lingerTime); p.Stats().Queued > 0 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	return p.close()
}

const lingerTime = time.Second

// subscribed reports whether s wants any messages.
func (s *subscriber) subscribed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.topics) > 0
}

// waiting returns how many bytes wait.
func (s *subscriber) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Send queues a message for all subscribers of its topic, and waits for none.
func (p *Pub) Send(topic []byte, parts ...[]byte) {
	b := appendMessage(nil, append([][]byte{topic}, parts...)...)
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.subscribers {
		if !s.push(topic, b, p.queue) {
			p.skipped.Add(1)
		}
	}
}

// push queues a message for s, if that subscribed to it, and reports whether there was room.
func (s *subscriber) push(topic, b []byte, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.topics, func(t []byte) bool { return bytes.HasPrefix(topic, t) }) {
		return true
	}
	if s.bytes > 0 && s.bytes+len(b) > most {
		return false
	}
	s.queue, s.bytes = append(s.queue, b), s.bytes+len(b)
	s.signal()
	return true
}

func (s *subscriber) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// serve reads subscriptions, and writes messages in a goroutine beside it.
func (p *Pub) serve(c net.Conn) error {
	in, err := hello(c, "PUB", "SUB", "XSUB")
	if err != nil {
		return err
	}
	s := &subscriber{wake: make(chan struct{}, 1)}
	p.mu.Lock()
	p.subscribers[s] = true
	p.mu.Unlock()
	var writer sync.WaitGroup
	var failed error // of the writer
	writer.Go(func() {
		defer c.Close() // which ends the reading
		for range s.wake {
			if failed = s.drain(c); failed != nil {
				return
			}
		}
	})
	for err == nil {
		var m message
		if m, err = next(c, in); err == nil {
			err = s.take(m, p.queue)
			p.wants(c, s.subscribed())
		}
	}
	p.mu.Lock()
	delete(p.subscribers, s)
	p.mu.Unlock()
	c.Close() // which ends a write
	s.mu.Lock()
	close(s.wake) // nobody finds it any more
	s.mu.Unlock()
	writer.Wait()
	if !left(failed) {
		err = failed // it is why the reading ended
	}
	return err
}

// drain writes what is queued. What is being written counts as queued.
func (s *subscriber) drain(c net.Conn) error {
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.queue = nil
			s.mu.Unlock()
			return nil
		}
		b := s.queue[0]
		s.queue[0], s.queue = nil, s.queue[1:]
		s.mu.Unlock()
		if err := write(c, b); err != nil {
			return err
		}
		s.mu.Lock()
		s.bytes -= len(b)
		s.mu.Unlock()
	}
}

// take does what a subscriber says: subscribe and cancel, as messages of ZMTP 3.0 or commands of 3.1, and PING.
func (s *subscriber) take(m message, most int) error {
	topic, add := m.parts[0], m.command == "SUBSCRIBE"
	switch {
	case m.command == "PING":
		if b := pong(m); b != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.bytes+len(b) <= most || s.bytes == 0 {
				s.queue, s.bytes = append(s.queue, b), s.bytes+len(b)
				s.signal()
			}
		}
		return nil
	case m.command == "ERROR":
		return errors.New("zmtp: the subscriber gave up")
	case m.command != "" && m.command != "SUBSCRIBE" && m.command != "CANCEL":
		return nil // of a later version
	case m.command == "" && (len(m.parts) != 1 || len(topic) == 0 || topic[0] > 1):
		return nil // what an XSUB socket says to publishers that listen to it
	case m.command == "":
		topic, add = topic[1:], topic[0] == 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if add {
		if len(s.topics) == maxTopics {
			return fmt.Errorf("zmtp: a subscriber may have %d topics, given more", maxTopics)
		}
		s.topics = append(s.topics, topic)
		return nil
	}
	if i := slices.IndexFunc(s.topics, func(t []byte) bool { return bytes.Equal(t, topic) }); i >= 0 {
		s.topics = slices.Delete(s.topics, i, i+1)
	}
	return nil
}
