package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tgi/server/config"
)

// pairFlag annotates a flag that takes KEY VALUE as well as KEY=VALUE.
const pairFlag = "pair"

// normalise returns args in the forms that pflag knows: long flags with two dashes, where one
// is accepted too, and pairs joined by =. It refuses verbs that do not exist.
func normalise(root *cobra.Command, args []string) ([]string, error) {
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return args, nil
	}
	cmd, rest := root, args
	for cmd.HasAvailableSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		at := slices.IndexFunc(cmd.Commands(), func(sub *cobra.Command) bool {
			return sub.Name() == rest[0] || sub.HasAlias(rest[0])
		})
		switch {
		case at >= 0:
			cmd, rest = cmd.Commands()[at], rest[1:]
		case rest[0] == "help": // tgi model help pull
			path := strings.Fields(cmd.CommandPath())[1:]
			return slices.Concat([]string{"help"}, path, rest[1:]), nil
		default:
			return nil, unknownVerb(cmd, rest[0]).in(cmd)
		}
	}
	if cmd.HasAvailableSubCommands() && len(rest) == 0 {
		writeHelp(root.ErrOrStderr(), cmd)
		return nil, misused("a command is missing")
	}
	verb := args[:len(args)-len(rest)]
	return append(slices.Clone(verb), longForms(cmd, rest)...), nil
}

// unknownVerb names the subcommand that was probably meant.
func unknownVerb(cmd *cobra.Command, name string) usageError {
	var names []string
	for _, sub := range cmd.Commands() {
		names = append(names, sub.Name())
	}
	asked := strings.TrimPrefix(cmd.CommandPath()+" "+name, "tgi ")
	near := config.Suggest(name, names)
	var of []*cobra.Command // which have it as a flag
	for _, sub := range cmd.Commands() {
		if sub.Flags().Lookup(name) != nil {
			of = append(of, sub)
		}
	}
	if near == "" && len(of) == 1 {
		near = "; did you mean `" + strings.Replace(of[0].UseLine(), "[flags]", "--"+name, 1) + "`?"
	}
	return usageError("unknown command " + asked + near)
}

// longForms rewrites the flags among the arguments of a command.
func longForms(cmd *cobra.Command, args []string) (out []string) {
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "--" {
			return append(out, args[i:]...)
		}
		name, value, inline := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if len(a) < 2 || a[0] != '-' || a[1] != '-' && shorthand(cmd.Flags(), name) {
			out = append(out, a)
			continue
		}
		f := cmd.Flags().Lookup(name)
		if f != nil && f.NoOptDefVal == "" && !inline && i+1 < len(args) {
			i++
			value, inline = args[i], true
		}
		if f != nil && f.Annotations[pairFlag] != nil && !strings.ContainsAny(value, "= \t\n") && i+1 < len(args) {
			i++
			value += "=" + args[i]
		}
		a = "--" + name
		if inline {
			a += "=" + value
		}
		out = append(out, a)
	}
	return out
}

// shorthand reports whether what follows one dash is a flag of one letter, perhaps with its value.
func shorthand(set *pflag.FlagSet, name string) bool {
	if name == "" || set.Lookup(name) != nil {
		return false
	}
	f := set.ShorthandLookup(name[:1])
	return f != nil && (len(name) == 1 || f.NoOptDefVal == "" && strings.Trim(name[1:], "0123456789") == "")
}

// flagError says what is wrong with a flag, in the words of every command.
func flagError(cmd *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		invalid *pflag.InvalidValueError
	)
	switch {
	case errors.As(err, &unknown):
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		near := config.Suggest(unknown.GetSpecifiedName(), names)
		return misused("unknown flag --%s%s", unknown.GetSpecifiedName(), strings.Replace(near, "mean ", "mean --", 1))
	case errors.As(err, &missing):
		return misused("--%s wants a value", missing.GetFlag().Name)
	case errors.As(err, &invalid):
		return misused("--%s %s: %v", invalid.GetFlag().Name, invalid.GetValue(), reason(invalid))
	}
	return usageError(err.Error())
}

// reason is why a value is invalid, without the name of the function that found it.
func reason(invalid *pflag.InvalidValueError) error {
	err := errors.Unwrap(invalid)
	if number, ok := errors.AsType[*strconv.NumError](err); ok {
		return number.Err
	}
	return err
}

// takesNothing refuses arguments that are no flags.
func takesNothing(cmd *cobra.Command, args []string) error { return atMost(0)(cmd, args) }

// atMost refuses more than n arguments that are no flags.
func atMost(n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > n {
			return misused("unexpected argument %q", args[n])
		}
		return nil
	}
}

// takesOne refuses any other number of arguments than one; text says so, with a %d for the number.
func takesOne(text string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return misused(text, len(args))
		}
		return nil
	}
}
