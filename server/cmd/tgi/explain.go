package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/spf13/cobra"

	"tgi/server/api/openai"
	"tgi/server/client/chat"
	"tgi/server/client/explain"
	"tgi/server/client/replay"
)

// explainFlags are the flags of `tgi explain` itself.
type explainFlags struct {
	asked       askedFlags
	out         output
	text        bool
	model, save string
	top, tokens int
	changes     bool
	candidates  bool
	pairs       []string
}

// newExplain tells how tokens came to be.
func newExplain(c console) *cobra.Command {
	f := &explainFlags{}
	cmd := &cobra.Command{
		Use: "explain [flags] [MESSAGE]", Short: "Show how each token of a reply came to be",
		Long: `Ask a model, and show who changed what before each token was chosen: the mask of a grammar, settings, plugins, the
sampler, guesses. Without a message, or with a file *.json or *.sse for one, a reply to a request with ` + "`explain`" + ` is
shown, in one piece or a stream, or a file that --save wrote. NO_COLOR switches colours off.`,
		Example: `  tgi explain "What is 3 plus 4?" --candidates
  tgi explain --text "Once upon a time" --set top_p=0.9 --set max_tokens=20
  tgi explain --save story.json "Tell me a story."       # tgi replay sends it again
  curl localhost:3000/generate --json @body.json | tgi explain`,
		Annotations: map[string]string{settingsShown: askedSettings},
		RunE: func(cmd *cobra.Command, words []string) error {
			if err := f.asked.check(cmd); err != nil {
				return err
			}
			if len(words) == 0 || len(words) == 1 && isReply(words[0]) {
				name := "-"
				if len(words) > 0 {
					name = words[0]
				}
				if f.save != "" {
					return misused("--save keeps a request with its reply: it needs a message")
				}
				data, err := replay.ReadInput(c.in, name)
				if err != nil {
					return err
				}
				reply, err := explain.Kept(data)
				if err != nil {
					return fmt.Errorf("%s: %w", replay.InputName(name), err)
				}
				return c.showExplained(f, replay.InputName(name), reply)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			return signalOr(ctx, c.explain(ctx, f, strings.Join(words, " ")))
		},
	}
	set := cmd.Flags()
	set.BoolVar(&f.text, "text", false, "let the model go on with the message, without a chat template")
	set.StringVar(&f.model, "model", "", "`name` of the server's model, if it has several")
	set.IntVar(&f.top, "top", 5, "so `many` of the likeliest tokens are told of")
	set.IntVar(&f.tokens, "tokens", 256, "so `many` tokens are explained")
	set.BoolVar(&f.changes, "changes", true, "show what each of those that change a distribution did")
	set.BoolVar(&f.candidates, "candidates", false, "show the likeliest tokens")
	set.StringVar(&f.save, "save", "", "`file` to write request and reply to, for tgi replay")
	set.StringArrayVar(&f.pairs, "set", nil,
		"member of requests as `KEY=VALUE`, such as temperature=0.7, or as two words; may be given several times")
	set.Lookup("set").Annotations = map[string][]string{pairFlag: {}}
	complete(cmd, "set", pairsOf(openai.ChatMembers())...)
	f.out.flag(cmd)
	f.asked.add(cmd)
	return cmd
}

// isReply reports whether a message names a file with a reply, or the pipe.
func isReply(message string) bool {
	return message == "-" || strings.HasSuffix(message, ".json") || strings.HasSuffix(message, ".sse")
}

// explain asks a model and shows what came of it.
func (c console) explain(ctx context.Context, f *explainFlags, message string) error {
	q := explain.Question{Message: message, Text: f.text, Model: f.model, Top: f.top, Tokens: f.tokens,
		Settings: map[string]json.RawMessage{}}
	for _, pair := range f.pairs {
		key, text := chat.CutSetting(pair)
		value, err := chat.Members{Names: openai.ChatMembers()}.Setting(key, text)
		if err != nil {
			return misused("--set: %v", err)
		}
		q.Settings[key] = value
	}
	asks, done, err := c.caller(ctx, &f.asked)
	if err != nil {
		return err
	}
	defer done()
	kept, err := explain.Ask(ctx, asks, q)
	if err == nil && f.save != "" {
		err = kept.Write(f.save)
	}
	if err != nil {
		return err
	}
	return c.showExplained(f, "", kept.Reply)
}

// showExplained prints the explanations of a reply; name is what errors call a file of it.
func (c console) showExplained(f *explainFlags, name string, reply []byte) error {
	texts, err := explain.Read(reply)
	if err != nil && name != "" {
		err = fmt.Errorf("%s: %w", name, err)
	}
	if err != nil {
		return explain.PrintReceipts(c.out, c.errors, err)
	}
	if f.out.json {
		return printIndented(c.out, texts)
	}
	return explain.Print(c.out, texts, explain.Options{Colour: c.colour, Changes: f.changes, Candidates: f.candidates})
}
