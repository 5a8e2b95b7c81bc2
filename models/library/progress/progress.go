// Package progress shows a download: a picture that is drawn anew on a terminal, and a line now and then elsewhere.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"tgi/models/library/fetch"
)

// How often a download is shown: the picture on a terminal, and a line elsewhere.
const (
	drawEvery = 200 * time.Millisecond
	lineEvery = 5 * time.Second
)

// usualWidth is that of a terminal that does not say.
const usualWidth = 80

// rateWindow is the time that the rate is an average of.
const rateWindow = 10 * time.Second

// Show prints on w how far a download is until stop is called, which prints the end and waits for that. before is the
// number of bytes that were here at the start.
func Show(w io.Writer, name string, before int64, p *fetch.Progress) (stop func()) {
	v := &view{name: name, pace: pace{before: before}}
	file, ok := w.(*os.File)
	if ok && term.IsTerminal(int(file.Fd())) {
		return follow(drawEvery, func(bool) {
			v.width = usualWidth
			if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
				v.width = columns
			}
			done, total := p.Bytes()
			io.WriteString(w, v.picture(time.Now(), p.Items(), done, total))
		})
	}
	return follow(lineEvery, func(last bool) {
		if done, total := p.Bytes(); done > 0 || last && total > 0 {
			fmt.Fprintln(w, v.line(time.Now(), done, total))
		}
	})
}

// follow calls show once for each period, and a last time when stop is called, which waits for that.
func follow(every time.Duration, show func(last bool)) (stop func()) {
	over := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				show(false)
			case <-over:
				show(true)
				return
			}
		}
	})
	return func() { close(over); running.Wait() }
}

// pace knows how fast bytes arrive. Those that lay here before are passed over
// when the download starts, and are none that arrive.
type pace struct {
	before  int64
	samples []arrival
}

type arrival struct {
	at      time.Time
	arrived int64
}

// rate notes how many bytes are here now and returns how many arrive in a second;
// 0 is not known.
func (p *pace) rate(now time.Time, done int64) float64 {
	p.samples = append(p.samples, arrival{now, max(0, done-p.before)})
	for len(p.samples) > 2 && now.Sub(p.samples[1].at) >= rateWindow {
		p.samples = p.samples[1:]
	}
	first, last := p.samples[0], p.samples[len(p.samples)-1]
	if !last.at.After(first.at) || last.arrived <= first.arrived {
		return 0
	}
	return float64(last.arrived-first.arrived) / last.at.Sub(first.at).Seconds()
}

// view shows a download.
type view struct {
	name string
	pace pace
	// width is that of the terminal, in columns.
	width int
	// whole are the files whose line stands above the picture for good.
	whole map[string]bool
	// drawn is the number of lines of the last picture, which the next replaces.
	drawn int
}

// line is the state in one line.
func (v *view) line(now time.Time, done, total int64) string {
	return v.name + ": " + v.sum(now, done, total)
}

// sum says how much is here, how fast it grows and how long that will take.
func (v *view) sum(now time.Time, done, total int64) string {
	rate := v.pace.rate(now, done)
	text := Bytes(done)
	if total > 0 {
		text = fmt.Sprintf("%3d%%  %s of %s", 100*done/total, text, Bytes(total))
	}
	if done == total {
		return text
	}
	if rate > 0 {
		text += fmt.Sprintf("  %s/s", Bytes(int64(rate)))
		if total > 0 {
			text += fmt.Sprintf("  %s left", leftText(float64(total-done)/rate))
		}
	}
	return text
}

// leftText writes a number of seconds for people.
func leftText(seconds float64) string {
	const day = 24 * 60 * 60
	if seconds > 30*day {
		return "more than a month"
	}
	d := time.Duration(seconds * float64(time.Second))
	if d < time.Minute {
		return fmt.Sprintf("%ds", int(d.Seconds()+0.5))
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}

// barCells is the inside of the bar.
const barCells = 24

// picture replaces the last one: a line that stays for each file that became whole,
// a line for each that is being fetched, and a bar for all of them.
func (v *view) picture(now time.Time, items []fetch.Item, done, total int64) string {
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", v.drawn)
	}
	if v.whole == nil {
		v.whole = map[string]bool{}
	}
	var under []string
	for _, it := range items {
		switch {
		case it.Total >= 0 && it.Done == it.Total:
			if !v.whole[it.Path] {
				fmt.Fprintf(&b, "%s\n", v.cut(fmt.Sprintf("  %s  %s", it.Path, Bytes(it.Total))))
			}
			v.whole[it.Path] = true
		case it.Done > 0:
			// Bytes that turned out to be wrong are fetched anew.
			delete(v.whole, it.Path)
			under = append(under, v.cut("  "+it.Path+"  "+part(it)))
		}
	}
	if len(items) > 0 {
		filled := 0
		if total > 0 {
			filled = int(barCells * done / total)
		}
		bar := strings.Repeat("#", filled) + strings.Repeat("-", barCells-filled)
		under = append(under, v.cut(fmt.Sprintf("[%s] %s", bar, v.sum(now, done, total))))
	}
	for _, l := range under {
		b.WriteString(l + "\n")
	}
	v.drawn = len(under)
	return b.String()
}

// part says how much of a file is here.
func part(it fetch.Item) string {
	if it.Total <= 0 {
		return Bytes(it.Done)
	}
	return fmt.Sprintf("%d%% of %s", 100*it.Done/it.Total, Bytes(it.Total))
}

// cut shortens a line to the terminal's width: one that wraps would not be replaced.
func (v *view) cut(line string) string {
	most := v.width - 1
	if most < 1 || utf8.RuneCountInString(line) <= most {
		return line
	}
	return string([]rune(line)[:most])
}

// Bytes writes a number of bytes for people.
func Bytes(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		if v /= 1 << 10; v < 1023.95 {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", v, unit)
}
