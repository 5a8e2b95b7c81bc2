package llm

import "testing"

func TestReasonNames(t *testing.T) {
	for r, want := range map[Reason]string{FinishNone: "", FinishLength: "length", FinishEOS: "eos_token",
		FinishStop: "stop_sequence"} {
		if got := r.String(); got != want {
			t.Errorf("reason %d is called %q, want %q", r, got, want)
		}
	}
}

// TestSeeds: the first sequence draws with the request's own seed, and no two
// sequences of neighbouring seeds share one.
func TestSeeds(t *testing.T) {
	seen := map[uint64]bool{}
	for seed := range uint64(100) {
		if SeedFor(seed, 0) != seed {
			t.Errorf("seed %d became %d", seed, SeedFor(seed, 0))
		}
		for i := 1; i < 100; i++ {
			s := SeedFor(seed, i)
			if seen[s] || s < 1000 {
				t.Fatalf("seed %d of sequence %d is %d: not a seed of its own", seed, i, s)
			}
			seen[s] = true
		}
	}
}

// TestEarlyStopping: the names are transformers'.
func TestEarlyStopping(t *testing.T) {
	for s, want := range map[EarlyStopping]string{StopUnlikely: "false", StopFull: "true", StopNever: "never"} {
		if got := s.String(); got != want {
			t.Errorf("%d is called %q, want %q", s, got, want)
		}
	}
	for beams, want := range map[int]bool{0: false, 1: false, 2: true} {
		if p := (Params{NumBeams: beams}); p.BeamSearch() != want {
			t.Errorf("%d beams: %v", beams, !want)
		}
	}
}
