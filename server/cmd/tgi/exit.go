package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"tgi/server/client/terminal"
	"tgi/server/config"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	// exitUnknown is that of a comparison for which too little was kept.
	exitUnknown = 3
	// exitInterrupted is that of shells for a program that SIGINT ended.
	exitInterrupted = 130
)

// exitCodes is the line about them in every help.
const exitCodes = "0 done, 1 failed, 2 wrong usage or settings"

var (
	// errReported: the command failed and has printed why.
	errReported = errors.New("the command has printed why it failed")
	// errUnknown: what there is cannot be compared, and the command has printed why.
	errUnknown = errors.New("the command has printed why it cannot compare")
	// errInterrupted: the command was told to stop, and has printed so.
	errInterrupted = errors.New("interrupted")
)

// usageError says what is wrong with a command line.
type usageError string

// Error gives the text.
func (e usageError) Error() string { return string(e) }

// misused returns a usageError.
func misused(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

// in names the help of the command that was misused.
func (e usageError) in(cmd *cobra.Command) error {
	return misused("%s (see `%s --help`)", string(e), cmd.CommandPath())
}

// exit prints err, as every command does, and returns the exit code that belongs to it.
func (c console) exit(err error) int {
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errUnknown):
		return exitUnknown
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case !errors.Is(err, errReported):
		shown := config.Conceal(err, c.said...)
		fmt.Fprintln(c.errors, "tgi:", terminal.Text(shown.Error())) // it may be a server's
	}
	if errors.As(err, new(usageError)) || errors.Is(err, config.ErrWrong) {
		return exitUsage
	}
	return exitFailed
}
