package explain

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"tgi/server/client/terminal"
)

// Options of Print.
type Options struct {
	// Colour writes in colours, by sequences that terminals know.
	Colour bool
	// Changes prints what each of those that change a distribution did, and Candidates the likeliest tokens.
	Changes, Candidates bool
}

// Sequences of ECMA-48, section 8.3.117.
const (
	plain   = "\x1b[0m"
	dim     = "\x1b[2m"
	red     = "\x1b[31m"
	green   = "\x1b[32m"
	yellow  = "\x1b[33m"
	blue    = "\x1b[34m"
	magenta = "\x1b[35m"
	cyan    = "\x1b[36m"
)

// key says what the colours mean.
var key = []struct{ colour, text string }{
	{plain, "the model's own choice"}, {green, "held to a grammar"}, {yellow, "another by a setting or a plugin"},
	{magenta, "chosen by a sampler"}, {blue, "forced"}, {cyan, "drawn"},
}

// printer writes texts. The first error of writing stays with the writer.
type printer struct {
	*bufio.Writer
	o Options
}

// Print writes the texts in colours, and below them how each token came to be.
func Print(w io.Writer, texts []Text, o Options) error {
	p := &printer{bufio.NewWriter(w), o}
	for _, t := range texts {
		if len(texts) > 1 {
			fmt.Fprintf(p, "choice %d\n", t.Index)
		}
		if t.Program != nil {
			p.paint(blue, fmt.Sprintf("written by the program %s", t.Program))
			fmt.Fprint(p, "\n\n")
		}
		for i := range t.Tokens {
			for range t.Tokens[i].Rewound {
				p.paint(red, "<-")
			}
			p.raw(colourOf(&t.Tokens[i]), terminal.Text(t.Tokens[i].Text))
		}
		fmt.Fprint(p, "\n\n")
		for i := range t.Tokens {
			p.token(i, &t.Tokens[i])
		}
	}
	if o.Colour {
		for _, k := range key {
			p.paint(k.colour, k.text)
			fmt.Fprint(p, "  ")
		}
		fmt.Fprintln(p)
	}
	return p.Flush()
}

// paint writes a piece of a line in a colour. Whatever is a server's or a file's in it cannot steer a terminal.
func (p *printer) paint(colour, text string) { p.raw(colour, terminal.Line(text)) }

// raw writes text in a colour, as it is.
func (p *printer) raw(colour, text string) {
	if !p.o.Colour || colour == plain {
		fmt.Fprint(p, text)
		return
	}
	fmt.Fprint(p, colour, text, plain)
}

// colourOf is the colour of the last that decided.
func colourOf(t *Token) string {
	colour := plain
	for _, c := range t.Changes {
		if c.Overtook == nil {
			continue
		}
		if colour = yellow; c.Kind == "mask" {
			colour = green
		}
	}
	switch {
	case t.Picked == "sampler":
		return magenta
	case t.Picked == "forced", t.Picked == "stop", t.Picked == "program", t.Picked == "guard":
		return blue
	case t.Picked == "draw" && len(t.Candidates) > 0 && t.Candidates[0].ID != t.ID:
		return cyan
	}
	return colour
}

// token writes a line for a token, and its changes and candidates behind it.
func (p *printer) token(i int, t *Token) {
	for _, r := range t.Rewound {
		fmt.Fprintf(p, "      ")
		p.paint(red, fmt.Sprintf("%s took back %s", r.By, terminal.Count(int(r.Tokens), "token")))
		fmt.Fprintln(p)
	}
	for _, r := range t.Replaced {
		fmt.Fprintf(p, "      ")
		p.paint(red, fmt.Sprintf("%s gave other text for %s", r.By, terminal.Count(int(r.Tokens), "token")))
		fmt.Fprintln(p)
	}
	fmt.Fprintf(p, "%4d  ", i)
	p.paint(colourOf(t), pad(quoted(t.Text), 18))
	raw, final := percent(t.Raw), percent(t.Final)
	if t.Raw == nil && t.Final == nil { // the model was not asked, as for a guard's text
		raw, final = "-", "-"
	}
	p.paint(plain, fmt.Sprintf(" %6s -> %6s  %s", raw, final, how(t)))
	fmt.Fprintln(p)
	if p.o.Changes {
		for _, c := range t.Changes {
			p.change(&c)
		}
	}
	if p.o.Candidates {
		for _, c := range t.Candidates {
			p.paint(dim, fmt.Sprintf("          %s %6s -> %6s", pad(quoted(c.Text), 14), percent(c.Raw), percent(c.Final)))
			fmt.Fprintln(p)
		}
	}
}

// how says in words how a token was picked.
func how(t *Token) string {
	word, known := map[string]string{"best": "the likeliest", "draw": "drawn", "sampler": "chosen by ",
		"forced": "forced by ", "stop": "ended by ", "program": "written by ", "guard": "given by "}[t.Picked]
	if !known { // of a later server
		word = t.Picked + " "
	}
	words := []string{strings.TrimSpace(word + t.By)}
	if t.Rank > 0 {
		words = append(words, "the model's number "+strconv.Itoa(int(t.Rank)+1))
	}
	if d := t.Draft; d != nil && d.Accepted {
		words = append(words, "guessed by "+d.Source)
	} else if d != nil {
		words = append(words, fmt.Sprintf("%s guessed %s", d.Source, quoted(d.Text)))
	}
	return strings.Join(words, ", ")
}

// change writes a line for what one of those did.
func (p *printer) change(c *Change) {
	var words []string
	if c.Kind == "mask" || c.Kind == "sampling" || c.Forbidden > 0 {
		words = append(words, fmt.Sprintf("leaves %s, takes %s", terminal.Count(int(c.Allowed), "token"),
			share(c.Forbidden)))
	}
	if c.Before != nil && c.After != nil && math.Abs(*c.After-*c.Before) > 5e-5 {
		words = append(words, fmt.Sprintf("%s -> %s", percent(c.Before), percent(c.After)))
	}
	if c.Overtook != nil {
		words = append(words, quoted(c.Overtook.Text)+" comes first")
	}
	if c.Temperature != nil {
		words = append(words, fmt.Sprintf("temperature %.3g", *c.Temperature))
	}
	if c.Forced != nil {
		words = append(words, fmt.Sprintf("forces token %d", *c.Forced))
	}
	if c.Stop {
		words = append(words, "ends the text")
	}
	if c.Kind != "mask" {
		for _, m := range c.Moved {
			if m.By == nil {
				words = append(words, quoted(m.Text)+" denied")
			} else {
				words = append(words, fmt.Sprintf("%s %+.3g", quoted(m.Text), *m.By))
			}
		}
		if more := int(c.Count) - len(c.Moved); more > 0 && len(c.Moved) > 0 {
			words = append(words, fmt.Sprintf("and %d more", more))
		} else if more > 0 {
			words = append(words, fmt.Sprintf("moves %d", more))
		}
	}
	p.paint(dim, fmt.Sprintf("          %-10s %s: %s", c.Kind, c.Name, strings.Join(words, ", ")))
	fmt.Fprintln(p)
}

// percent is a probability, from its logarithm.
func percent(logprob *float64) string {
	if logprob == nil {
		return "0"
	}
	return share(math.Exp(*logprob))
}

func share(of float64) string {
	if of > 0 && of < 5e-4 {
		return "<0.1%"
	}
	return fmt.Sprintf("%.1f%%", 100*of)
}

// quoted is a token's text in quotes, without what a terminal would obey.
func quoted(text string) string { return strconv.Quote(text) }

// pad makes text at least so many characters long.
func pad(text string, n int) string {
	if missing := n - len([]rune(text)); missing > 0 {
		return text + strings.Repeat(" ", missing)
	}
	return text
}
