// Command cmd puts the ONNX Runtime library into the cache folder and
// prints its path: that for CPUs, with --gpu all that for NVIDIA GPUs with
// CUDA's libraries, with --gpu library that without them. The environment
// variable TGI_ORT_ARCHIVE names a package for CPUs that was downloaded
// already, TGI_CACHE another cache folder.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"tgi/runtime/ort/fetch"
)

func main() {
	gpu := flag.String("gpu", "", "the build for NVIDIA GPUs instead: all, or library without CUDA's own libraries")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	path, err := library(ctx, *gpu, fetch.Options{
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

func library(ctx context.Context, gpu string, o fetch.Options) (string, error) {
	switch gpu {
	case "":
		return fetch.Library(ctx, o)
	case "all":
		return fetch.GPU(ctx, fetch.GPUAll, o)
	case "library":
		return fetch.GPU(ctx, fetch.GPULibraryOnly, o)
	}
	return "", fmt.Errorf("--gpu is %q, want all or library", gpu)
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
