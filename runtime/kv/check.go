package kv

import "fmt"

// Check verifies the pool's invariants, given all rows that hold blocks: every block
// is used, cached or free, and the counts add up; reference counts match the rows;
// the table matches the keys; and a block that a row writes to has one reference and
// cannot be found, unless the row was cut within it and has not taken it since. An error is a bug in this program.
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
			return fmt.Errorf("BUG: kv: block %d has reference count %d, but %d rows hold it", b, n, holders[b])
		case n > 0:
			used++
		case p.findable[b]:
			cached++
		}
		if inList := p.lru.has(int32(b)); inList != (n == 0 && p.findable[b]) {
			return fmt.Errorf("BUG: kv: block %d is in the LRU list: %v, reference count %d", b, inList, n)
		}
		if !p.findable[b] { // most are not, and looking for them would take longer than all else
			continue
		}
		if at, ok := p.table[p.keys[b]]; !ok || at != int32(b) {
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
	if r.cut && (r.n%p.size == 0 || !p.findable[r.blocks[r.n/p.size]]) {
		return fmt.Errorf("BUG: kv: a row of %d tokens is marked as cut", r.n)
	}
	for i, b := range r.blocks {
		holders[b]++
		if holders[b] > p.refs[b] {
			return fmt.Errorf("BUG: kv: more rows hold block %d than its reference count %d", b, p.refs[b])
		}
		complete := (i+1)*p.size <= r.n
		if !complete && p.findable[b] && !(r.cut && i == r.n/p.size) {
			return fmt.Errorf("BUG: kv: block %d can be found, but its row has computed only %d tokens", b, r.n)
		}
		if i*p.size >= r.n && p.refs[b] != 1 {
			return fmt.Errorf("BUG: kv: block %d is writable but has %d references", b, p.refs[b])
		}
	}
	return nil
}

func (p *Pool) checkFree() error {
	seen := make([]bool, len(p.refs))
	for _, b := range p.free {
		if seen[b] || p.refs[b] != 0 || p.findable[b] {
			return fmt.Errorf("BUG: kv: block %d is free and also held, findable or free twice", b)
		}
		seen[b] = true
	}
	findable := 0
	for _, ok := range p.findable {
		if ok {
			findable++
		}
	}
	if findable != len(p.table) {
		return fmt.Errorf("BUG: kv: %d keys for %d findable blocks", len(p.table), findable)
	}
	return nil
}
