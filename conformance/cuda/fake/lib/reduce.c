// The kernel of runtime/reduce.
#include "emulate.h"
#include "reduce.cu"

#include "kernels.h"

static void run(unsigned x, unsigned y, void **arguments) {
	stride = 1;
	for (block = 0; block < x; block++)
		tgi_reduce(ARGUMENT(const float *, 0), ARGUMENT(const u32 *, 1), ARGUMENT(float *, 2), ARGUMENT(struct answer *, 3),
			ARGUMENT(u32, 4));
}

const struct kernel reduce_kernel = {"tgi_reduce", THREADS, run};
