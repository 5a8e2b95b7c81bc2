package library

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"tgi/models/hf"
	"tgi/models/safetensors"
	"tgi/models/vision"
)

// Bounds of a file's path inside a checkpoint.
const (
	maxPath      = 512
	maxPathPart  = 200
	maxPathParts = 8
)

// MaxIndex bounds the index of sharded weights; the largest public ones have a few MiB.
const MaxIndex = 32 << 20

// CheckPath checks the slash-separated path of a file in an archive or a hub's list: it must
// be relative, lead downwards, be printable, and name the same file on every system. Its
// errors wrap ErrPath.
func CheckPath(name string) error {
	fail := func(format string, a ...any) error {
		return fmt.Errorf("%w %s: %s", ErrPath, quote(name), fmt.Sprintf(format, a...))
	}
	switch {
	case name == "":
		return fail("is empty")
	case len(name) > maxPath:
		return fail("has %d bytes, at most %d are allowed", len(name), maxPath)
	case strings.ContainsAny(name, "\\:"):
		return fail("holds a backslash or a colon")
	case strings.HasPrefix(name, "/"):
		return fail("is absolute")
	}
	parts := strings.Split(name, "/")
	if len(parts) > maxPathParts {
		return fail("has %d parts, at most %d are allowed", len(parts), maxPathParts)
	}
	for _, part := range parts {
		if part == "" || part == "." || part == ".." {
			return fail("has the part %q", part)
		}
		if len(part) > maxPathPart {
			return fail("has a part of %d bytes, at most %d are allowed", len(part), maxPathPart)
		}
		if i := strings.IndexFunc(part, func(r rune) bool {
			return r == unicode.ReplacementChar ||
				!unicode.IsPrint(r)
		}); i >= 0 {
			return fail("holds a character that does not print")
		}
	}
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return fail("is no file name on this system")
	}
	return nil
}

// rootFiles are the files at a checkpoint's root that serving reads, apart from weights.
var rootFiles = []string{
	hf.ConfigFile, hf.GenerationFile, hf.TokenizerFile, hf.TokenizerConfigFile, hf.SpecialTokensFile,
	hf.ChatTemplateFile, hf.ProcessorConfigFile, hf.LegacyTemplateFile, vision.PreprocessorFile,
}

// onnxGraphs are the paths of a ready graph, best first: the layouts of onnxruntime-genai
// and of onnx-community. Data files are beside it.
var onnxGraphs = []string{"model.onnx", "onnx/model.onnx"}

// genaiConfig describes a graph of onnxruntime-genai.
const genaiConfig = "genai_config.json"

// Choose returns, sorted, the files of a checkpoint that serving reads: the configuration,
// the tokenizer, the chat templates, and one set of weights; or those of an adapter. Safetensors win over ONNX.
// Shards are those that the index names, so a second copy under another name is left out.
// read returns the content of the index and is called for nothing else. Errors wrap
// ErrUnusable, or are read's.
func Choose(names []string, read func(name string) ([]byte, error)) ([]string, error) {
	has := make(map[string]bool, len(names))
	for _, n := range names {
		has[n] = true
	}
	if has[hf.AdapterConfigFile] && !has[hf.ConfigFile] {
		if !has[hf.AdapterFile] {
			return nil, fmt.Errorf("%w: %s is missing", ErrUnusable, hf.AdapterFile)
		}
		return []string{hf.AdapterConfigFile, hf.AdapterFile}, nil
	}
	if !has[hf.ConfigFile] {
		return nil, fmt.Errorf("%w: %s is missing", ErrUnusable, hf.ConfigFile)
	}
	var out []string
	for _, n := range rootFiles {
		if has[n] {
			out = append(out, n)
		}
	}
	for _, n := range names {
		if dir, file := path.Split(n); dir == hf.ChatTemplateFolder+"/" && path.Ext(file) == ".jinja" &&
			file[0] != '.' {
			out = append(out, n)
		}
	}
	weights, err := chooseWeights(names, has, read)
	if err != nil {
		return nil, err
	}
	out = append(out, weights...)
	slices.Sort(out)
	return slices.Compact(out), nil
}

func chooseWeights(names []string, has map[string]bool, read func(string) ([]byte, error)) ([]string, error) {
	if has[safetensors.IndexFile] {
		data, err := read(safetensors.IndexFile)
		if err != nil {
			return nil, err
		}
		shards, err := shardsOf(data)
		if err != nil {
			return nil, err
		}
		for _, s := range shards {
			if !has[s] {
				return nil, fmt.Errorf("%w: %s names %s, which is missing", ErrUnusable, safetensors.IndexFile,
					quote(s))
			}
		}
		return append(shards, safetensors.IndexFile), nil
	}
	if has[safetensors.SingleFile] {
		return []string{safetensors.SingleFile}, nil
	}
	for _, graph := range onnxGraphs {
		if !has[graph] {
			continue
		}
		out := []string{graph}
		for _, n := range names {
			if rest, ok := strings.CutPrefix(n, graph); ok && (strings.HasPrefix(rest, "_data") ||
				strings.HasPrefix(rest, ".data")) {
				out = append(out, n)
			}
		}
		if path.Dir(graph) == "." && has[genaiConfig] {
			out = append(out, genaiConfig)
		}
		return out, nil
	}
	return nil, fmt.Errorf("%w: there are no weights: want %s, %s or %s", ErrUnusable,
		safetensors.SingleFile, safetensors.IndexFile, strings.Join(onnxGraphs, " or "))
}

// shardsOf returns the files that an index of weights names, sorted.
func shardsOf(index []byte) ([]string, error) {
	var x struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(index, &x); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrUnusable, safetensors.IndexFile, err)
	}
	var out []string
	for _, s := range x.WeightMap {
		if err := CheckPath(s); err != nil {
			return nil, fmt.Errorf("%s: %w", safetensors.IndexFile, err)
		}
		if strings.Contains(s, "/") {
			return nil, fmt.Errorf("%s: %w %s: is in another folder", safetensors.IndexFile, ErrPath, quote(s))
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: %s names no shards", ErrUnusable, safetensors.IndexFile)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// mayBelong reports whether Choose might take a file, before the checkpoint's root is known.
func mayBelong(name string) bool {
	base := path.Base(name)
	if base[0] == '.' {
		return false
	}
	switch path.Ext(base) {
	case ".json", ".jinja", ".safetensors", ".onnx":
		return true
	}
	return strings.Contains(base, ".onnx_data") || strings.Contains(base, ".onnx.data")
}
