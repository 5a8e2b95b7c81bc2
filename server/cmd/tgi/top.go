package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"tgi/server/client/call"
	"tgi/server/client/operate"
	"tgi/server/client/terminal"
	"tgi/server/client/top"
)

// newTop shows what a server does.
func newTop(c console) *cobra.Command {
	url, key, once, every := "http://127.0.0.1:3000", "", false, time.Second
	var out output
	cmd := &cobra.Command{
		Use: "top [flags]", Short: "Show what a server does now: models, queue, cache, tokens per second, plugins, keys",
		Args: takesNothing,
		Long: `Show what the server at --url does now, every second until Ctrl-C: what each model's queue, rows and cache hold,
its tokens per second and the time of its steps, what plugins cost, and what keys have used. The server tells this to
admin keys alone. Where the output is no terminal, or with --once or --json, it is shown once.`,
		Example: `  ADMIN_KEY=... tgi top
  tgi top --url http://gpu1:9000 --json | jq .live.models[0].rates`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if every < 100*time.Millisecond || every > time.Hour {
				return misused("--every must be between 100ms and 1h, given %s", every)
			}
			asks, err := call.New(url, operate.AdminKey(key, os.LookupEnv), nil)
			if err != nil {
				return misused("--url: %v", err)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if !once && !out.json && c.shown {
				return top.Watch(ctx, asks, every, c.screen())
			}
			return c.topOnce(ctx, asks, out)
		},
	}
	set := cmd.Flags()
	set.StringVar(&url, "url", url, "`root` of the server, or of its admin port")
	set.StringVar(&key, "key", "", "an admin `key` of the server; by default the variable ADMIN_KEY has it")
	set.BoolVar(&once, "once", false, "show it once")
	set.DurationVar(&every, "every", every, "`time` between two readings")
	out.flag(cmd)
	return cmd
}

// topOnce prints one reading.
func (c console) topOnce(ctx context.Context, asks *call.Caller, out output) error {
	limited, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := top.Ask(limited, asks)
	if err != nil {
		return signalOr(ctx, err)
	}
	if out.json {
		return printIndented(c.out, r)
	}
	return c.screen().Print(r)
}

func (c console) screen() top.Screen {
	return top.Screen{Out: c.out, Size: screenSize, ASCII: !terminal.UTF8(os.LookupEnv)}
}

// screenSize is that of the terminal, or a usual one.
func screenSize() (columns, rows int) {
	columns, rows, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || columns < 1 || rows < 1 {
		return 120, 40
	}
	return columns, rows
}
