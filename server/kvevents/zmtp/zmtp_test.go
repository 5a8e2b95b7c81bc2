package zmtp

import (
	"bufio"
	"bytes"
	"net"
	"slices"
	"testing"
	"time"
)

// dial connects as a peer of a kind does, and greets.
func dial(t *testing.T, address net.Addr, kind string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", address.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := c.Write(appendCommand(greeting(), "READY", ready(kind))); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	if err := readGreeting(r); err != nil {
		t.Fatal(err)
	}
	if m, err := readMessage(r); err != nil || m.command != "READY" {
		t.Fatalf("%+v, %v", m, err)
	}
	return c, r
}

func newPub(t *testing.T, peers, queue int) *Pub {
	t.Helper()
	p, err := NewPub("127.0.0.1:0", peers, queue)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// settle waits until ok; the machine may be busy.
func settle(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it is not so after a minute: %s", what)
		}
	}
}

// topics returns how many subscriptions there are.
func (p *Pub) topics() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.subscribers {
		s.mu.Lock()
		n += len(s.topics)
		s.mu.Unlock()
	}
	return n
}

// TestTopics: subscribers get the topics that begin with what they said, in the forms of ZMTP 3.0 and 3.1.
func TestTopics(t *testing.T) {
	p := newPub(t, 4, 1<<20)
	old, inOld := dial(t, p.Address(), "SUB")
	young, inYoung := dial(t, p.Address(), "SUB")
	old.Write(appendMessage(nil, []byte("\x01kv@a")))
	young.Write(appendCommand(nil, "SUBSCRIBE", []byte("kv@b")))
	young.Write(appendCommand(nil, "SUBSCRIBE", nil))
	young.Write(appendCommand(nil, "CANCEL", nil))
	settle(t, "both subscribed", func() bool { return p.topics() == 2 })
	young.Write(appendCommand(nil, "PING", []byte("\x00\x00ctx")))
	if m, err := readMessage(inYoung); err != nil || m.command != "PONG" || string(m.parts[0]) != "ctx" {
		t.Fatalf("a PING is answered by %+v, %v", m, err)
	}
	long := bytes.Repeat([]byte{7}, 300)
	for _, topic := range []string{"kv@b@m", "kv@a@m", "kv@b"} {
		p.Send([]byte(topic), []byte("1"), long)
	}
	for _, want := range []struct {
		in    *bufio.Reader
		topic string
	}{{inOld, "kv@a@m"}, {inYoung, "kv@b@m"}, {inYoung, "kv@b"}} {
		m, err := readMessage(want.in)
		if err != nil || len(m.parts) != 3 || string(m.parts[0]) != want.topic || !bytes.Equal(m.parts[2], long) {
			t.Errorf("got %q, %v; want %s", m.parts, err, want.topic)
		}
	}
}

// TestSlow: one that does not read misses messages; the others and the sender do not wait.
func TestSlow(t *testing.T) {
	p := newPub(t, 4, 64<<10)
	slow, _ := dial(t, p.Address(), "SUB")
	quick, in := dial(t, p.Address(), "SUB")
	slow.Write(appendMessage(nil, []byte{1}))
	quick.Write(appendMessage(nil, []byte{1}))
	settle(t, "both subscribed", func() bool { return p.topics() == 2 })
	part := make([]byte, maxMessage/2)
	for i := range 20000 { // 40 MB: more than sockets and queue hold
		p.Send([]byte("t"), []byte{byte(i)}, part)
		if m, err := readMessage(in); err != nil || m.parts[1][0] != byte(i) {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	if s := p.Stats(); s.Skipped == 0 || s.Subscribers != 2 || s.Queued == 0 || s.Queued > 2*64<<10 {
		t.Errorf("the slow one missed nothing, or more waits for it than may: %+v", s)
	}
}

// TestHostile: whoever breaks the protocol, or is one too many, loses the connection.
func TestHostile(t *testing.T) {
	p := newPub(t, 2, 1<<20)
	sub := appendCommand(greeting(), "READY", ready("SUB"))
	bad := map[string][]byte{
		"no ZMTP":            []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n" + string(make([]byte, 64))),
		"version 2":          append([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 2}, make([]byte, 53)...),
		"a mechanism":        bytes.Replace(greeting(), []byte("NULL"), []byte("NUL2"), 1),
		"no READY":           appendMessage(greeting(), []byte{1}),
		"a PUSH":             appendCommand(greeting(), "READY", ready("PUSH")),
		"a broken property":  appendCommand(greeting(), "READY", []byte{3, 'a', 'b', 'c', 0xff, 0xff, 0xff, 0xff}),
		"an endless frame":   append(greeting(), flagLong, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		"strange flags":      append(greeting(), 0xf0, 0),
		"too many topics":    appendCommand(greeting(), "READY", ready("SUB")),
		"too many parts":     appendCommand(greeting(), "READY", ready("SUB")),
		"more than it may":   append(slices.Clone(sub), flagLong, 0, 0, 0, 0, 0, 1, 0, 0),
		"a command in parts": append(slices.Clone(sub), flagMore, 0, flagCommand, 2, 1, 'a'),
	}
	for range maxTopics + 1 {
		bad["too many topics"] = appendMessage(bad["too many topics"], []byte("\x01abc"))
	}
	bad["too many parts"] = appendMessage(bad["too many parts"], make([][]byte, maxParts+1)...)
	for name, b := range bad {
		c, err := net.Dial("tcp", p.Address().String())
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(time.Minute))
		c.Write(b)
		for err == nil {
			_, err = c.Read(make([]byte, 512))
		}
		if e, ok := err.(net.Error); ok && e.Timeout() {
			t.Errorf("%s: the connection stays", name)
		}
		c.Close()
		settle(t, "nobody is connected", func() bool {
			p.listener.mu.Lock()
			defer p.listener.mu.Unlock()
			return len(p.conns) == 0
		})
	}
	if s := p.Stats(); s.Broken != int64(len(bad)) || s.Full != 0 {
		t.Errorf("%d peers broke the protocol; counted are %+v", len(bad), s)
	}
	for range 2 {
		one, _ := dial(t, p.Address(), "SUB")
		one.Write(appendMessage(nil, []byte{1}))
	}
	settle(t, "both subscribed", func() bool { return wanting(&p.listener) == 2 })
	c, err := net.Dial("tcp", p.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil || err.(interface{ Error() string }).Error() == "" {
		t.Errorf("a third is served: %d, %v", n, err)
	}
	if s := p.Stats(); s.Full != 1 || s.Subscribers != 2 {
		t.Errorf("of three that come for two places %+v are counted", s)
	}
}

// wanting returns how many peers want something.
func wanting(l *listener) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, since := range l.conns {
		if since == 0 {
			n++
		}
	}
	return n
}

// TestIdle: those who want nothing make room, the oldest first; those who want something keep their places.
func TestIdle(t *testing.T) {
	p := newPub(t, 3, 1<<20)
	reader, inReader := dial(t, p.Address(), "SUB")
	reader.Write(appendMessage(nil, []byte{1}))
	settle(t, "it subscribed", func() bool { return wanting(&p.listener) == 1 })
	_, inOld := dial(t, p.Address(), "SUB")
	young, inYoung := dial(t, p.Address(), "SUB")
	_, inNew := dial(t, p.Address(), "SUB") // one too many
	if m, err := readMessage(inOld); err == nil {
		t.Errorf("who wanted nothing for longest still gets %+v", m)
	}
	young.Write(appendMessage(nil, []byte{1}))
	settle(t, "another subscribed", func() bool { return wanting(&p.listener) == 2 })
	p.Send([]byte("t"))
	for _, in := range []*bufio.Reader{inReader, inYoung} {
		if m, err := readMessage(in); err != nil || string(m.parts[0]) != "t" {
			t.Errorf("a subscriber got %+v, %v", m, err)
		}
	}
	young.Write(appendMessage(nil, []byte{0})) // it wants nothing any more, but later than inNew
	settle(t, "one cancelled", func() bool { return wanting(&p.listener) == 1 })
	last, inLast := dial(t, p.Address(), "SUB")
	if m, err := readMessage(inNew); err == nil {
		t.Errorf("who wanted nothing for longest still gets %+v", m)
	}
	last.Write(appendCommand(nil, "PING", []byte("\x00\x00x")))
	if m, err := readMessage(inLast); err != nil || m.command != "PONG" {
		t.Errorf("the last one got %+v, %v", m, err)
	}
	if s := p.Stats(); s.Full != 2 || s.Broken != 0 {
		t.Errorf("counted are %+v", s)
	}
}

// TestRouter: a request gets several answers, each after an empty part.
func TestRouter(t *testing.T) {
	r, err := NewRouter("127.0.0.1:0", 2, func(request [][]byte, reply func(...[]byte) error) error {
		for _, p := range request {
			if err := reply(p, []byte("there")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c, in := dial(t, r.Address(), "DEALER")
	c.Write(appendMessage(nil, nil, []byte("a"), []byte("b")))
	for _, want := range []string{"a", "b"} {
		m, err := readMessage(in)
		same := func(p []byte, s string) bool { return string(p) == s }
		if err != nil || !slices.EqualFunc(m.parts, []string{"", want, "there"}, same) {
			t.Errorf("%q, %v", m.parts, err)
		}
	}
}

// FuzzRead: whatever a peer sends is read or refused, within its bounds.
func FuzzRead(f *testing.F) {
	f.Add(appendMessage(appendCommand(greeting(), "READY", ready("SUB")), []byte("\x01kv@")))
	f.Add(append(greeting(), flagLong, 0, 0, 0, 0, 0, 0, 0, 1, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bufio.NewReader(bytes.NewReader(b))
		if readGreeting(r) != nil {
			r.Reset(bytes.NewReader(b)) // read messages all the same
		}
		for {
			m, err := readMessage(r)
			if err != nil {
				return
			}
			n := 0
			for _, p := range m.parts {
				n += len(p)
			}
			if n > maxMessage || len(m.parts) == 0 || len(m.parts) > maxParts {
				t.Fatalf("a message of %d bytes in %d parts", n, len(m.parts))
			}
			peerType(m.parts[0])
			s := &subscriber{wake: make(chan struct{}, 1)}
			s.take(m, 1<<10)
		}
	})
}
