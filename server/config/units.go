package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration written like 90s or 1m30s; a bare number is
// seconds.
type Duration time.Duration

const second = Duration(time.Second)

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	s := string(text)
	if n, err := strconv.ParseUint(s, 10, 32); err == nil {
		*d = Duration(n) * second
		return nil
	}
	v, err := time.ParseDuration(s)
	if err == nil && v < 0 {
		return fmt.Errorf("%q is less than 0s", trim(s))
	}
	if err != nil {
		zeros := strings.Map(func(r rune) rune {
			if '0' <= r && r <= '9' {
				return '0'
			}
			return r
		}, s)
		if _, none := time.ParseDuration(zeros); none == nil { // its number alone is wrong
			return fmt.Errorf("%q is longer than %s", trim(s), time.Duration(math.MaxInt64))
		}
		return fmt.Errorf("%q is no duration with its unit, such as 90s or 50ms", trim(s))
	}
	*d = Duration(v)
	return nil
}

// String returns the duration as time.Duration does.
func (d Duration) String() string { return time.Duration(d).String() }

// Wait is a duration, or "auto", which is 0.
type Wait time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (w *Wait) UnmarshalText(text []byte) error {
	*w = 0
	if string(text) == Auto {
		return nil
	}
	var d Duration
	if err := d.UnmarshalText(text); err != nil {
		return fmt.Errorf("%w, and not auto", err)
	}
	if d == 0 {
		return fmt.Errorf("%q is no wait: it must be more than 0, or auto", trim(string(text)))
	}
	*w = Wait(d)
	return nil
}

// String returns the duration as time.Duration does.
func (w Wait) String() string {
	if w == 0 {
		return Auto
	}
	return time.Duration(w).String()
}

// Size is a number of bytes written like 512MiB or 2GiB; "auto" is 0.
type Size int64

// units in the order in which suffixes are tried.
var units = []struct {
	suffix string
	bytes  float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1},
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (z *Size) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	if s == Auto {
		*z = 0
		return nil
	}
	for _, u := range units {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if n *= u.bytes; err != nil || n != n {
			break
		}
		if n < 0 {
			return fmt.Errorf("%q is less than 0B", trim(s))
		}
		if n >= math.MaxInt64 {
			return fmt.Errorf("%q is more than 2^63 bytes", trim(s))
		}
		*z = Size(n)
		return nil
	}
	return fmt.Errorf("%q is no size such as 512MiB or 2GiB, and not auto", trim(s))
}

// number is String for a key that has no auto.
func (z Size) number() string {
	if z == 0 {
		return "0B or auto"
	}
	return z.String()
}

// String returns the size in the largest unit that divides it.
func (z Size) String() string {
	if z == 0 {
		return Auto
	}
	for _, u := range []struct {
		suffix string
		shift  int
	}{{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}} {
		if z&(1<<u.shift-1) == 0 {
			return strconv.FormatInt(int64(z)>>u.shift, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(z), 10) + "B"
}
