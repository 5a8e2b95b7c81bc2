package scale

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tgi/conformance/live"
)

// event is one of the cache, as events.py shows it.
type event struct {
	Kind   string
	Hashes []uint64 `json:"block_hashes"`
	Parent *uint64  `json:"parent_block_hash"`
	Tokens []int    `json:"token_ids"`
	Size   int      `json:"block_size"`
	Medium string
}

// batch is a line of events.py.
type batch struct {
	Connected bool
	Topic     string
	Number    int64
	Events    []event
}

// cached is what a router knows of a cache: all tokens up to the end of a block, by its hash.
type cached map[uint64][]int

func (c cached) apply(t *testing.T, b batch) {
	t.Helper()
	for _, e := range b.Events {
		switch e.Kind {
		case "BlockStored":
			var before []int
			if e.Parent != nil {
				before = c[*e.Parent]
				if before == nil {
					t.Errorf("message %d: what is before a block was not stored", b.Number)
				}
			}
			if e.Size == 0 || len(e.Tokens) != e.Size*len(e.Hashes) || e.Medium != "GPU" {
				t.Fatalf("message %d: %+v", b.Number, e)
			}
			for i, h := range e.Hashes {
				before = append(slices.Clone(before), e.Tokens[i*e.Size:(i+1)*e.Size]...)
				c[h] = before
			}
		case "BlockRemoved":
			for _, h := range e.Hashes {
				delete(c, h)
			}
		case "AllBlocksCleared":
			clear(c)
		default:
			t.Fatalf("message %d: %+v", b.Number, e)
		}
	}
}

// has reports whether the blocks of a prompt are known.
func (c cached) has(tokens []int) bool {
	for _, known := range c {
		if n := len(known); n <= len(tokens) && n > len(tokens)-32 && slices.Equal(known, tokens[:n]) {
			return true
		}
	}
	return false
}

// reader runs events.py until the test ends. Its lines come by the result, which is closed after the last.
func reader(t *testing.T, args ...string) <-chan batch {
	t.Helper()
	home := live.Installed(t, "events.txt", func(to string) []*exec.Cmd {
		return []*exec.Cmd{
			exec.Command("python3", "-m", "venv", to),
			exec.Command(filepath.Join(to, "bin", "pip"), "install", "--quiet", "--disable-pip-version-check", "-r",
				"events.txt"),
		}
	})
	cmd := exec.Command(filepath.Join(home, "bin", "python"), append([]string{"events.py"}, args...)...)
	said := &output{}
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, ended := make(chan batch, 1<<16), make(chan struct{})
	go func() {
		defer close(ended)
		defer close(lines)
		in := bufio.NewReader(out)
		for {
			line, err := in.ReadString('\n')
			var b batch
			if err == nil {
				err = json.Unmarshal([]byte(line), &b)
			}
			if err != nil {
				return
			}
			lines <- b
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
		cmd.Wait()
		if t.Failed() {
			t.Logf("events.py %v said:\n%s", args, said)
		}
	})
	return lines
}

// TestEvents: readers with ZeroMQ's own library learn which prompts are cached, as they come and later,
// beside another reader that reads nothing.
func TestEvents(t *testing.T) {
	enabled(t)
	pub, again := freePort(t), freePort(t)
	endpoint, replay := fmt.Sprintf("tcp://127.0.0.1:%d", pub), fmt.Sprintf("tcp://127.0.0.1:%d", again)
	s := live.Start(t, fmt.Sprintf("[kv_events]\nendpoint = %q\nreplay_endpoint = %q\ntopic = \"kv@here@{model}\"\n"+
		"[runtime]\nkv_memory = \"1MiB\"\n", endpoint, replay))
	follower, other, slow := reader(t, endpoint, "kv@here@"), reader(t, endpoint, "kv@there@"),
		reader(t, "--slow", endpoint)
	for _, r := range []<-chan batch{follower, other, slow} {
		if b := <-r; !b.Connected {
			t.Fatal("a reader is not connected")
		}
	}
	prompt := func(i int) string { return fmt.Sprintf("%d. ", i) + strings.Repeat("I saw a red hat. ", 12) }
	ids := func(i int) (out []int) {
		r := post(t.Context(), s.URL+"/tokenize", map[string]any{"inputs": prompt(i)})
		var list []struct{ ID int }
		if err := json.Unmarshal([]byte(r.body), &list); r.status != 200 || err != nil || len(list) < 40 {
			t.Fatalf("/tokenize: %d %s", r.status, r.body)
		}
		for _, one := range list {
			out = append(out, one.ID)
		}
		return out
	}
	known, removed, next := cached{}, false, int64(0)
	learn := func(b batch) {
		if b.Topic != "kv@here@tgi-demo" || b.Number != next {
			t.Fatalf("message %d of %s, want %d", b.Number, b.Topic, next)
		}
		next++
		known.apply(t, b)
		removed = removed || slices.ContainsFunc(b.Events, func(e event) bool { return e.Kind == "BlockRemoved" })
	}
	const prompts = 60 // more than the cache holds
	for i := range prompts {
		r := post(t.Context(), s.URL+"/generate", map[string]any{"inputs": prompt(i),
			"parameters": map[string]any{"max_new_tokens": 2}})
		if r.status != 200 {
			t.Fatalf("%d %s", r.status, r.body)
		}
		if want := ids(i); i == 0 { // later ones may have the place of earlier ones
			for !known.has(want) {
				learn(<-follower)
			}
		}
	}
	for last := ids(prompts - 1); !known.has(last); {
		learn(<-follower)
	}
	if !removed || known.has(ids(0)) {
		t.Errorf("blocks were removed: %v; the first prompt is still known: %v", removed, known.has(ids(0)))
	}
	late := cached{} // who asks later
	for b := range reader(t, "--replay", replay, "0") {
		late.apply(t, b)
	}
	for _, hash := range []cached{known, late} {
		for h := range hash {
			if !slices.Equal(known[h], late[h]) {
				t.Errorf("block %d is %d tokens for who followed, %d for who came late", h, len(known[h]), len(late[h]))
			}
		}
	}
	from := next - 2
	for b := range reader(t, "--replay", replay, strconv.FormatInt(from, 10)) {
		if b.Number != from {
			t.Errorf("message %d is sent again, want %d", b.Number, from)
		}
		from++
	}
	if from < next {
		t.Errorf("messages up to %d were sent again, of %d", from, next)
	}
	select {
	case b := <-other:
		t.Errorf("a reader of another topic got %+v", b)
	default:
	}
	if t.Failed() {
		return
	}
	s.Stop(t)
	for len(known) > 0 {
		learn(<-follower)
	}
}
