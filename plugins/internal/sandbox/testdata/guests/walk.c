// A guest that does what plugins do: walks a trie into a bit mask, fills tables, keeps state in globals and memory.
// Built by build.sh; walk.wasm is committed.
#include <stdint.h>
#define EXPORT(n) __attribute__((export_name(#n)))

#define NODES 60000
static uint32_t nodes[NODES]; // byte | token << 8
static uint32_t skip[NODES];  // nodes of the subtree, the node itself included
static uint32_t mask[NODES / 32 + 1];
static uint32_t counter;
static uint8_t scratch[1 << 20];

static uint32_t next(uint32_t *s) { return *s = *s * 1664525u + 1013904223u; }

static uint32_t build(uint32_t at, uint32_t depth, uint32_t *seed) {
	uint32_t start = at++;
	nodes[start] = (next(seed) >> 8 & 0x7f) | start << 8;
	if (depth < 12)
		for (uint32_t kids = next(seed) >> 28; kids > 0 && at < NODES - 1; kids--)
			at = build(at, depth + 1, seed);
	skip[start] = at - start;
	return at;
}

EXPORT(init) uint32_t init(void) {
	uint32_t seed = 7, at = 0;
	while (at < NODES - 1)
		at = build(at, 0, &seed);
	skip[NODES - 1] = 1;
	return at;
}

// walk sets a bit for each node whose byte is not in the set that seed names and whose ancestors are not either.
EXPORT(walk) uint32_t walk(uint32_t seed) {
	uint64_t low = seed * 0x9e3779b97f4a7c15ull & 0x1111111111111111ull, high = low >> 3;
	uint32_t set = 0;
	for (uint32_t i = 0; i < NODES / 32 + 1; i++)
		mask[i] = 0;
	for (uint32_t i = 0; i < NODES;) {
		uint32_t b = nodes[i] & 0xff;
		if ((b < 64 ? low >> b : high >> (b - 64)) & 1) {
			i += skip[i];
			continue;
		}
		uint32_t token = nodes[i] >> 8;
		mask[token >> 5] |= 1u << (token & 31);
		set++;
		i++;
	}
	return set;
}

EXPORT(spin) uint32_t spin(uint32_t n) {
	uint32_t s = 1;
	for (uint32_t i = 0; i < n; i++) {
		s = s * 1664525u + 1013904223u;
		if (s == 12345)
			counter++;
	}
	return s;
}

// tree is a call tree without loops: 2^n calls.
static volatile uint32_t calls;
EXPORT(tree) uint32_t tree(uint32_t n) {
	calls++;
	return n == 0 ? 1 : tree(n - 1) + tree(n - 1);
}

static uint32_t deep_(volatile uint32_t *p) {
	volatile uint32_t local = *p + 1;
	return deep_(&local) + local;
}
EXPORT(deep) uint32_t deep(void) {
	volatile uint32_t v = counter;
	return deep_(&v);
}

// remember gives what it was last given: state that must not outlive a sequence.
EXPORT(remember) uint32_t remember(uint32_t v) {
	uint32_t old = counter;
	counter = v;
	return old;
}

EXPORT(storm) void storm(uint32_t times, uint32_t n) {
	for (uint32_t i = 0; i < times; i++)
		__builtin_memset(scratch, i, n < sizeof scratch ? n : sizeof scratch);
}

EXPORT(bomb) uint32_t bomb(void) {
	uint32_t pages = 0;
	while (__builtin_wasm_memory_grow(0, 1) != (unsigned long)-1)
		pages++;
	return pages;
}

EXPORT(empty) void empty(void) {}
EXPORT(trap) void trap(void) { __builtin_trap(); }
EXPORT(address) uint32_t address(void) { return (uint32_t)(uintptr_t)scratch; }
EXPORT(sum) uint32_t sum(const uint8_t *p, uint32_t n) {
	uint32_t s = 0;
	for (uint32_t i = 0; i < n; i++)
		s = s * 31 + p[i];
	return s;
}
