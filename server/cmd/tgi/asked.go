package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tgi/server/client/call"
	"tgi/server/client/chat"
	"tgi/server/client/operate"
	"tgi/server/config"
)

// askedFlags say which server a command asks: one by its URL, or the configured model in this process.
type askedFlags struct {
	url, key string
	settings *config.Flags
}

// askedSettings are the settings that help lists of commands that may open a model.
const askedSettings = "config,model-id,chat-template,tool-call-parser,weights,models-folder,plugins-folder"

// add adds the flags to cmd.
func (f *askedFlags) add(cmd *cobra.Command) {
	f.settings = &config.Flags{}
	set := cmd.Flags()
	set.StringVar(&f.url, "url", "", "the server's `URL`; without it the model is opened in this process")
	set.StringVar(&f.key, "key", "", "the server's API `key`")
	addSettings(cmd, f.settings)
}

// check refuses flags that do not go together.
func (f *askedFlags) check(cmd *cobra.Command) error {
	if f.url == "" && f.key != "" {
		return misused("--key belongs to the server at --url")
	}
	if name := givenSetting(cmd); f.url != "" && name != "" {
		return misused("--%s is for a model in this process, not for the server at --url", name)
	}
	return nil
}

// givenSetting is the last flag of a setting that a command was given, "" for none.
func givenSetting(cmd *cobra.Command) (name string) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if flag.Annotations[config.FlagVariables] != nil || flag.Annotations[config.FlagNoEffect] != nil ||
			flag.Name == operate.ChangeKinds {
			name = flag.Name
		}
	})
	return name
}

// caller returns what asks the server, and a function that ends it.
func (c console) caller(ctx context.Context, f *askedFlags) (*call.Caller, func(), error) {
	if f.url != "" {
		asks, err := call.New(f.url, f.key, nil)
		return asks, func() {}, err
	}
	loaded, err := loadConfig(f.settings)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range loaded.Notices {
		fmt.Fprintln(c.errors, "tgi:", n)
	}
	h, err := c.open(ctx, loaded.Config)
	if err != nil {
		return nil, nil, err
	}
	asks, err := call.New(inProcess, "", chat.Inside(h))
	return asks, func() { _ = h.Close() }, err // nothing is left to lose
}
