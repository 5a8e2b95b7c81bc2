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

// ARGUMENT is argument i, of a type.
#define ARGUMENT(type, i) (*(type *)arguments[i])

#endif
