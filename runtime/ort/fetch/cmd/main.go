// Command cmd puts the ONNX Runtime library into the cache folder and
// prints its path: that for CPUs, with --gpu all that for NVIDIA GPUs with
// CUDA's libraries, with --gpu library that without them. With --into it puts
// the library of --platform and its licences into a folder instead, to pass
// them on. The environment variable TGI_ORT_ARCHIVE names a package for CPUs
// that was downloaded already, TGI_CACHE another cache folder.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"tgi/runtime/ort/fetch"
)

func main() {
	gpu := flag.String("gpu", "", "the build for NVIDIA GPUs instead: all, or library without CUDA's own libraries")
	into := flag.String("into", "", "folder for the library of --platform and its licences")
	platform := flag.String("platform", runtime.GOOS+"-"+runtime.GOARCH, "the system and processor of --into")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	options := fetch.Options{
		Archive:  os.Getenv("TGI_ORT_ARCHIVE"),
		Log:      os.Stderr,
		Terminal: isTerminal(os.Stderr),
	}
	var path string
	var err error
	if *into == "" {
		path, err = library(ctx, *gpu, options)
	} else {
		path, err = *into, fetch.Bundle(ctx, *platform, *into, options)
	}
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
