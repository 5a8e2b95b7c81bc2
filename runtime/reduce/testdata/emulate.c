// Answers batches of questions with the kernel, from standard input to standard output. A batch is six numbers (the
// vocabulary, rows, questions, words of the request, rows of scratch memory, the order of the threads), the logits and
// the request; the answers are those of reduce.cu. Blocks run from the last to the first.
#include <stdio.h>
#include <stdlib.h>

#include "../../kernel/emulate.h"
#include "../reduce.cu"

static void *take(size_t bytes) {
	void *p = malloc(bytes ? bytes : 1);
	if (!p || fread(p, 1, bytes, stdin) != bytes) exit(1);
	return p;
}

int main(void) {
	u32 h[6];
	while (fread(h, sizeof h, 1, stdin) == 1) {
		float *logits = take((size_t)h[0] * h[1] * sizeof *logits);
		u32 *request = take((size_t)h[3] * sizeof *request);
		float *scratch = malloc((size_t)h[0] * h[4] * sizeof *scratch + 1);
		struct answer *answers = calloc(h[2], sizeof *answers);
		stride = h[5] * 2 + 1;
		shift = h[5] * 7;
		for (u32 n = h[2]; n > 0; n--) {
			block = n - 1;
			tgi_reduce(logits, request, scratch, answers, h[0]);
		}
		fwrite(answers, sizeof *answers, h[2], stdout);
		fflush(stdout);
		free(logits);
		free(request);
		free(scratch);
		free(answers);
	}
	return 0;
}
