package clients

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// mcpServers builds two servers of the official Go SDK's examples, starts the one that listens, and returns the
// settings with both: hello is a process that this server starts, everything speaks streamable HTTP.
func mcpServers(t *testing.T) string {
	t.Helper()
	programs := t.TempDir()
	for _, name := range []string{"hello", "everything"} {
		build := exec.Command("go", "build", "-o", filepath.Join(programs, name),
			"github.com/modelcontextprotocol/go-sdk/examples/server/"+name)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", build, err, out)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	server := exec.Command(filepath.Join(programs, "everything"), "-http", address)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	for range 100 {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = c.Close()
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Sprintf("[[mcp]]\nname = \"hello\"\ncommand = [%q]\n"+
		"[[mcp]]\nname = \"everything\"\nendpoint = \"http://%s\"\nallowed_tools = [\"greet\"]\n",
		filepath.Join(programs, "hello"), address)
}
