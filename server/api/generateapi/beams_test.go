package generateapi

import (
	"testing"

	"tgi/server/config"
	"tgi/server/generate"
)

// TestMaxBeams: what the settings may say is what requests may ask for.
func TestMaxBeams(t *testing.T) {
	if config.MaxBeams != generate.MaxBeams {
		t.Errorf("%d in the settings, %d in requests", config.MaxBeams, generate.MaxBeams)
	}
}
