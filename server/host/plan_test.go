package host

import (
	"testing"

	"tgi/models/library"
)

// TestEstimateUnlocked: while a model is planned the roster is asked, which calls observe with its
// own lock: the manager's must be free then, or the two wait for each other.
func TestEstimateUnlocked(t *testing.T) {
	c := testConfig()
	c.Model.Preload = false
	m := openHouse(t, c).models
	asked := false
	m.bounds = func() []bound {
		if asked = m.mu.TryLock(); asked {
			m.mu.Unlock()
		}
		return nil
	}
	if _, err := m.estimate(library.ID(c.DefaultModel())); err != nil {
		t.Fatal(err)
	}
	if !asked {
		t.Error("the manager's lock is held, or the bounds were not asked for")
	}
}
