// Our own kernels as the fake driver runs them.
#ifndef FAKE_KERNELS_H
#define FAKE_KERNELS_H

struct kernel {
	const char *name;
	unsigned threads;
	// run runs a grid of x by y blocks with the addresses of the kernel's arguments.
	void (*run)(unsigned x, unsigned y, void **arguments);
};

extern const struct kernel reduce_kernel, shrink_kernel, expand_kernel;

// X(name, threads) of the kernels of runtime/attend.
#define ATTENDS(X)                                                                                                  \
	X(tgi_attend_16, 128) X(tgi_attend_32, 128) X(tgi_attend_64, 128) X(tgi_attend_80, 128) X(tgi_attend_96, 128)       \
	X(tgi_attend_128, 128) X(tgi_attend_256, 64) X(tgi_attend_16_half, 128) X(tgi_attend_32_half, 128)                  \
	X(tgi_attend_64_half, 128) X(tgi_attend_80_half, 128) X(tgi_attend_96_half, 128) X(tgi_attend_128_half, 128)        \
	X(tgi_attend_256_half, 64)
#define DECLARE(name, threads) extern const struct kernel name##_kernel;
ATTENDS(DECLARE)
#undef DECLARE

// ARGUMENT is argument i, of a type.
#define ARGUMENT(type, i) (*(type *)arguments[i])

#endif
