#include "attention.h"

#include <stddef.h>
#include <string.h>

static const struct pa_kernel *current = &pa_portable;

const struct pa_kernel *pa_current(void) { return current; }

// candidates lists the kernels that this CPU runs, best first.
static size_t candidates(const struct pa_kernel *list[4]) {
	size_t n = 0;
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
	    __builtin_cpu_supports("avx512bw")) {
		if (__builtin_cpu_supports("avx512vnni")) list[n++] = &pa_avx512vnni;
		list[n++] = &pa_avx512;
	}
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
		list[n++] = &pa_avx2;
#elif defined(__aarch64__)
	list[n++] = &pa_neon;
#endif
	list[n++] = &pa_portable;
	return n;
}

const char *pa_choose(const char *name) {
	const struct pa_kernel *list[4];
	const size_t n = candidates(list);
	for (size_t i = 0; i < n; i++) {
		if (*name && strcmp(name, list[i]->name)) continue;
		current = list[i];
		return current->name;
	}
	return NULL;
}
