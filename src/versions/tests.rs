//! Tests of the store as a whole: what it keeps, and what it says when its files are not what it wrote.

mod crashes;
mod damage;
mod disk;
mod dropping;
mod flushing;
mod ground;
mod model;
mod recovering;
mod remembering;
mod shapes;
