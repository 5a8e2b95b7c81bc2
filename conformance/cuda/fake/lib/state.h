// What the fake libraries count, and what they are told, in a file that the test maps or reads too.
#ifndef FAKE_STATE_H
#define FAKE_STATE_H

#include <stdint.h>

// The order is that of Counters in fake.go.
struct fake_state {
	int64_t launches, products, copies_in, copies_out, copies_within, waits, graph_launches, captures;
	int64_t allocations, live, live_bytes, streams, modules, own_launches, attentions;
	// Told by the test: the error of every call on the device, whether allocations fail, the memory of the device, and
	// whether the driver refuses our kernels, and whether attention is computed.
	int64_t fail, no_memory, total, no_kernels, attends;
	// One fault: the kind of call, how many of them are left until it fails, its error, and whether all calls fail then.
	int64_t fault_kind, fault_after, fault_code, fault_stays;
};

// The order is that of Fault in fake.go.
enum { ALLOCATION = 1, LAUNCH, COPY, WAIT, CAPTURE, INSTANTIATE, REPLAY };

struct fake_state *fake_state(void);

// fault returns the error that a call of a kind gets, or 0.
static inline int fault(int kind) {
	struct fake_state *s = fake_state();
	if (s->fail) return (int)s->fail;
	if (s->fault_kind != kind || __atomic_sub_fetch(&s->fault_after, 1, __ATOMIC_RELAXED)) return 0;
	if (s->fault_stays) s->fail = s->fault_code;
	return (int)s->fault_code;
}

#define COUNT(field, n) __atomic_fetch_add(&fake_state()->field, (n), __ATOMIC_RELAXED)

#endif
