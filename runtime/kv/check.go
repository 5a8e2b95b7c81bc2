package kv

import "fmt"

// Check verifies the books against the rows that should be all holders of
// blocks: every block is used, cached or free and the counts add up; each is
// held as often as it is counted; the table finds what it says; a block that
// somebody writes to has one holder and cannot be found. A non-nil error is a
// bug of this program.
func (p *Pool) Check(rows []*Row) error {
	holders := make([]int32, len(p.refs))
	for _, r := range rows {
		if err := p.checkRow(r, holders); err != nil {
			return err
		}
	}
	var used, cached int
	for b, n := range p.refs {
		switch {
		case n != holders[b]:
			return fmt.Errorf("BUG: kv: block %d counts %d holders, has %d", b, n, holders[b])
		case n > 0:
			used++
		case p.found[b]:
			cached++
		}
		if inList := p.lru.has(int32(b)); inList != (n == 0 && p.found[b]) {
			return fmt.Errorf("BUG: kv: block %d in the list of cached blocks: %v, holders %d", b, inList, n)
		}
		if at, ok := p.table[p.keys[b]]; p.found[b] && (!ok || at != int32(b)) {
			return fmt.Errorf("BUG: kv: block %d is not found under its key", b)
		}
	}
	if used != p.used || cached != p.lru.len || used+cached+len(p.free) != p.Total() {
		return fmt.Errorf("BUG: kv: used %d (counted %d) + cached %d (counted %d) + free %d is not %d",
			p.used, used, p.lru.len, cached, len(p.free), p.Total())
	}
	return p.checkFree()
}

// checkRow adds r's blocks to holders.
func (p *Pool) checkRow(r *Row, holders []int32) error {
	if r.n > len(r.blocks)*p.size {
		return fmt.Errorf("BUG: kv: row has %d tokens in %d blocks", r.n, len(r.blocks))
	}
	for i, b := range r.blocks {
		holders[b]++
		if holders[b] > p.refs[b] {
			return fmt.Errorf("BUG: kv: block %d has more holders than the %d it counts", b, p.refs[b])
		}
		full := (i+1)*p.size <= r.n
		if !full && p.found[b] {
			return fmt.Errorf("BUG: kv: block %d can be found but its row has computed %d tokens", b, r.n)
		}
		if i*p.size >= r.n && p.refs[b] != 1 {
			return fmt.Errorf("BUG: kv: block %d is to be written and has %d holders", b, p.refs[b])
		}
	}
	return nil
}

func (p *Pool) checkFree() error {
	seen := make([]bool, len(p.refs))
	for _, b := range p.free {
		if seen[b] || p.refs[b] != 0 || p.found[b] {
			return fmt.Errorf("BUG: kv: block %d is free and also held, findable or free twice", b)
		}
		seen[b] = true
	}
	findable := 0
	for _, ok := range p.found {
		if ok {
			findable++
		}
	}
	if findable != len(p.table) {
		return fmt.Errorf("BUG: kv: %d keys for %d findable blocks", len(p.table), findable)
	}
	return nil
}
