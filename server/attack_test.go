package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tgi/server"
	"tgi/server/config"
)

// attacked serves /echo, which replies with its body, and /secret, which counts who
// got there, from an address that is bounded by the settings.
func attacked(t *testing.T, change func(*config.Server)) (address string, secret *atomic.Int32) {
	t.Helper()
	secret = &atomic.Int32{}
	c := config.Default().Server
	c.Hostname, c.Port = "127.0.0.1", 0
	if change != nil {
		change(&c)
	}
	s := newServer(routes{"/echo": echo, "/secret": func(w http.ResponseWriter, _ *http.Request) error {
		secret.Add(1)
		server.WriteJSON(w, []byte(`"secret"`))
		return nil
	}}, func(o *server.Options) { o.Config = c })
	l, _, err := server.Listen(c, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	done := make(chan error, 1)
	go func() { done <- s.Serve(t.Context(), l) }()
	t.Cleanup(func() { <-done }) // after the context has ended
	return l.Addr().String(), secret
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn
}

// heads returns the status of each reply that comes until the connection ends.
func heads(conn net.Conn) (statuses []int) {
	r := bufio.NewReader(conn)
	for {
		reply, err := http.ReadResponse(r, nil)
		if err != nil {
			return statuses
		}
		_, _ = io.Copy(io.Discard, reply.Body)
		reply.Body.Close()
		statuses = append(statuses, reply.StatusCode)
	}
}

// TestSmuggling: what somebody before the server could read in another way is refused,
// or nothing of what follows on the connection is read as a request.
func TestSmuggling(t *testing.T) {
	address, secret := attacked(t, nil)
	const (
		head  = "Host: x\r\nContent-Type: application/json\r\n"
		inner = "POST /secret HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
	)
	for name, c := range map[string]struct {
		send string
		want []int
	}{
		"sound": {"POST /echo HTTP/1.1\r\n" + head +
			"Content-Length: 2\r\nConnection: close\r\n\r\n{}", []int{200}},
		"a length and chunks": {"POST /echo HTTP/1.1\r\n" + head +
			"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n" + inner, []int{200}},
		"chunks and a length": {"POST /echo HTTP/1.1\r\n" + head +
			"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n" + inner, []int{200}},
		"two lengths": {"POST /echo HTTP/1.1\r\n" + head +
			"Content-Length: 2\r\nContent-Length: 60\r\n\r\n{}" + inner, []int{400}},
		"a list of lengths": {"POST /echo HTTP/1.1\r\n" + head + "Content-Length: 2, 60\r\n\r\n{}" + inner,
			[]int{400}},
		"a length with a sign": {"POST /echo HTTP/1.1\r\n" + head + "Content-Length: +2\r\n\r\n{}" + inner,
			[]int{400}},
		"a length in hex": {"POST /echo HTTP/1.1\r\n" + head + "Content-Length: 0x2\r\n\r\n{}" + inner,
			[]int{400}},
		"a negative length": {"POST /echo HTTP/1.1\r\n" + head + "Content-Length: -2\r\n\r\n{}" + inner,
			[]int{400}},
		"a length beyond 64 bits": {"POST /echo HTTP/1.1\r\n" + head +
			"Content-Length: 18446744073709551618\r\n\r\n{}" + inner, []int{400}},
		"a space before the colon": {"POST /echo HTTP/1.1\r\n" + head + "Content-Length : 2\r\n\r\n{}" + inner,
			[]int{400}},
		"a folded field": {"POST /echo HTTP/1.1\r\n" + head +
			"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + inner, []int{200}},
		"a foreign encoding": {"POST /echo HTTP/1.1\r\n" + head +
			"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + inner, []int{501}},
		"two encodings": {"POST /echo HTTP/1.1\r\n" + head +
			"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + inner, []int{501}},
		"a list of encodings": {"POST /echo HTTP/1.1\r\n" + head +
			"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + inner, []int{501}},
		"a chunk of no number": {"POST /echo HTTP/1.1\r\n" + head +
			"Transfer-Encoding: chunked\r\n\r\nx\r\n{}\r\n0\r\n\r\n" + inner, []int{400}},
		"a chunk beyond 64 bits": {"POST /echo HTTP/1.1\r\n" + head +
			"Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\n{}\r\n0\r\n\r\n" + inner, []int{400}},
		"a negative chunk": {"POST /echo HTTP/1.1\r\n" + head +
			"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n" + inner, []int{400}},
		"a chunk longer than told": {"POST /echo HTTP/1.1\r\n" + head +
			"Transfer-Encoding: chunked\r\n\r\n2\r\n{}{}\r\n0\r\n\r\n" + inner, []int{400}},
		"an extension of a chunk": {"POST /echo HTTP/1.1\r\n" + head +
			"Transfer-Encoding: chunked\r\n\r\n2;a=\"\r\n{}\r\n0\r\n\r\n" + inner, []int{200}},
		"many extensions": {"POST /echo HTTP/1.1\r\n" + head + "Transfer-Encoding: chunked\r\n\r\n" +
			strings.Repeat("1;"+strings.Repeat("a", 1000)+"\r\n \r\n", 100) + "2\r\n{}\r\n0\r\n\r\n" + inner,
			[]int{400}},
		"a bare line feed in a chunk": {"POST /echo HTTP/1.1\r\n" + head +
			"Transfer-Encoding: chunked\r\n\r\n2;\n{}\r\n0\r\n\r\n" + inner, []int{400}},
		"a trailer with a length": {"POST /echo HTTP/1.1\r\n" + head +
			"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nContent-Length: 60\r\n\r\n" + inner, []int{200}},
		"two hosts": {"POST /echo HTTP/1.1\r\n" + head + "Host: y\r\nContent-Length: 2\r\n\r\n{}",
			[]int{400}},
		"no host": {"POST /echo HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", []int{400}},
		"a null in a field": {"POST /echo HTTP/1.1\r\n" + head + "X: a\x00b\r\nContent-Length: 2\r\n\r\n{}",
			[]int{400}},
		"a line feed for a line": {"POST /echo HTTP/1.1\r\n" + head +
			"X: a\rContent-Length: 60\r\nContent-Length: 2\r\n\r\n{}", []int{400}},
		"an absolute form": {"POST http://elsewhere/echo HTTP/1.1\r\n" + head +
			"Content-Length: 2\r\nConnection: close\r\n\r\n{}", []int{200}},
		"an authority": {"CONNECT elsewhere:443 HTTP/1.1\r\nHost: elsewhere:443\r\n\r\n", []int{404}},
		"HTTP/0.9":     {"GET /\r\n\r\n" + inner, []int{400}},
		"HTTP/1.0": {"POST /echo HTTP/1.0\r\n" + head + "Content-Length: 2\r\n\r\n{}" + inner,
			[]int{200}},
		"HTTP/3.0": {"POST /echo HTTP/3.0\r\n" + head + "Content-Length: 2\r\n\r\n{}" + inner,
			[]int{505}},
		"h2c by knowledge": {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
			[]int{505}},
		"h2c by upgrade": {"POST /echo HTTP/1.1\r\n" + head +
			"Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 2\r\n\r\n{}", []int{200}},
		"noise": {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", []int{400}},
	} {
		conn := dial(t, address)
		if _, err := io.WriteString(conn, c.send); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_ = conn.(*net.TCPConn).CloseWrite()
		if got := heads(conn); !slices.Equal(got, c.want) {
			t.Errorf("%s: statuses %v, want %v", name, got, c.want)
		}
		if n := secret.Swap(0); n != 0 {
			t.Errorf("%s: a request came in behind it", name)
		}
	}
}

// TestHeaderFlood: a header has bounds in bytes and in fields, and who passes them is
// told so.
func TestHeaderFlood(t *testing.T) {
	address, _ := attacked(t, func(c *config.Server) { c.HeaderLimit = 8 << 10 })
	for name, c := range map[string]struct {
		fields string
		want   int
		says   string
	}{
		"many fields": {fields("X-%d: a\r\n", 97), 200, "{}"},
		"too many fields": {fields("X-%d: a\r\n", 101), 431,
			`{"error":"the header is too large: 103 fields, at most 100","error_type":"bad_request"}`},
		"one field, often": {strings.Repeat("A: \r\n", 300), 431, "the header is too large"},
		"a long field":     {"X: " + strings.Repeat("a", 20_000) + "\r\n", 431, "431 Request Header Fields Too Large"},
		"a long name":      {strings.Repeat("a", 20_000) + ": x\r\n", 431, "431 Request Header Fields Too Large"},
		"a long path":      {"", 431, "431 Request Header Fields Too Large"},
	} {
		conn := dial(t, address)
		path := "/echo"
		if name == "a long path" {
			path += "?" + strings.Repeat("a", 20_000)
		}
		fmt.Fprintf(conn,
			"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n%s\r\n{}", path,
			c.fields)
		reply, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body, _ := io.ReadAll(reply.Body)
		if reply.StatusCode != c.want || !strings.Contains(string(body), c.says) {
			t.Errorf("%s: %d %s, want %d %s", name, reply.StatusCode, body, c.want, c.says)
		}
	}
}

func fields(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestCrowd: connections without a request make room for others, those with one do
// not, and who finds no room is told so.
func TestCrowd(t *testing.T) {
	const most = 8
	address, _ := attacked(t, func(c *config.Server) {
		c.MaxConnections, c.MaxConnectionsPerAddress, c.ReadTimeout = most, most, config.Duration(time.Minute)
	})
	ask := func(conn net.Conn) (int, string) {
		if _, err := io.WriteString(conn,
			"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
			return 0, err.Error()
		}
		reply, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return 0, err.Error()
		}
		body, _ := io.ReadAll(reply.Body)
		return reply.StatusCode, string(body)
	}
	// Ten times as many that say nothing, or half a header, leave room for one.
	for i := range 10 * most {
		idle := dial(t, address)
		if i%2 == 0 {
			_, _ = io.WriteString(idle, "POST /echo HTTP/1.1\r\nHost: x\r\n")
		}
	}
	if status, body := ask(dial(t, address)); status != 200 {
		t.Errorf("beside idle ones: %d %s", status, body)
	}
	// Those that send a body slowly stay until their time is over.
	slow := make([]net.Conn, most)
	for i := range slow {
		// The connection that got its reply is idle a moment later, and makes room for the last of these then.
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			slow[i] = dial(t, address)
			_, _ = io.WriteString(slow[i], "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
				"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
			line, err := bufio.NewReader(slow[i]).ReadString('\n')
			if err == nil && strings.Contains(line, "100") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("slow %d: %q, %v", i, line, err)
			}
		}
	}
	reply, err := http.ReadResponse(bufio.NewReader(dial(t, address)), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(reply.Body)
	if reply.StatusCode != 503 || string(body) != `{"error":"Too many connections","error_type":"overloaded"}` ||
		reply.Header.Get("Retry-After") == "" || !reply.Close {
		t.Errorf("without room: %d %v %s", reply.StatusCode, reply.Header, body)
	}
	for _, conn := range slow {
		_, _ = io.WriteString(conn, "{}")
		if reply, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || reply.StatusCode != 200 {
			t.Errorf("one that was there: %v, %v", reply, err)
		}
	}
	if status, body := ask(dial(t, address)); status != 200 {
		t.Errorf("behind them: %d %s", status, body)
	}
}

// TestManyBodies: the bodies of all requests together are bounded, whatever becomes of
// them, and small requests are served meanwhile.
func TestManyBodies(t *testing.T) {
	const size = 1 << 20
	address, _ := attacked(t, func(c *config.Server) { c.PayloadMemory = 8 * size })
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var group sync.WaitGroup
	var refused atomic.Int32
	half := strings.Repeat(" ", size)
	conns := make([]net.Conn, 40)
	for i := range conns {
		conns[i] = dial(t, address)
		group.Go(func() { // a MiB of a body of two, the rest never
			fmt.Fprintf(conns[i],
				"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
				2*size-100_000)
			_, _ = io.WriteString(conns[i], half)
			_ = conns[i].SetReadDeadline(time.Now().Add(3 * time.Second))
			if reply, err := http.ReadResponse(bufio.NewReader(conns[i]), nil); err == nil && reply.StatusCode == 429 &&
				reply.Header.Get("Retry-After") != "" {
				refused.Add(1)
			}
		})
	}
	group.Wait()
	if n := refused.Load(); n < 25 {
		t.Errorf("%d of 40 were refused, 8 fit", n)
	}
	var after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 40*size {
		t.Errorf("%d MiB are held, 8 may be", held>>20)
	}
	small := dial(t, address)
	_, _ = io.WriteString(small,
		"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
	if got := heads(small); !slices.Equal(got, []int{200}) {
		t.Errorf("a small one got %v", got)
	}
	for _, conn := range conns {
		conn.Close()
	}
	large := `"` + strings.Repeat("x", size) + `"`
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn := dial(t, address)
		fmt.Fprintf(conn,
			"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(large), large)
		got := heads(conn)
		if slices.Equal(got, []int{200}) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("when they had left, a large one got %v", got)
		}
	}
}
