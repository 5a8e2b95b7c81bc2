//! Memory: small blocks are kept on lists by their size, without headers and
//! without being joined again, which is most of what a compilation asks for; all
//! others are left to the standard library.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;

/// Blocks are multiples of this, and so aligned to it.
const STEP: usize = 16;
/// The largest block that has a list.
const LARGEST: usize = 1024;
/// Bytes that are taken at a time to cut blocks from.
const CHUNK: usize = 16 << 10;

/// The lists of free blocks, the first word of each of which is the next one's
/// address, and what is left of the last chunk. Instances have one thread.
pub struct Lists(UnsafeCell<([usize; LARGEST / STEP], usize, usize)>);

unsafe impl Sync for Lists {}

impl Lists {
    pub const fn new() -> Lists {
        Lists(UnsafeCell::new(([0; LARGEST / STEP], 0, 0)))
    }

    /// Forgets all free blocks: what comes next lies together, not in the holes of
    /// what was there before. A page that an instance writes is copied for it.
    pub fn forget(&self) {
        unsafe { *self.0.get() = ([0; LARGEST / STEP], 0, 0) };
    }

    // The list of a layout's blocks.
    fn class(l: Layout) -> Option<usize> {
        if l.size() <= LARGEST && l.align() <= STEP && l.size() > 0 {
            Some((l.size() - 1) / STEP)
        } else {
            None
        }
    }
}

unsafe impl GlobalAlloc for Lists {
    unsafe fn alloc(&self, l: Layout) -> *mut u8 {
        let class = match Lists::class(l) {
            Some(c) => c,
            None => return System.alloc(l),
        };
        let (free, next, end) = &mut *self.0.get();
        let first = free[class];
        if first != 0 {
            free[class] = *(first as *const usize);
            return first as *mut u8;
        }
        let size = (class + 1) * STEP;
        if *end - *next < size {
            // What is left of the old chunk is less than a block and is lost.
            let chunk = System.alloc(Layout::from_size_align_unchecked(CHUNK, STEP)) as usize;
            if chunk == 0 {
                return std::ptr::null_mut();
            }
            (*next, *end) = (chunk, chunk + CHUNK);
        }
        *next += size;
        (*next - size) as *mut u8
    }

    unsafe fn dealloc(&self, p: *mut u8, l: Layout) {
        match Lists::class(l) {
            Some(class) => {
                let (free, ..) = &mut *self.0.get();
                *(p as *mut usize) = free[class];
                free[class] = p as usize;
            }
            None => System.dealloc(p, l),
        }
    }

    unsafe fn realloc(&self, p: *mut u8, l: Layout, size: usize) -> *mut u8 {
        let new = Layout::from_size_align_unchecked(size, l.align());
        match (Lists::class(l), Lists::class(new)) {
            (None, None) => System.realloc(p, l, size),
            (a, b) if a == b => p,
            _ => {
                let to = self.alloc(new);
                if !to.is_null() {
                    std::ptr::copy_nonoverlapping(p, to, l.size().min(size));
                    self.dealloc(p, l);
                }
                to
            }
        }
    }
}
