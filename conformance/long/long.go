// Package long tells tests how much of their work to do. `make test` does a part of each long test, so that all
// end soon; `make test-long`, which continuous integration runs behind it, sets TGI_LONG=1 and does all of it.
// `make soak` sets TGI_SOAK=1 as well: minutes of load and thousands of faults.
//
// Tests that do not ask this package are the same under both, so `make test-long` leaves them out: command list finds
// those that ask it in their sources, and refuses packages that ask it without being tests.
package long

import (
	"os"
	"testing"
)

// Enabled reports whether everything is to be tested.
func Enabled() bool { return os.Getenv("TGI_LONG") == "1" }

// Soak reports whether load and faults are to go on for minutes: `make soak`.
func Soak() bool { return os.Getenv("TGI_SOAK") == "1" }

// Test skips a test that cannot be done in part, unless everything is to be tested.
func Test(t testing.TB) {
	t.Helper()
	if !Enabled() {
		t.Skip("takes long: make test-long runs it")
	}
}

// Count is how often to repeat what is random: all where everything is to be tested, else some.
func Count(some, all int) int {
	if Enabled() {
		return all
	}
	return some
}

// Every returns each n-th element of all, or all of them where everything is to be tested.
func Every[T any](n int, all []T) []T {
	if Enabled() {
		return all
	}
	var some []T
	for i := 0; i < len(all); i += n {
		some = append(some, all[i])
	}
	return some
}
