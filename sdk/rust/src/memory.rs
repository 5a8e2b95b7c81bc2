//! A bump allocator and the panic handler of a guest.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32::{memory_grow, memory_size};

const PAGE: usize = 65536;

struct Bump;

static mut TOP: usize = 0;
static mut END: usize = 0;

extern "C" {
    static __heap_base: u8;
}

unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if TOP == 0 {
            TOP = core::ptr::addr_of!(__heap_base) as usize;
            END = memory_size(0) * PAGE;
        }
        let at = (TOP + layout.align() - 1) & !(layout.align() - 1);
        let top = match at.checked_add(layout.size()) {
            Some(top) => top,
            None => return core::ptr::null_mut(),
        };
        if top > END {
            let pages = (top - END + PAGE - 1) / PAGE;
            if memory_grow(0, pages) == usize::MAX {
                return core::ptr::null_mut();
            }
            END += pages * PAGE;
        }
        TOP = top;
        at as *mut u8
    }

    // What lies on top goes back, so that a value which comes and goes at
    // every step costs nothing; the rest goes back with the sequence.
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if at as usize + layout.size() == TOP {
            TOP = at as usize;
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if at as usize + layout.size() == TOP {
            TOP = at as usize;
            return self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        }
        let to = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
        if !to.is_null() {
            core::ptr::copy_nonoverlapping(at, to, layout.size().min(size));
        }
        to
    }
}

#[global_allocator]
static BUMP: Bump = Bump;

/// The server reports what was logged last together with the trap.
#[cfg(not(tgi_std))]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo) -> ! {
    // "panicked at src/lib.rs:29", without allocating, for that may be what failed, and by hand: the formatting of core
    // is larger than most plugins.
    let mut text = [0u8; 160];
    let mut n = 0;
    let mut put = |b: &[u8]| {
        for &c in b {
            if n < text.len() {
                text[n] = c;
                n += 1;
            }
        }
    };
    put(b"panicked");
    if let Some(at) = info.location() {
        put(b" at ");
        put(at.file().as_bytes());
        put(b":");
        let mut power = 1;
        while at.line() / power >= 10 {
            power *= 10;
        }
        while power > 0 {
            put(&[b'0' + (at.line() / power % 10) as u8]);
            power /= 10;
        }
    }
    // Cut within a character where a path is that long.
    crate::host::log(crate::host::ERROR, core::str::from_utf8(&text[..n]).unwrap_or("panicked"));
    core::arch::wasm32::unreachable()
}
