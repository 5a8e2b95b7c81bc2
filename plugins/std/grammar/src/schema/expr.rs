//! Schemas as expressions: the constraints of keywords and Boolean operations over them, each
//! stored once.
//!
//! A constraint applies to values of one type and is true for all others, as in JSON Schema; so
//! `not` of a constraint is of that type.

use crate::hash::{Map, Seen};
use crate::re::{Re, MANY};

/// An expression: its index in an arena.
pub type Sx = u32;

/// Every value.
pub const ANY: Sx = 0;
/// No value.
pub const NONE: Sx = 1;

/// Types of values, as bits.
pub const NULL: u8 = 1;
pub const BOOL: u8 = 2;
pub const NUM: u8 = 4;
pub const STR: u8 = 8;
pub const ARR: u8 = 16;
pub const OBJ: u8 = 32;
pub const TYPES: u8 = 63;

/// The shape of an expression. Names of members and strings are in the canonical
/// form of `chars::Form::Json`, numbers in that of `numbers`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    Any,
    None,
    /// Values of these types.
    Types(u8),
    /// A boolean is this one.
    Bool(bool),
    /// A number's text is in the language.
    Num(Re),
    /// A string's text is in the language.
    Str(Re),
    /// A string has so many characters.
    Len(u32, u32),
    /// The item at an index, if there is one.
    Item(u32, Sx),
    /// All items from an index on.
    Items(u32, Sx),
    /// An array has so many items.
    Count(u32, u32),
    /// So many items from an index on are of this kind.
    Contains(u32, Sx, u32, u32),
    /// No two items are equal.
    Unique,
    /// All members whose names are in the language.
    All(Re, Sx),
    /// Some member whose name is in the language.
    Some(Re, Sx),
    /// An object has so many members.
    Props(u32, u32),
    Not(Sx),
    And(Vec<Sx>),
    Or(Vec<Sx>),
    /// Exactly one of these; the number is that of the keyword's refusal.
    One(Vec<Sx>, u32),
    /// The schema at a location.
    Loc(u32),
    /// A keyword that cannot be enforced, for values of these types.
    Refused(u32, u8),
}

/// All expressions of one compilation.
pub struct Arena {
    shapes: Vec<Shape>,
    index: Map<Shape, Sx>,
}

impl Arena {
    pub fn new() -> Arena {
        let mut a = Arena { shapes: Vec::new(), index: Map::default() };
        a.make(Shape::Any);
        a.make(Shape::None);
        a
    }

    pub fn len(&self) -> usize {
        self.shapes.len()
    }

    pub fn shape(&self, x: Sx) -> &Shape {
        &self.shapes[x as usize]
    }

    /// Stores a shape. And, Or, Not and Types go through their own functions.
    pub fn make(&mut self, s: Shape) -> Sx {
        // A condition that is true for every value is ANY.
        match s {
            Shape::Len(0, MANY) | Shape::Count(0, MANY) | Shape::Props(0, MANY) => return ANY,
            // All(_, ANY) stays: it determines the position of the member.
            Shape::Item(_, ANY) | Shape::Items(_, ANY) | Shape::Items(MANY, _) => return ANY,
            Shape::Contains(_, _, 0, MANY) => return ANY,
            _ => {}
        }
        if let Some(&x) = self.index.get(&s) {
            return x;
        }
        let x = self.shapes.len() as Sx;
        self.shapes.push(s.clone());
        self.index.insert(s, x);
        x
    }

    pub fn types(&mut self, mask: u8) -> Sx {
        match mask {
            0 => NONE,
            TYPES => ANY,
            m => self.make(Shape::Types(m)),
        }
    }

    pub fn not(&mut self, x: Sx) -> Sx {
        match *self.shape(x) {
            Shape::Any => NONE,
            Shape::None => ANY,
            Shape::Not(y) => y,
            Shape::Types(m) => self.types(TYPES & !m),
            _ => self.make(Shape::Not(x)),
        }
    }

    /// All of these. Keeps their order, which is the order of members.
    pub fn and(&mut self, parts: Vec<Sx>) -> Sx {
        let (mut flat, mut mask) = (Vec::new(), TYPES);
        let mut seen = Seen::default();
        let mut work: Vec<Sx> = parts.into_iter().rev().collect();
        while let Some(x) = work.pop() {
            match self.shape(x) {
                Shape::Any => {}
                Shape::None => return NONE,
                Shape::Types(m) => mask &= m,
                Shape::And(v) => work.extend(v.iter().rev()),
                _ if seen.insert(x) => flat.push(x),
                _ => {}
            }
        }
        if mask != TYPES {
            flat.insert(0, self.types(mask));
        }
        if flat.contains(&NONE) || flat.iter().any(|x| matches!(self.shape(*x), Shape::Not(y) if seen.contains(y))) {
            return NONE;
        }
        match flat.len() {
            0 => ANY,
            1 => flat[0],
            _ => self.make(Shape::And(flat)),
        }
    }

    /// Any of these.
    pub fn or(&mut self, parts: Vec<Sx>) -> Sx {
        let (mut flat, mut mask) = (Vec::new(), 0);
        let mut seen = Seen::default();
        let mut work: Vec<Sx> = parts.into_iter().rev().collect();
        while let Some(x) = work.pop() {
            match self.shape(x) {
                Shape::Any => return ANY,
                Shape::None => {}
                Shape::Types(m) => mask |= m,
                Shape::Or(v) => work.extend(v.iter().rev()),
                _ if seen.insert(x) => flat.push(x),
                _ => {}
            }
        }
        if mask != 0 {
            flat.insert(0, self.types(mask));
        }
        if flat.contains(&ANY) || flat.iter().any(|x| matches!(self.shape(*x), Shape::Not(y) if seen.contains(y))) {
            return ANY;
        }
        match flat.len() {
            0 => NONE,
            1 => flat[0],
            _ => self.make(Shape::Or(flat)),
        }
    }
}
