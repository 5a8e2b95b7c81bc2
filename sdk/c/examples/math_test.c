/* Compares tgi_math.h with the machine's own functions. */
#include "tgi_math.h"
#include <math.h>
#include <stdio.h>

static double ulps(double got, double want) {
  if (got == want || (isnan(got) && isnan(want))) return 0;
  return fabs(got - want) / (nextafter(fabs(want), INFINITY) - fabs(want));
}

int main(void) {
  double worst_exp = 0, worst_log = 0;
  const double edges[] = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 709.78, 710, -745.1, -746, 1e-320, 1e308, 0x1p-1022, 0.5, 2};
  for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
    worst_exp = fmax(worst_exp, ulps(tgi_exp(edges[i]), exp(edges[i])));
    worst_log = fmax(worst_log, ulps(tgi_ln(edges[i]), log(edges[i])));
  }
  uint64_t seed = 1;
  for (int i = 0; i < 1000000; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    double u = (double)(seed >> 11) * 0x1p-53;
    double x = (u - 0.5) * 1400, y = i & 1 ? exp(x) : u * 3;
    worst_exp = fmax(worst_exp, ulps(tgi_exp(x), exp(x)));
    worst_log = fmax(worst_log, ulps(tgi_ln(y), log(y)));
  }
  if (worst_exp <= 2 && worst_log <= 2) return 0;
  fprintf(stderr, "worst error in units of the last place: exp %g, log %g\n", worst_exp, worst_log);
  return 1;
}
