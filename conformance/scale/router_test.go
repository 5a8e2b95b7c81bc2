package scale

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tgi/conformance/live"
)

// patience bounds each wait; the machine may be busy with other things.
const patience = 90 * time.Second

// enabled skips a test where it was not asked for.
func enabled(t *testing.T) {
	t.Helper()
	if os.Getenv("TGI_SCALE") == "" {
		t.Skip("routers are installed and run where TGI_SCALE is set: make test-scale")
	}
}

// router is a program that stands before replicas.
type router struct {
	name string
	// command starts it on port before the replicas.
	command func(t *testing.T, port int, urls []string) *exec.Cmd
	// ready reports whether it knows that both replicas are there.
	ready func(url string) bool
	// knows are the conversations that it keeps together.
	knows []talks
}

var routers = []router{
	{"smg", smg, smgReady, []talks{byHeader, byBeginning, bySystem}},
	{"haproxy", haproxy, answers, []talks{byHeader}},
}

// smg installs SGLang's model gateway with the flags that docs/scale.md has.
func smg(t *testing.T, port int, urls []string) *exec.Cmd {
	home := live.Installed(t, "python.txt", func(to string) []*exec.Cmd {
		return []*exec.Cmd{
			exec.Command("python3", "-m", "venv", to),
			exec.Command(filepath.Join(to, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "-r",
				"python.txt"),
		}
	})
	args := append([]string{"launch", "--host", "127.0.0.1", "--port", strconv.Itoa(port), "--worker-urls"}, urls...)
	args = append(args, strings.Fields(strings.Join(smgFlags, " "))...)
	return exec.Command(filepath.Join(home, "bin", "smg"), append(args, "--prometheus-port",
		strconv.Itoa(freePort(t)))...)
}

// smgFlags are those that docs/scale.md has.
var smgFlags = []string{"--policy cache_aware", "--balance-abs-threshold 2", "--balance-rel-threshold 1.2",
	"--routing-key-override", "--routing-key-headers x-session-id", "--health-check-endpoint /readyz",
	"--health-check-interval-secs 1", "--health-failure-threshold 1", "--health-success-threshold 1",
	"--prometheus-host 127.0.0.1"}

// TestDocumented: the page has the flags, and the version, that are tested.
func TestDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	packages, err := os.ReadFile("python.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range append(smgFlags, strings.TrimSpace(string(packages)), "examples/scale-out/haproxy.cfg") {
		if !strings.Contains(string(page), part) {
			t.Errorf("docs/scale.md lacks %s", part)
		}
	}
}

// smgReady asks smg for its workers.
func smgReady(url string) bool {
	var list struct{ Workers []struct{ Status string } }
	status, body := get(url + "/workers")
	if status != 200 || json.Unmarshal([]byte(body), &list) != nil {
		return false
	}
	n := 0
	for _, w := range list.Workers {
		if w.Status == "ready" {
			n++
		}
	}
	return n == 2
}

// haproxy runs the example's file.
func haproxy(t *testing.T, port int, urls []string) *exec.Cmd {
	program, err := exec.LookPath("haproxy")
	if err != nil {
		program = "/usr/sbin/haproxy" // which is not on everybody's path
	}
	cmd := exec.Command(program, "-db", "-f", "../../examples/scale-out/haproxy.cfg")
	cmd.Env = append(os.Environ(), "TGI_BIND=127.0.0.1:"+strconv.Itoa(port),
		"TGI_REPLICA_1="+strings.TrimPrefix(urls[0], "http://"),
		"TGI_REPLICA_2="+strings.TrimPrefix(urls[1], "http://"))
	return cmd
}

func answers(url string) bool {
	status, _ := get(url + "/readyz")
	return status == 200
}

// fleet is a router with the replicas behind it.
type fleet struct {
	url      string
	replicas []*live.Server
}

// start runs two replicas with settings behind r until the test ends.
func start(t *testing.T, r router, settings string) *fleet {
	t.Helper()
	return behind(t, r, live.Start(t, settings), live.Start(t, settings))
}

// behind runs r before two replicas until the test ends.
func behind(t *testing.T, r router, one, two *live.Server) *fleet {
	t.Helper()
	f := &fleet{replicas: []*live.Server{one, two}}
	port := freePort(t)
	f.url = "http://127.0.0.1:" + strconv.Itoa(port)
	cmd := r.command(t, port, []string{f.replicas[0].URL, f.replicas[1].URL})
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said := &output{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", r.name, err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		if t.Failed() {
			t.Logf("the last that %s said:\n%s", r.name, said)
		}
	})
	await(t, r.name+" knows both replicas", func() bool {
		select {
		case <-ended:
			t.Fatalf("%s ended:\n%s", r.name, said)
		default:
		}
		return r.ready(f.url)
	})
	return f
}

// output keeps the last of what a program says.
type output struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, b...)
	o.text = o.text[max(0, len(o.text)-8000):]
	return len(b), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

// freePort returns a port that nobody listens on now.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// await waits until ready is true.
func await(t *testing.T, what string, ready func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ready(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it is not so after %s: %s", patience, what)
		}
	}
}

// client keeps no connections, so that a router which balances connections would balance requests too.
var client = &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}

func get(url string) (status int, body string) {
	r, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(b)
}

// message is one of a conversation.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// reply is what a client gets.
type reply struct {
	status int
	header http.Header
	body   string
	text   string // of the assistant
}

// post sends a body of JSON; header pairs follow. An error of the connection is a reply with status 0.
func post(ctx context.Context, url string, body any, header ...string) reply {
	b, err := json.Marshal(body)
	if err != nil {
		return reply{body: err.Error()}
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		return reply{body: err.Error()}
	}
	q.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	r, err := client.Do(q)
	if err != nil {
		return reply{body: err.Error()}
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return reply{body: err.Error()}
	}
	return reply{status: r.StatusCode, header: r.Header, body: string(text)}
}

// noEnd forbids the tokens that end the demo model's texts.
var noEnd = map[string]int{"0": -100, "2": -100}

// chat asks for the next turn of a conversation.
func (f *fleet) chat(ctx context.Context, session string, turns []message, more map[string]any) reply {
	body := map[string]any{"model": "tgi-demo", "messages": turns, "temperature": 0}
	for name, v := range more {
		body[name] = v
	}
	var header []string
	if session != "" {
		header = []string{"X-Session-Id", session}
	}
	r := post(ctx, f.url+"/v1/chat/completions", body, header...)
	var whole struct{ Choices []struct{ Message message } }
	if r.status == 200 && json.Unmarshal([]byte(r.body), &whole) == nil && len(whole.Choices) == 1 {
		r.text = whole.Choices[0].Message.Content
	}
	return r
}

// ask asks one question, another for each n.
func (f *fleet) ask(ctx context.Context, n int, more map[string]any) reply {
	return f.chat(ctx, "", []message{{"user", fmt.Sprintf("%d: what is three plus four?", n)}}, more)
}

// counter returns a metric of a replica; name may have its first labels, those that are left are summed.
func counter(t *testing.T, s *live.Server, name string) (sum float64) {
	t.Helper()
	status, body := get(s.URL + "/metrics")
	if status != 200 {
		t.Fatalf("/metrics: %d %s", status, body)
	}
	for line := range strings.Lines(body) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || !strings.ContainsAny(rest[:1], " {},") {
			continue
		}
		fields := strings.Fields(rest)
		n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		sum += n
	}
	return sum
}
