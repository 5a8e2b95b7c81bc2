// Package mcptest is a server of the Model Context Protocol with tools that behave and tools that do not, on the
// official SDK, for tests: the test's own program runs it where Run says so.
package mcptest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Variable has a program that calls Run be a server; its value says which: "tools" has all tools, "garbage" speaks no
// protocol, "huge" sends a line without an end, "silent" never answers, "deaf" reads nothing once it is connected.
const Variable = "TGI_MCPTEST_SERVER"

// Run runs the server and ends the program, where Variable is set. TestMain calls it first.
func Run() {
	kind := os.Getenv(Variable)
	switch kind {
	case "":
		return
	case "tools":
		if err := New().Run(context.Background(), &sdk.StdioTransport{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "garbage":
		fmt.Println("this is no JSON")
		fmt.Fprintln(os.Stderr, "I do not know how to speak")
		select {}
	case "huge":
		part := strings.Repeat("x", 1<<20)
		fmt.Print(`{"jsonrpc":"2.0","id":1,"result":"`)
		for {
			if _, err := fmt.Print(part); err != nil {
				os.Exit(1)
			}
		}
	case "silent":
		select {}
	}
	os.Exit(0)
}

// Greeting is what the tool greet takes.
type Greeting struct {
	Name string `json:"name" jsonschema:"who is greeted"`
}

// Amount is how much some tools do.
type Amount struct {
	N int `json:"n"`
}

// Nothing is what other tools take.
type Nothing struct{}

// New returns a server with the tools: greet, slow, big, fails, crash, shout, flood, change, child, environment.
func New() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "mcptest", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "greet", Description: "says hi",
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *sdk.CallToolRequest, in Greeting) (*sdk.CallToolResult, any, error) {
			return say("Hi " + in.Name), nil, nil
		})
	add := func(name, what string, do func(ctx context.Context, n int) (string, error)) {
		sdk.AddTool(s, &sdk.Tool{Name: name, Description: what},
			func(ctx context.Context, _ *sdk.CallToolRequest, in Amount) (*sdk.CallToolResult, any, error) {
				text, err := do(ctx, in.N)
				return say(text), nil, err
			})
	}
	add("slow", "takes n milliseconds", func(ctx context.Context, n int) (string, error) {
		select {
		case <-time.After(time.Duration(n) * time.Millisecond):
			return "done", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	add("big", "answers with n bytes", func(_ context.Context, n int) (string, error) {
		return strings.Repeat("x", n), nil
	})
	add("fails", "fails", func(context.Context, int) (string, error) { return "", fmt.Errorf("it is broken") })
	add("crash", "ends the server", func(context.Context, int) (string, error) {
		fmt.Fprintln(os.Stderr, "I am tired")
		os.Exit(3)
		return "", nil
	})
	add("shout", "writes n KiB to the log", func(_ context.Context, n int) (string, error) {
		for range n {
			fmt.Fprintln(os.Stderr, strings.Repeat("!", 1023))
		}
		return "shouted", nil
	})
	add("flood", "sends n notifications first", func(_ context.Context, n int) (string, error) {
		line := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` +
			strings.Repeat("x", 1000) + `"}}` + "\n"
		for range n {
			if _, err := os.Stdout.WriteString(line); err != nil {
				return "", err
			}
		}
		return "flooded", nil
	})
	add("change", "is replaced by another tool", func(context.Context, int) (string, error) {
		s.RemoveTools("change")
		sdk.AddTool(s, &sdk.Tool{Name: "changed", Description: "new"},
			func(context.Context, *sdk.CallToolRequest, Nothing) (*sdk.CallToolResult, any, error) {
				return say("new"), nil, nil
			})
		return "changed", nil
	})
	add("child", "starts a process and says which", func(context.Context, int) (string, error) {
		c := exec.Command("sleep", "600")
		if err := c.Start(); err != nil {
			return "", err
		}
		return fmt.Sprint(c.Process.Pid), nil
	})
	add("environment", "tells its variables", func(context.Context, int) (string, error) {
		return strings.Join(os.Environ(), "\n"), nil
	})
	return s
}

// Handler serves the tools over HTTP.
func Handler() http.Handler {
	s := New()
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
}

func say(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}
