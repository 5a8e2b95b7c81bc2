package operate

import (
	"context"

	"github.com/spf13/pflag"

	"tgi/server/api/admin"
)

// Verb is a command of tgi plugin that asks a server about one of its plugins.
type Verb struct {
	// Use, Short, Long and Example are what help says; without Long it says Short.
	Use, Short, Long, Example string
	// Words is how many it takes, at most; the first is the plugin.
	Words int
	// Lines says that each result is a line of its own.
	Lines bool
	// Follows says whether Run goes on until its context ends; nil is no.
	Follows func() bool
	// Flags adds those of the command; nil adds none.
	Flags func(*pflag.FlagSet)
	// Before finds out, before Run changes anything at one of several servers, whether it can be done at each: it sets
	// the plan of each in plans. Its error is of the command itself. nil finds out nothing.
	Before func(ctx context.Context, all Fleet, words []string, plans []Plan) error
	// Run asks the server, and says what for: as a value, for programs, and as a text.
	Run func(ctx context.Context, at *Server, words []string, say func(v any, text string) error) error
}

// Verbs are the commands; read reads the file of a module.
func Verbs(read func(file string) ([]byte, error)) []Verb {
	to, follow, c, u := "", false, Canary{Read: read}, Upload{Read: read}
	type say = func(v any, text string) error
	tell := func(say say, v any, text string, err error) error {
		if err != nil {
			return err
		}
		return say(v, text)
	}
	return []Verb{{
		Use: "upload [flags] NAME FILE", Words: 2, Flags: u.Flags,
		Short: "Have a server load a module, in place of one that was uploaded under the name before",
		Example: `  tgi plugin upload dog dog.wasm --dry-run
  tgi plugin upload dog dog.wasm --url http://one:3000 --url http://two:3000
  tgi plugin upload dog dog.wasm --apply always --keys school --on-error fail --limits memory=64MiB,share=0.5`,
		Before: u.before,
		Run: func(ctx context.Context, at *Server, words []string, say say) error {
			v, text, err := u.Run(ctx, at, words[0], append(words, "")[1])
			return tell(say, v, text, err)
		},
	}, {
		Use: "versions [flags] NAME", Words: 1,
		Short: "List the versions that a server keeps of an uploaded plugin",
		Run: func(ctx context.Context, at *Server, words []string, say say) error {
			list, text, err := at.Versions(ctx, words[0])
			return tell(say, list, text, err)
		},
	}, {
		Use: RollbackVerb + " [flags] NAME", Words: 1,
		Short: "Have an earlier version of a plugin serve again, uploaded or installed",
		Long: `Have an earlier version of a plugin serve again.
With --url or --key the server there goes back to an earlier upload. Without them it depends on the settings' file: if
that has the plugin from a registry, the file locks again what tgi plugin install replaced, and no server is asked;
otherwise the server at the default URL is asked. The command says which of the two it does before it does it, and what
it changed.`,
		Example: `  tgi plugin rollback dog                              # what tgi.toml has from a registry, else an upload
  tgi plugin rollback dog --url http://127.0.0.1:3000 --to 3f8a
  tgi plugin rollback dog --config /etc/tgi/tgi.toml   # this file, and no server`,
		Flags: func(set *pflag.FlagSet) {
			set.StringVar(&to, RollbackTo, "", "`sha256` of the version, or its first digits; by default the latest serves. "+
				"Behind a point the ID of its settings, where versions tells it")
		},
		Before: func(ctx context.Context, all Fleet, words []string, plans []Plan) (err error) {
			to, err = beforeRollback(ctx, all, words[0], to, plans) // Run has the whole of it sent
			return err
		},
		Run: func(ctx context.Context, at *Server, words []string, say say) error {
			got, text, err := at.Rollback(ctx, words[0], to)
			return tell(say, got, text, err)
		},
	}, {
		Use: RemoveVerb + " [flags] NAME|REFERENCE", Words: 1,
		Short: "Remove an installed plugin from the settings, a pulled one from the index, or an upload from a server",
		Long: `Remove an installed plugin, or a pulled one from the local index; with --url or --key an upload from a server.
Of an installed plugin go its [[plugin]] in the settings' file; of the folder plugins.installed the modules
NAME-DIGITS.wasm of all its versions, what stands beside them (.wasm.artifact.json) and NAME.past.json, the versions
that could come back; and its artefact in the local index. Files that another [[plugin]] names stay, and so do a
source that is not of that folder and other artefacts of the index. The command names each file that it removed, and
the artefacts of the same repository that stay.
Of an upload go all versions that the server keeps, for good, its canary and its log.`,
		Example: `  tgi plugin rm dog                               # of tgi.toml
  tgi plugin rm registry.example/plugins/dog:1    # of the local index
  tgi plugin rm dog --url http://127.0.0.1:3000   # an upload`,
		Before: beforeRemove,
		Run: func(ctx context.Context, at *Server, words []string, say say) error {
			got, text, err := at.Remove(ctx, words[0])
			return tell(say, got, text, err)
		},
	}, {
		Use: "canary [flags] NAME [FILE]", Words: 2, Flags: c.Flags,
		Short: "Try a new version on a share of the requests; show, promote or end it",
		Example: `  tgi plugin canary dog dog.wasm --share 5% --shadow --promote-after 1000
  tgi plugin canary dog --promote`,
		Before: c.before,
		Run: func(ctx context.Context, at *Server, words []string, say say) error {
			v, text, err := c.Run(ctx, at, words[0], append(words, "")[1])
			return tell(say, v, text, err)
		},
	}, {
		Use: "logs [flags] NAME", Words: 1, Lines: true,
		Short: "Show what a plugin printed lately on a server, and what the server says of it",
		Long: `Show the lines that a server keeps of a plugin, the oldest first: time, level (debug, info, warn or error), whose
line it is, and its text. Lines of guest are what the module printed. Those of host are what the server did with it:
it loaded a version, rejected one and why, began or aborted a canary, or a call of the module failed in a request.
Behind whose line it is stands /canary or /shadow where it is of a version that is tried beside the one that serves.
The last 512 lines are kept, of at most 64 KiB together, until the server ends.`,
		Example: `  tgi plugin logs dog --follow
  tgi plugin logs dog --url http://127.0.0.1:3000 --json | jq -r 'select(.of == "host").text'`,
		Flags: func(set *pflag.FlagSet) {
			set.BoolVarP(&follow, "follow", "f", false, "go on with new lines until Ctrl-C")
		},
		Follows: func() bool { return follow },
		Run: func(ctx context.Context, at *Server, words []string, say say) error {
			return at.Log(ctx, words[0], 0, follow, func(l admin.LogLine) error { return say(l, lineText(l)) })
		},
	}}
}

// ChangeKinds is the flag of what puts a plugin in the place of another.
const ChangeKinds = "change-kinds"

// KindsFlag adds the flag ChangeKinds.
func KindsFlag(set *pflag.FlagSet, to *bool) {
	set.BoolVar(to, ChangeKinds, false, "replace a plugin of other kinds too, such as a guard by a sampler")
}

// RollbackVerb is the verb that may need no server, RollbackTo its flag.
const (
	RollbackVerb = "rollback"
	RollbackTo   = "to"
)
