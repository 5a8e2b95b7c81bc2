// A device that runs kernels: commands come from standard input, answers go to standard output. A command is eight
// numbers, of which the first says what it is.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMORY, WRITE, READ, RUN };

static void check(int ok) {
	if (!ok) exit(1);
}

// serve does what commands say until there are no more; run runs kernels as one says.
static int serve(void (*run)(const u64 *c)) {
	u64 c[8];
	while (fread(c, sizeof c, 1, stdin) == 1) {
		switch (c[0]) {
		case MEMORY: {
			void *p = aligned_alloc(256, c[1] / 256 * 256 + 256);
			check(p && fwrite(&p, sizeof p, 1, stdout) == 1);
			memset(p, 0xff, c[1]);
			break;
		}
		case WRITE: check(fread((void *)c[1], 1, c[2], stdin) == c[2]); break;
		case READ: check(fwrite((void *)c[1], 1, c[2], stdout) == c[2]); break;
		default: run(c);
		}
		fflush(stdout);
	}
	return 0;
}
