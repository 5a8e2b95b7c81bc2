package token

import "strings"

// cleanups are what the WordPiece and CTC decoders replace in a token, one after the other.
var cleanups = [][2]string{{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"},
	{" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}}

func cleanup(s string) string {
	for _, c := range cleanups {
		s = strings.ReplaceAll(s, c[0], c[1])
	}
	return s
}

// wordPieceDecoder is the WordPiece decoder: a space comes before each token but the first and those that continue a
// word.
type wordPieceDecoder struct {
	prefix  string
	cleanup bool
}

type wordPieceStage struct {
	wordPieceDecoder
	next    sink
	started bool
}

func (d wordPieceDecoder) stage(next sink, _ bool) sink {
	return &wordPieceStage{wordPieceDecoder: d, next: next}
}

func (d *wordPieceStage) feed(s string, _ bool) {
	if d.started {
		rest, ok := strings.CutPrefix(s, d.prefix)
		if !ok {
			rest = " " + s
		}
		s = rest
	}
	d.started = true
	if d.cleanup {
		s = cleanup(s)
	}
	d.next.feed(s, true)
}

func (d *wordPieceStage) finish() { d.next.finish() }

// suffixDecoder is the BPEDecoder: the suffix that ends a word becomes a space, or nothing in the last token.
type suffixDecoder struct{ suffix string }

type suffixStage struct {
	suffixDecoder
	next sink
	held string // a token whose suffix is at its end, and which may be the last
	some bool
}

func (d suffixDecoder) stage(next sink, _ bool) sink {
	return &suffixStage{suffixDecoder: d, next: next}
}

// feed passes on as much of a token as does not depend on whether it is the last.
func (d *suffixStage) feed(s string, _ bool) {
	d.flush(" ")
	before, _, found := strings.Cut(s, d.suffix)
	if !found {
		d.next.feed(s, true)
		return
	}
	d.next.feed(before, true)
	d.held, d.some = s[len(before):], true
}

func (d *suffixStage) flush(space string) {
	if d.some {
		d.next.feed(strings.ReplaceAll(d.held, d.suffix, space), false)
		d.held, d.some = "", false
	}
}

func (d *suffixStage) finish() {
	d.flush("")
	d.next.finish()
}

// ctcDecoder is the CTC decoder: of equal tokens in a row one counts, and pad tokens none.
type ctcDecoder struct {
	pad, delimiter string
	cleanup        bool
}

type ctcStage struct {
	ctcDecoder
	next    sink
	last    string
	started bool
}

func (d ctcDecoder) stage(next sink, _ bool) sink { return &ctcStage{ctcDecoder: d, next: next} }

func (d *ctcStage) feed(s string, _ bool) {
	if d.started && s == d.last {
		return
	}
	d.started, d.last = true, s
	s = strings.ReplaceAll(s, d.pad, "")
	if d.cleanup {
		s = strings.ReplaceAll(cleanup(s), d.delimiter, " ")
	}
	if s != "" {
		d.next.feed(s, true)
	}
}

func (d *ctcStage) finish() { d.next.finish() }
