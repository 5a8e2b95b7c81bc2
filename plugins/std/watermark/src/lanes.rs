//! Four u32 at once: one v128 in the sandbox, an array in native tests, so that
//! both run the same algorithm.

#[cfg(target_arch = "wasm32")]
mod imp {
    use core::arch::wasm32::*;

    #[derive(Clone, Copy)]
    pub struct Lanes(v128);

    impl Lanes {
        #[inline(always)]
        pub const fn new(v: [u32; 4]) -> Lanes {
            Lanes(u32x4(v[0], v[1], v[2], v[3]))
        }
        #[inline(always)]
        pub fn splat(v: u32) -> Lanes {
            Lanes(u32x4_splat(v))
        }
        #[inline(always)]
        pub fn array(self) -> [u32; 4] {
            let v = self.0;
            [u32x4_extract_lane::<0>(v), u32x4_extract_lane::<1>(v), u32x4_extract_lane::<2>(v), u32x4_extract_lane::<3>(v)]
        }
        #[inline(always)]
        pub fn add(self, o: Lanes) -> Lanes {
            Lanes(u32x4_add(self.0, o.0))
        }
        #[inline(always)]
        pub fn sub(self, o: Lanes) -> Lanes {
            Lanes(u32x4_sub(self.0, o.0))
        }
        #[inline(always)]
        pub fn mul(self, o: Lanes) -> Lanes {
            Lanes(u32x4_mul(self.0, o.0))
        }
        #[inline(always)]
        pub fn and(self, o: Lanes) -> Lanes {
            Lanes(v128_and(self.0, o.0))
        }
        #[inline(always)]
        pub fn or(self, o: Lanes) -> Lanes {
            Lanes(v128_or(self.0, o.0))
        }
        #[inline(always)]
        pub fn xor(self, o: Lanes) -> Lanes {
            Lanes(v128_xor(self.0, o.0))
        }
        #[inline(always)]
        pub fn shr(self, n: u32) -> Lanes {
            Lanes(u32x4_shr(self.0, n))
        }
        #[inline(always)]
        pub fn shl(self, n: u32) -> Lanes {
            Lanes(u32x4_shl(self.0, n))
        }
        /// All bits of a lane where it is equal.
        #[inline(always)]
        pub fn eq(self, o: Lanes) -> Lanes {
            Lanes(u32x4_eq(self.0, o.0))
        }
        /// Whether any bit is set.
        #[inline(always)]
        pub fn any(self) -> bool {
            v128_any_true(self.0)
        }
        /// Each lane divided by `d` as 32-bit floats, without the fraction.
        #[inline(always)]
        pub fn quotient(self, d: f32) -> Lanes {
            Lanes(u32x4_trunc_sat_f32x4(f32x4_div(f32x4_convert_u32x4(self.0), f32x4_splat(d))))
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod imp {
    #[derive(Clone, Copy)]
    pub struct Lanes([u32; 4]);

    impl Lanes {
        pub const fn new(v: [u32; 4]) -> Lanes {
            Lanes(v)
        }
        pub fn splat(v: u32) -> Lanes {
            Lanes([v; 4])
        }
        pub fn array(self) -> [u32; 4] {
            self.0
        }
        fn map(self, f: impl Fn(u32) -> u32) -> Lanes {
            Lanes(self.0.map(f))
        }
        fn zip(self, o: Lanes, f: impl Fn(u32, u32) -> u32) -> Lanes {
            let (a, b) = (self.0, o.0);
            Lanes([f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2]), f(a[3], b[3])])
        }
        pub fn add(self, o: Lanes) -> Lanes {
            self.zip(o, u32::wrapping_add)
        }
        pub fn sub(self, o: Lanes) -> Lanes {
            self.zip(o, u32::wrapping_sub)
        }
        pub fn mul(self, o: Lanes) -> Lanes {
            self.zip(o, u32::wrapping_mul)
        }
        pub fn and(self, o: Lanes) -> Lanes {
            self.zip(o, |a, b| a & b)
        }
        pub fn or(self, o: Lanes) -> Lanes {
            self.zip(o, |a, b| a | b)
        }
        pub fn xor(self, o: Lanes) -> Lanes {
            self.zip(o, |a, b| a ^ b)
        }
        pub fn shr(self, n: u32) -> Lanes {
            self.map(|a| a >> n)
        }
        pub fn shl(self, n: u32) -> Lanes {
            self.map(|a| a << n)
        }
        /// All bits of a lane where it is equal.
        pub fn eq(self, o: Lanes) -> Lanes {
            self.zip(o, |a, b| if a == b { u32::MAX } else { 0 })
        }
        /// Whether any bit is set.
        pub fn any(self) -> bool {
            self.0 != [0; 4]
        }
        /// Each lane divided by `d` as 32-bit floats, without the fraction.
        pub fn quotient(self, d: f32) -> Lanes {
            self.map(|a| (a as f32 / d) as u32)
        }
    }
}

pub use imp::Lanes;
