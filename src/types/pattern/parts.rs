//! A pattern as a row of parts, one for each component of a path, and how far in it the names of a path have come.

/// What one component of a pattern matches.
pub trait MatchName {
    /// Does it match this whole name?
    fn matches(&self, name: &[u8]) -> bool;
}

/// One component of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part<N> {
    /// `**`: any number of directories, none too.
    AnyDirs,
    /// One name.
    Name(N),
}

/// A whole pattern. It ends with a name: a trailing `**` stands as `AnyDirs` and a name that matches all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parts<N>(Vec<Part<N>>);

/// How far a pattern has matched: one bit for each place in it that the names so far can have reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress(u64);

/// Keeps every place of a pattern, the one behind its end too, within the bits of a `Progress`.
const MAX_PARTS: usize = 62;

impl<N: MatchName> Parts<N> {
    /// `None` for a row of more than 62 parts, and for one that does not end with a name.
    #[must_use]
    pub fn new(parts: Vec<Part<N>>) -> Option<Parts<N>> {
        let ends_well = matches!(parts.last(), Some(Part::Name(_)));
        (ends_well && parts.len() <= MAX_PARTS).then_some(Parts(parts))
    }

    /// The name of a pattern that is just one, at the top or at any depth.
    #[must_use]
    pub fn only_name(&self) -> Option<&N> {
        match self.0.as_slice() {
            [Part::Name(name)] | [Part::AnyDirs, Part::Name(name)] => Some(name),
            [..] => None,
        }
    }

    /// No names yet: the root.
    #[must_use]
    pub fn start(&self) -> Progress {
        let mut next = Progress(0);
        self.reach(&mut next, 0);
        next
    }

    /// One name further down.
    #[must_use]
    pub fn step(&self, now: Progress, name: &[u8]) -> Progress {
        let mut next = Progress(0);
        let mut places = now.0;
        while places != 0 {
            let at = places.trailing_zeros() as usize;
            places &= places - 1;
            match self.0.get(at) {
                Some(Part::AnyDirs) => self.reach(&mut next, at),
                Some(Part::Name(glob)) if glob.matches(name) => self.reach(&mut next, at + 1),
                Some(Part::Name(_)) | None => {}
            }
        }
        next
    }

    /// Do the names so far match?
    #[must_use]
    pub fn accepts(&self, now: Progress) -> bool {
        now.0 >> self.0.len() & 1 == 1
    }

    /// Could some path below the names so far match?
    #[must_use]
    pub fn could_go_on(&self, now: Progress) -> bool {
        now.0 & !(1 << self.0.len()) != 0
    }

    fn reach(&self, progress: &mut Progress, mut at: usize) {
        progress.0 |= 1 << at;
        while matches!(self.0.get(at), Some(Part::AnyDirs)) {
            at += 1;
            progress.0 |= 1 << at;
        }
    }
}
