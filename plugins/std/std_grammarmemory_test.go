package std_test

import (
	"fmt"
	"sync"
	"testing"

	kit "tgi/conformance/guest"
	"tgi/plugins"
	"tgi/plugins/internal/testcache"
	"tgi/plugins/std"
)

// TestGrammarMemoryPlateau: sixteen clients that send schema after schema of their own fill what grammars may take, and
// no more: the account of the memory for plugins stays where it is then.
func TestGrammarMemoryPlateau(t *testing.T) {
	const (
		clients, rounds = 16, 24
		allowed         = 8 << 20
		slack           = allowed / 8 // grammars grow while they are used, and the next request makes room
	)
	memory := plugins.NewMemory(plugins.MemoryConfig{Bytes: 512 << 20})
	set, err := plugins.Open(t.Context(), plugins.Options{
		Specs: []plugins.Spec{{Name: "grammar", Source: "builtin:grammar"}}, Builtin: std.FS(), Memory: memory,
		GrammarMemory: allowed,
		Vocabulary:    words{kit.NewWorld()}, CacheDir: testcache.Dir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	set.Prepared()
	var cached []int64
	for round := range rounds {
		var all sync.WaitGroup
		for client := range clients {
			all.Go(func() { useSchema(t, set, client, round) })
		}
		all.Wait()
		stats := memory.Stats()
		if got := set.GrammarStats(); got.Bytes > got.Limit+slack || got.Limit+got.Masks.Limit > allowed ||
			got.Kept == 0 {
			t.Errorf("round %d: grammars take %d of %d bytes, masks may take %d", round, got.Bytes, got.Limit,
				got.Masks.Limit)
		}
		if stats.Cached > allowed+slack {
			t.Errorf("round %d: %d bytes are remembered, %d may be", round, stats.Cached, allowed)
		}
		cached = append(cached, stats.Cached)
	}
	first, second := cached[:rounds/2], cached[rounds/2:]
	t.Logf("remembered after each round: %d; forgotten %d of %d", cached, set.GrammarStats().Evicted,
		set.GrammarStats().Compiled)
	if set.GrammarStats().Evicted == 0 {
		t.Fatal("nothing was forgotten: the schemas are too few to tell anything")
	}
	// What is remembered goes up and down by a schema or so.
	if grown := maxOf(second) - maxOf(first); grown > slack {
		t.Errorf("still growing: by %d bytes, %d", grown, cached)
	}
	memory.Shrink(memory.Stats().Cached) // as for a model that is to be loaded
	if left := memory.Stats().Cached; left > slack {
		t.Errorf("%d bytes are remembered after all were asked for", left)
	}
}

func maxOf(list []int64) (most int64) {
	for _, v := range list {
		most = max(most, v)
	}
	return most
}

// useSchema compiles a schema that nobody else has and follows a text of it.
func useSchema(t *testing.T, set *plugins.Set, client, round int) {
	id := fmt.Sprintf("c%dr%d", client, round)
	members := listOf(40, func(i int) string {
		return fmt.Sprintf(`"%s_%d":{"type":["string","integer"],"maxLength":%d}`, id, i, 10+i)
	})
	g, err := set.Compile(t.Context(), plugins.GrammarCall{Language: "json_schema",
		Source: []byte(`{"type":"object","properties":{` + members + `}}`)})
	if err != nil {
		t.Error(err)
		return
	}
	defer g.Close()
	c, err := g.Sequence(t.Context(), 1)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	world := words{kit.NewWorld()}
	bits := make([]uint32, (world.Size()+31)/32)
	for _, token := range world.Encode(`{"` + id + `_0": "abc", "` + id + `_1": 7}`) {
		if _, err := c.Mask(bits); err != nil {
			t.Error(err)
			return
		}
		if err := c.Accept(token); err != nil {
			t.Error(err)
			return
		}
	}
}
