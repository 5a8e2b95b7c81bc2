package server

import (
	"log/slog"
	"os"

	"tgi/server/config"
)

// NewLog returns a log that writes to f: text for a terminal, a JSON object a
// line for anything else, unless c asks for one of them.
func NewLog(f *os.File, c config.Log) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.Level}
	if c.Format == config.LogJSON || c.Format == config.LogAuto && !IsTerminal(f) {
		return slog.New(slog.NewJSONHandler(f, o))
	}
	return slog.New(slog.NewTextHandler(f, o))
}

// IsTerminal says whether f is a terminal, as far as its mode tells.
func IsTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
