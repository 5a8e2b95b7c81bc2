#include "product.h"

#include <stddef.h>
#include <string.h>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

static const struct mq_kernel *current = &mq_portable;

const struct mq_kernel *mq_current(void) { return current; }

#if defined(__aarch64__)
// has_dot says whether the CPU has the dot product of bytes.
static int has_dot(void) {
#if defined(__linux__)
	return (getauxval(AT_HWCAP) & 1ul << 20) != 0;  // HWCAP_ASIMDDP
#elif defined(__APPLE__)
	int has = 0;
	size_t size = sizeof has;
	return sysctlbyname("hw.optional.arm.FEAT_DotProd", &has, &size, NULL, 0) == 0 && has;
#else
	return 0;
#endif
}
#endif

enum { MAX_KERNELS = 5 };

// candidates lists the kernels that this CPU runs, best first.
static size_t candidates(const struct mq_kernel *list[MAX_KERNELS]) {
	size_t n = 0;
#if defined(__x86_64__)
	__builtin_cpu_init();
	const int avx2 =
	    __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
	if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
	    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni")) {
#if defined(__linux__)
		if (mq_has_amx()) list[n++] = &mq_amx;
#endif
		list[n++] = &mq_avx512vnni;
	}
	if (avx2 && __builtin_cpu_supports("avxvnni")) list[n++] = &mq_avxvnni;
	if (avx2) list[n++] = &mq_avx2;
#elif defined(__aarch64__)
	if (has_dot()) list[n++] = &mq_neondot;
#endif
	list[n++] = &mq_portable;
	return n;
}

const char *mq_choose(const char *name) {
	const struct mq_kernel *list[MAX_KERNELS];
	const size_t n = candidates(list);
	for (size_t i = 0; i < n; i++) {
		if (*name && strcmp(name, list[i]->name)) continue;
		current = list[i];
		return current->name;
	}
	return NULL;
}
