package main

import (
	"cmp"
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"tgi/server/client/operate"
	"tgi/server/client/terminal"
	"tgi/server/client/top"
)

// newTop shows what servers do.
func newTop(c console) *cobra.Command {
	urls, key, once, every := []string{"http://127.0.0.1:3000"}, "", false, time.Second
	var out output
	cmd := &cobra.Command{
		Use:   "top [flags] [URL...]",
		Short: "Show what servers do now: models, queue, cache, tokens per second, plugins, keys",
		Long: `Show what the server at --url does now, every second until Ctrl-C: what each model's queue, rows and cache
hold, its tokens per second and the time of its steps, what plugins cost, and what keys have used. Of several servers it shows
a line each, their sum, and which versions of plugins they have. Servers tell this to admin keys alone. Where the output
is no terminal, or with --once or --json, it is shown once.`,
		Example: `  ADMIN_KEY=... tgi top
  tgi top http://gpu1:9000 http://gpu2:9000
  tgi top --url http://gpu1:9000 --json | jq .live.models[0].rates`,
		RunE: func(cmd *cobra.Command, words []string) error {
			if every < 100*time.Millisecond || every > time.Hour {
				return misused("--every must be between 100ms and 1h, given %s", every)
			}
			if len(words) > 0 && !cmd.Flags().Changed("url") {
				urls = nil
			}
			sources, err := top.Sources(append(urls, words...), operate.AdminKey(key, os.LookupEnv))
			if err != nil {
				return misused("--url: %v", err)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if !once && !out.json && c.shown {
				return top.Watch(ctx, sources, every, c.screen())
			}
			return c.topOnce(ctx, sources, out)
		},
	}
	set := cmd.Flags()
	set.StringArrayVar(&urls, "url", urls, "`root` of a server, or of its admin port; again for each of several")
	set.StringVar(&key, "key", "", "an admin `key` of the servers; by default the variable ADMIN_KEY has it")
	set.BoolVar(&once, "once", false, "show it once")
	set.DurationVar(&every, "every", every, "`time` between two readings")
	out.flag(cmd)
	return cmd
}

// topOnce prints one reading.
func (c console) topOnce(ctx context.Context, sources []top.Source, out output) error {
	answers := top.AskAll(ctx, sources, 10*time.Second)
	err := signalOr(ctx, top.Failed(answers))
	if err != nil && len(answers) == 1 {
		return err
	}
	if !out.json {
		return cmp.Or(c.screen().Print(answers), err)
	}
	if len(answers) == 1 {
		return printIndented(c.out, answers[0].Reading)
	}
	return cmp.Or(printIndented(c.out, map[string][]top.Answer{"servers": answers}), err)
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
