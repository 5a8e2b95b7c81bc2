// A guest of the standard Go toolchain, built by the tests:
// GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
)

func main() {}

var (
	seen  = map[uint32]string{}
	table []uint32
)

//go:wasmexport empty
func empty() {}

//go:wasmexport init_table
func initTable(n uint32) {
	table = make([]uint32, n)
	for i := range table {
		table[i] = uint32(i) * 2654435761
	}
}

//go:wasmexport remember
func remember(v uint32) uint32 {
	old := uint32(len(seen))
	seen[v] = fmt.Sprint(v)
	return old
}

//go:wasmexport digest
func digest(n uint32) uint64 {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprintf("%d-%g", i*2654435761, float64(i)/3)
	}
	sort.Strings(words)
	b, _ := json.Marshal(map[string]any{"words": words, "upper": strings.ToUpper(words[0])})
	h := uint64(14695981039346656037)
	for _, c := range b {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

//go:wasmexport walk
func walk(seed uint32) uint32 {
	set := uint32(0)
	for _, v := range table {
		if v>>16&0xff > seed&0x7f {
			set++
		}
	}
	return set
}

//go:wasmexport spin
func spin(n uint32) uint32 {
	s := uint32(1)
	for i := uint32(0); i < n; i++ {
		s = s*1664525 + 1013904223
	}
	return s
}

//go:wasmexport fail
func fail() {
	fmt.Fprintln(os.Stderr, "about to fail")
	panic("as asked")
}

//go:wasmexport files
func files() uint32 {
	if _, err := os.ReadFile("/etc/passwd"); err == nil {
		return 1
	}
	if _, err := os.Create("x"); err == nil {
		return 2
	}
	return uint32(len(os.Environ()) + len(os.Args))
}
