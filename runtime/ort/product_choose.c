// The choice of a kernel for this CPU.

#include <stddef.h>
#include <string.h>

#include "product.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

static const struct mq_kernel *current = &mq_portable;

const struct mq_kernel *mq_current(void) { return current; }

#if defined(__aarch64__)
// Instructions that an ARM CPU may lack: the dot product of bytes, and products of small matrices of them.
enum feature { DOT_PRODUCT, MATRIX_PRODUCT };

// has says whether the CPU has a feature.
static int has(enum feature f) {
#if defined(__linux__)
	// HWCAP_ASIMDDP, HWCAP2_I8MM
	return f == DOT_PRODUCT ? (getauxval(AT_HWCAP) & 1ul << 20) != 0 : (getauxval(AT_HWCAP2) & 1ul << 13) != 0;
#elif defined(__APPLE__)
	int yes = 0;
	size_t size = sizeof yes;
	const char *name = f == DOT_PRODUCT ? "hw.optional.arm.FEAT_DotProd" : "hw.optional.arm.FEAT_I8MM";
	return sysctlbyname(name, &yes, &size, NULL, 0) == 0 && yes;
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
	if (has(DOT_PRODUCT) && has(MATRIX_PRODUCT)) list[n++] = &mq_neoni8mm;
	if (has(DOT_PRODUCT)) list[n++] = &mq_neondot;
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
