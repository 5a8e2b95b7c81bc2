package check_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var listening = regexp.MustCompile(`msg="Listening on" address=(\S+)`)

// prometheus starts Prometheus with the settings of examples/deploy beside a server, quicker, and returns its URL.
func prometheus(t *testing.T, server string) string {
	t.Helper()
	folder := t.TempDir()
	at := strings.TrimPrefix(server, "http://")
	settings := strings.NewReplacer("tgi:3000", at, "15s", "1s").Replace(read(t, "prometheus", "prometheus.yml"))
	if !strings.Contains(settings, at) {
		t.Fatal("prometheus.yml reads another server than tgi:3000")
	}
	write(t, filepath.Join(folder, "prometheus.yml"), settings)
	write(t, filepath.Join(folder, "alerts.yml"), read(t, "prometheus", "alerts.yml"))
	ctx, stop := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "prometheus", "--config.file="+filepath.Join(folder, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(folder, "data"), "--web.listen-address=127.0.0.1:0")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	log, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("prometheus: %v: install it (.ci/toolchains does)", err)
	}
	address, all := make(chan string, 1), &strings.Builder{}
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(address)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			all.WriteString(lines.Text() + "\n")
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				address <- m[1]
			}
		}
	})
	t.Cleanup(func() {
		stop()
		reader.Wait()
		_ = cmd.Wait()
	})
	got, ok := <-address
	if !ok {
		t.Fatalf("prometheus did not start:\n%s", all)
	}
	return "http://" + got
}

// TestBoardsShowData: beside a server that answers requests, Prometheus has data for every panel of TGI's own board, as it
// was published, and of ours; and none of the alerts is raised.
func TestBoardsShowData(t *testing.T) {
	server := serve(t, "--admin-key", "boss")
	trial(t, server)
	at := prometheus(t, server)
	boards := map[string]queries{"TGI's board": theirBoard(t), "tgi's board": ourBoard(t)}
	var empty []string
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) {
		busy(t, server)
		empty = nil
		for name, q := range boards {
			for panel, expr := range q {
				if len(result(t, at, expr)) == 0 {
					empty = append(empty, name+", "+panel+": "+expr)
				}
			}
		}
		if len(empty) == 0 {
			break
		}
	}
	if len(empty) > 0 {
		t.Errorf("no data for\n%s", strings.Join(empty, "\n"))
	}
	for _, alert := range result(t, at, `ALERTS{alertstate="firing"}`) {
		t.Errorf("a server that does well raises %v", alert)
	}
}

// result asks Prometheus and returns the series that a query finds now.
func result(t *testing.T, at, query string) []any {
	t.Helper()
	var reply struct {
		Data struct{ Result []any }
	}
	if err := json.Unmarshal(get(t, at+"/api/v1/query?query="+url.QueryEscape(query)), &reply); err != nil {
		t.Fatal(err)
	}
	return reply.Data.Result
}
