//! Tests of the store as a whole: what it keeps, and what it says when its files are not what it wrote.

mod checking;
mod collecting;
mod collecting_crashes;
mod crashes;
mod damage;
mod differences;
mod disk;
mod dropping;
mod flushing;
mod format;
mod ground;
mod model;
mod recovering;
mod remembering;
mod reviewing;
mod shapes;
