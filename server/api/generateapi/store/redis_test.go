package store

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startRedis runs Debian's redis-server on a socket of its own and returns its
// URL and what ends it. Without the program the test is skipped.
func startRedis(t *testing.T, dir string) (url string, stop func()) {
	t.Helper()
	url, stop, _ = runRedis(t, dir)
	return url, stop
}

// runRedis is startRedis that also returns the process.
func runRedis(t *testing.T, dir string) (url string, stop func(), process *os.Process) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(stop)
	late := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	for sc := bufio.NewScanner(out); ; {
		if !sc.Scan() {
			t.Fatal("redis-server ended")
		}
		if strings.Contains(strings.ToLower(sc.Text()), "ready to accept connections") {
			return "unix://" + socket, stop, cmd.Process
		}
	}
}

// short is a folder whose path fits into the address of a socket.
func short(t *testing.T) string {
	dir, err := os.MkdirTemp("", "redis")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func openRedis(t *testing.T, url string) *Redis {
	t.Helper()
	s, err := OpenRedis(url, Limits{TTL: time.Hour, MaxState: 1000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestContinuationRedis(t *testing.T) {
	url, _ := startRedis(t, short(t))
	follow(t, openRedis(t, url))
}

// TestContinuationRedisReplicas: what one replica claims and keeps is so for all.
func TestContinuationRedisReplicas(t *testing.T) {
	url, _ := startRedis(t, short(t))
	here, there := openRedis(t, url), openRedis(t, url)
	key := KeyOf("k", []string{"a"})
	ctx := t.Context()
	mine, err := here.Claim(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := there.Claim(ctx, key); !errors.Is(err, ErrBusy) {
		t.Errorf("claimed by both: %v", err)
	}
	keys := mine.(*redisClaim).keys
	if ttl := here.client.PTTL(ctx, keys[1]).Val(); ttl <= 0 || ttl > claimLasts {
		t.Errorf("the claim of a dead process would last %v", ttl)
	}
	if err := mine.Save(ctx, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if ttl := here.client.PTTL(ctx, keys[0]).Val(); ttl <= 59*time.Minute || ttl > time.Hour {
		t.Errorf("the state is kept for %v", ttl)
	}

	// The claim ends while its holder is cut off, and another replica goes on.
	for _, end := range []func(Claim) error{
		func(c Claim) error { return c.Save(ctx, []byte("late")) },
		func(c Claim) error { return c.Drop(ctx) },
		func(c Claim) error { c.Release(); return ErrLost },
	} {
		late, err := here.Claim(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		here.client.Del(ctx, keys[1])
		next, err := there.Claim(ctx, key)
		if err != nil || string(next.State()) != "one" {
			t.Fatalf("%v", err)
		}
		if err := end(late); !errors.Is(err, ErrLost) {
			t.Errorf("the late one: %v", err)
		}
		if _, err := there.Claim(ctx, key); !errors.Is(err, ErrBusy) {
			t.Errorf("the late one gave the other's claim back: %v", err)
		}
		if err := next.Save(ctx, []byte("one")); err != nil {
			t.Error(err)
		}
	}
}

// TestContinuationRedisRenews: a claim lasts as long as its holder lives.
func TestContinuationRedisRenews(t *testing.T) {
	url, _ := startRedis(t, short(t))
	s := openRedis(t, url)
	s.renews = time.Millisecond
	c, err := s.Claim(t.Context(), Key{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	key := c.(*redisClaim).keys[1]
	s.client.PExpire(t.Context(), key, claimLasts/2)
	for s.client.PTTL(t.Context(), key).Val() <= claimLasts/2 {
		if t.Context().Err() != nil {
			t.Fatal("the claim is not renewed")
		}
	}
}

// TestContinuationRedisTruncates: a value that somebody else wrote does not fill
// the memory.
func TestContinuationRedisTruncates(t *testing.T) {
	url, _ := startRedis(t, short(t))
	s := openRedis(t, url)
	s.client.Set(t.Context(), "tgi:{"+Key{}.String()+"}:state", strings.Repeat("x", 1<<20), 0)
	c, err := s.Claim(t.Context(), Key{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	if n := len(c.State()); n != 1001 {
		t.Errorf("%d bytes were read", n)
	}
}

// TestContinuationRedisEnds: a Redis that ends is noticed, and one that comes back
// is used.
func TestContinuationRedisEnds(t *testing.T) {
	dir := short(t)
	url, stop := startRedis(t, dir)
	s := openRedis(t, url)
	var claims []Claim
	for i := range 3 {
		c, err := s.Claim(t.Context(), Key{byte(i)})
		if err != nil {
			t.Fatal(err)
		}
		claims = append(claims, c)
	}
	stop()
	if err := claims[0].Save(t.Context(), []byte("one")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Save: %v", err)
	}
	if err := claims[1].Drop(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Drop: %v", err)
	}
	claims[2].Release()
	if _, err := s.Claim(t.Context(), Key{9}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Claim: %v", err)
	}
	os.Remove(filepath.Join(dir, "s"))
	startRedis(t, dir)
	keep(t, s, "a", "one")
	if got := kept(t, s, "a"); got != "one" {
		t.Errorf("after it came back: %q", got)
	}
}

func TestContinuationRedisURL(t *testing.T) {
	for _, url := range []string{"http://x", "redis://x/no-number", "redis://x?no_such_option=1", ""} {
		if s, err := OpenRedis(url, Limits{}); err == nil {
			s.Close()
			t.Errorf("%q is taken", url)
		} else if !strings.HasPrefix(err.Error(), "generate_api.store.redis_url: ") {
			t.Error(err)
		}
	}
}
