/* tgi_math.h: exponential and logarithm for guests, which have no C library.
 * The error is at most 2 units in the last place. The results have the same bits on
 * every machine, and the same as tgi_plugin::math in Rust.
 */
#ifndef TGI_MATH_H
#define TGI_MATH_H

#include "tgi.h"

#define TGI__LN2_HI 0x1.62e42feep-1
#define TGI__LN2_LO 0x1.a39ef35793c76p-33

static inline double tgi__from_bits(uint64_t b) {
  double d;
  __builtin_memcpy(&d, &b, 8);
  return d;
}

/* x * 2^k for -1100 < k < 1100. */
static inline double tgi__scale(double x, int k) {
  int half = k / 2;
  return x * tgi__from_bits((uint64_t)(1023 + half) << 52) * tgi__from_bits((uint64_t)(1023 + k - half) << 52);
}

static inline double tgi_exp(double x) {
  if (x != x) return x;
  if (x > 710) return __builtin_inf();
  if (x < -746) return 0;
  int k = (int)(x * 0x1.71547652b82fep+0 + (x < 0 ? -0.5 : 0.5));
  double r = (x - k * TGI__LN2_HI) - k * TGI__LN2_LO, p = 1;
  for (int n = 14; n > 0; n--) p = 1 + p * r / n;
  return tgi__scale(p, k);
}

static inline double tgi_ln(double x) {
  if (x != x || x < 0) return __builtin_nan("");
  if (x == 0) return -__builtin_inf();
  if (x > 0x1.fffffffffffffp1023) return x;
  int e = 0;
  if (x < 0x1p-1022) x *= 0x1p54, e = -54;
  uint64_t b;
  __builtin_memcpy(&b, &x, 8);
  e += (int)(b >> 52) - 1023;
  double m = tgi__from_bits((b & 0xfffffffffffffu) | 0x3ff0000000000000u);
  if (m > 0x1.6a09e667f3bcdp0) m *= 0.5, e++;
  double f = m - 1, s = f / (2 + f), z = s * s, p = 0;
  for (int n = 23; n > 1; n -= 2) p = (p + 1.0 / n) * z;
  /* log(1+f) = 2s + 2sp, and 2s = f - sf; in this form f is not rounded */
  return e * TGI__LN2_HI + (f - s * (f - 2 * p) + e * TGI__LN2_LO);
}

#endif
