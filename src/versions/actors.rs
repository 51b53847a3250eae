//! Actors by number: each distinct one is in the log once, and operations refer to it.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::StoreError;
use crate::types::Actor;

/// So many are remembered; then all are forgotten, and those who come again get a new number.
const REMEMBERED: usize = 8192;

#[derive(Default)]
struct Known {
    numbers: HashMap<Actor, u32>,
    actors: HashMap<u32, Actor>,
    last: u32,
}

/// The actors of a store. Its lock comes before the log's.
#[derive(Default)]
pub(super) struct Actors(Mutex<Known>);

impl Actors {
    /// Actors from the index, and the highest number given.
    pub fn new(known: Vec<(u32, Actor)>, last: u32) -> Actors {
        let mut all = Known { last, ..Known::default() };
        for (number, actor) in known {
            all.remember(number, &actor);
        }
        Actors(Mutex::new(all))
    }

    /// The number of an actor. A new one is given to `append` first.
    pub fn number(&self, actor: &Actor, append: impl FnOnce(u32) -> Result<(), StoreError>) -> Result<u32, StoreError> {
        let mut known = self.0.lock();
        if let Some(number) = known.numbers.get(actor) {
            return Ok(*number);
        }
        let number = known.last + 1;
        append(number)?;
        known.last = number;
        known.remember(number, actor);
        Ok(number)
    }

    /// An actor by number, if it is remembered.
    pub fn get(&self, number: u32) -> Option<Actor> {
        self.0.lock().actors.get(&number).cloned()
    }

    /// Remembers what was looked up: to be told, not to be given again.
    pub fn found(&self, number: u32, actor: &Actor) {
        let mut known = self.0.lock();
        known.make_room();
        known.actors.insert(number, actor.clone());
    }

    /// Numbers that are old are not given any more. Returns the first that may still be.
    pub fn retire(&self) -> u32 {
        let mut known = self.0.lock();
        let first = known.last.saturating_sub(u32::try_from(REMEMBERED).unwrap_or(u32::MAX));
        known.numbers.retain(|_, number| *number >= first);
        first
    }
}

impl Known {
    fn make_room(&mut self) {
        if self.actors.len() >= REMEMBERED {
            self.actors.clear();
            self.numbers.clear();
        }
    }

    fn remember(&mut self, number: u32, actor: &Actor) {
        self.make_room();
        self.actors.insert(number, actor.clone());
        self.numbers.insert(actor.clone(), number);
    }
}
