package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"

	"github.com/spf13/cobra"

	"tgi/server/client/call"
	"tgi/server/client/replay"
)

// newReplay sends kept requests again.
func newReplay(c console) *cobra.Command {
	var asked askedFlags
	var out output
	var request, path string
	var options replay.Options
	var keys []string
	cmd := &cobra.Command{
		Use: "replay [flags] FILE", Short: "Send kept requests again and say what differs",
		Long: `Send requests that were kept with their replies again, and compare the tokens or, where no receipt tells of those, the
texts. Where a reply has a receipt its seed is sent along, and what the reply follows from is compared too: model,
weights, plugins, template, settings, prompt. FILE is what ` + "`tgi explain --save`" + ` writes, several of those behind each
other, what a server records (record.folder), or with --request the JSON of a reply; - stands for what comes on the pipe.

A recorded request names the key that it came with, and never holds it. --key-of NAME=KEY sends those of the key NAME
with KEY, --key all others.`,
		Example: `  tgi explain --save story.json "Tell me a story."
  tgi replay story.json --url http://127.0.0.1:3000
  tgi replay --url http://127.0.0.1:3000 --key-of school=@school.key records/requests.jsonl
  curl localhost:3000/generate --json @body.json | tgi replay --request body.json --path /generate -`,
		Args: takesOne("replay takes one file, got %d"),
		Annotations: map[string]string{settingsShown: askedSettings,
			exitNote: "; 1 also for a difference, 3 if that cannot be told"},
		RunE: func(cmd *cobra.Command, words []string) error {
			if err := asked.check(cmd); err != nil {
				return err
			}
			switch {
			case (path == "") != (request == ""):
				return misused("--request and --path go together")
			case request == "-" && words[0] == "-":
				return misused("FILE and --request are not both on the pipe")
			case asked.url == "" && len(keys) > 0:
				return misused("--key-of belongs to the server at --url")
			}
			var err error
			if options.Keys, err = replay.ReadKeys(keys); err != nil {
				return misused("--key-of: %s", err)
			}
			list, err := replay.Load(c.in, words[0], request, path)
			if err != nil {
				return err
			}
			for name := range options.Keys { // a misspelt one would send with another key
				if !slices.ContainsFunc(list, func(e replay.Exchange) bool { return e.Key == name }) {
					return misused("--key-of: no request of %s came with a key called %.64q", words[0], name)
				}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			asks, done, err := c.caller(ctx, &asked)
			if err != nil {
				return signalOr(ctx, err)
			}
			defer done()
			return c.replay(ctx, asks, list, options, out)
		},
	}
	set := cmd.Flags()
	set.StringVar(&request, "request", "", "`file` with the body of the request whose reply FILE is")
	set.StringVar(&path, "path", "", "`path` that this request was sent to, such as /generate")
	set.BoolVar(&options.Unchanged, "unchanged", false,
		"send bodies without the receipt's seed and without asking for a receipt: as they are, but for Ollama's "+
			"keep_alive and the generate API's request_id")
	set.StringArrayVar(&keys, "key-of", nil, "`NAME=KEY` of requests that came with the key NAME; NAME=@FILE reads it "+
		"from a file. May be repeated")
	out.flag(cmd)
	asked.add(cmd)
	return cmd
}

// replay sends the exchanges and prints a report for each.
func (c console) replay(ctx context.Context, asks *call.Caller, list []replay.Exchange, o replay.Options,
	out output) error {
	tally, err := replay.RunAll(ctx, asks, list, o, func(r replay.Report) (err error) {
		if out.json {
			return printJSON(c.out, r)
		}
		_, err = fmt.Fprint(c.out, r.String())
		return err
	})
	if err == nil && !out.json && len(list) > 1 {
		_, err = fmt.Fprintln(c.out, tally)
	}
	switch {
	case err != nil || tally.Same():
		return err
	case tally.Unknown():
		return errUnknown
	}
	return errReported
}
