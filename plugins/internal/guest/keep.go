package guest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"tgi/plugins/internal/sandbox"
)

// keptFuel is from where on the state of a guest is kept: less is as soon computed as read.
const keptFuel = 10_000_000

// kept is what is kept of a guest beside the state of its instances.
type kept struct {
	Description []byte   `json:"description"`
	Rooms       []uint32 `json:"rooms"`
}

// keep says how the state of a guest's instances is kept; nil where it is not.
func (g *Guest) keep(c Config) *sandbox.Keep {
	if c.Seen == "" {
		return nil
	}
	h := sha256.New()
	for _, part := range []string{c.Seen, string(c.Config), string(c.Model), fmt.Sprintf("%+v", g.limits)} {
		fmt.Fprintf(h, "%d %s\n", len(part), part)
	}
	// Numbers, not c, which has the module.
	plain, full := len(configOf(c)), len(withModel(configOf(c), c.Model))
	return &sandbox.Keep{
		Key: string(h.Sum(nil)),
		Note: func() []byte {
			if g.initFuel < keptFuel {
				return nil
			}
			k := kept{Description: g.described}
			for _, at := range g.rooms.all() {
				k.Rooms = append(k.Rooms, *at)
			}
			note, err := json.Marshal(k)
			if err != nil {
				panic("BUG: " + err.Error()) // bytes and numbers
			}
			return note
		},
		Take: func(note []byte, memory uint64) error { return g.takeKept(note, memory, plain, full) },
	}
}

// takeKept takes what is kept in place of what tgi_describe and tgi_init would say, if it passes the checks that they
// do: plain and full are the bytes of the configuration without and with the model.
func (g *Guest) takeKept(note []byte, memory uint64, plain, full int) error {
	var k kept
	if err := json.Unmarshal(note, &k); err != nil {
		return err
	}
	d, err := parse(k.Description, g.vocab.Size())
	if err == nil {
		err = checkKinds(g.module, d)
	}
	if err != nil {
		return fmt.Errorf("tgi_describe: %w", err)
	}
	var rooms Rooms
	list := rooms.all()
	if len(k.Rooms) != len(list) {
		return fmt.Errorf("%d rooms, %d wanted", len(k.Rooms), len(list))
	}
	for i, at := range list {
		*at = k.Rooms[i]
	}
	config := plain
	if d.worksOnChats() {
		config = full
	}
	if err := rooms.check(d, g.vocab.Size(), config, memory); err != nil {
		return err
	}
	g.described, g.d, g.rooms = k.Description, d, rooms
	return nil
}

// all lists the addresses.
func (r *Rooms) all() []*uint32 {
	return []*uint32{&r.Step, &r.View, &r.Row, &r.Candidates, &r.Piece, &r.Mask, &r.Accept, &r.Guard, &r.Text, &r.Ends,
		&r.Draft, &r.request, &r.config, &r.params, &r.tokens}
}
