package host

import (
	"fmt"
	"strings"
	"testing"

	"tgi/models"
)

// TestConvertingIsTold: a first start says that it converts a model when it begins with it, and then that it has; a
// second one has nothing to say.
func TestConvertingIsTold(t *testing.T) {
	t.Setenv("TGI_CACHE", t.TempDir())
	s, err := describe("")
	if err != nil {
		t.Fatal(err)
	}
	for name, convert := range map[string]func(say func(string, ...any)) (models.Built, error){
		"to serve": func(say func(string, ...any)) (models.Built, error) {
			return s.build(t.Context(), device{}, models.FP32, nil, say)
		},
		"alone": func(say func(string, ...any)) (models.Built, error) {
			return s.convert(t.Context(), device{}, models.Int8, say)
		},
	} {
		for _, want := range []string{"converting to ", ""} {
			var said []string
			say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
			if _, err := convert(say); err != nil {
				t.Fatal(err)
			}
			if want == "" && len(said) == 0 {
				continue
			}
			if want == "" || len(said) < 2 || !strings.HasPrefix(said[0], want) ||
				!strings.HasSuffix(said[0], ": 0%") || !strings.HasPrefix(said[1], "converted to ") {
				t.Errorf("%s: said %q", name, said)
			}
		}
	}
}
