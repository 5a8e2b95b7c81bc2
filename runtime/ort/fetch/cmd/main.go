// Command cmd puts the ONNX Runtime library into the cache folder and
// prints its path. The environment variable TGI_ORT_ARCHIVE names a package
// that was downloaded already, TGI_CACHE another cache folder.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"tgi/runtime/ort/fetch"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	path, err := fetch.Library(ctx, fetch.Options{
		Archive:  os.Getenv("TGI_ORT_ARCHIVE"),
		Log:      os.Stderr,
		Terminal: isTerminal(os.Stderr),
	})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "ort:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
