// Measures how fast this machine reads memory: roof THREADS. Prints GB/s, the best of seven.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { BYTES = 512 << 20, WORDS = 4 };

typedef uint64_t words __attribute__((vector_size(8 * WORDS), aligned(8)));

static char *memory;
static int threads;
static volatile uint64_t kept;

static void *reader(void *arg) {
	const size_t part = BYTES / (size_t)threads, from = part * (size_t)(intptr_t)arg;
	words a = {0}, b = {0}, c = {0}, d = {0};
	for (size_t i = from; i + 4 * sizeof a <= from + part; i += 4 * sizeof a) {
		const words *w = (const words *)(memory + i);
		a ^= w[0], b ^= w[1], c ^= w[2], d ^= w[3];
		__builtin_prefetch(memory + i + 2048);
		__builtin_prefetch(memory + i + 2048 + 64);
	}
	a ^= b ^ c ^ d;
	for (int i = 0; i < WORDS; i++) kept ^= a[i];
	return NULL;
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv) {
	threads = argc > 1 ? atoi(argv[1]) : 1;
	if (threads < 1 || threads > 256) return 2;
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) return 1;
#ifdef MADV_HUGEPAGE
	madvise(memory, BYTES, MADV_HUGEPAGE);
#endif
	memset(memory, 1, BYTES);
	double best = 1e9;
	for (int round = 0; round < 7; round++) {
		pthread_t t[256];
		const double begin = now();
		for (intptr_t i = 0; i < threads; i++) pthread_create(&t[i], NULL, reader, (void *)i);
		for (int i = 0; i < threads; i++) pthread_join(t[i], NULL);
		const double took = now() - begin;
		if (took < best) best = took;
	}
	printf("%.1f\n", BYTES / best / 1e9);
	return 0;
}
