//! One component of a gitignore pattern: `*`, `?`, classes and escapes over the bytes of one name.

use super::{MatchName, PatternError};

/// What one component matches. The common forms have a case of their own, for speed alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum NameGlob {
    /// `**` as a whole component; stands for directories, not for a name.
    AnyDirs,
    /// `*`.
    Any,
    /// No wildcard.
    Literal(Box<[u8]>),
    /// `*` and a literal.
    Suffix(Box<[u8]>),
    /// A literal and `*`.
    Prefix(Box<[u8]>),
    /// All else.
    Tokens(Box<[Token]>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token {
    Byte(u8),
    One,
    Star,
    Class(Box<ByteSet>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ByteSet([bool; 256]);

/// Splits a pattern into its components. A `/` inside a class does not split, an escaped one does.
pub(super) fn split(pattern: &[u8]) -> Result<Vec<NameGlob>, PatternError> {
    let mut names = Vec::new();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&byte) = pattern.get(at) {
        at += 1;
        match byte {
            b'\\' => match pattern.get(at) {
                None => return Err(PatternError::TrailingBackslash),
                Some(b'/') => {}
                Some(&escaped) => {
                    tokens.push(Token::Byte(escaped));
                    at += 1;
                }
            },
            b'/' => names.push(NameGlob::from_tokens(std::mem::take(&mut tokens))?),
            b'?' => tokens.push(Token::One),
            b'*' => tokens.push(Token::Star),
            b'[' => {
                let (set, end) = class(pattern, at)?;
                tokens.push(Token::Class(Box::new(set)));
                at = end;
            }
            literal => tokens.push(Token::Byte(literal)),
        }
    }
    names.push(NameGlob::from_tokens(tokens)?);
    Ok(names)
}

/// Reads a class from behind its `[`; gives the set and the place behind `]`. The order of cases is `wildmatch`'s.
fn class(pattern: &[u8], mut at: usize) -> Result<(ByteSet, usize), PatternError> {
    let byte = |at: usize| pattern.get(at).copied().ok_or(PatternError::BadClass);
    let negated = matches!(byte(at)?, b'!' | b'^');
    at += usize::from(negated);
    let mut set = [false; 256];
    let mut previous = None;
    let mut first = true;
    loop {
        let now = byte(at)?;
        match now {
            b']' if !first => break,
            b'\\' => {
                at += 1;
                let escaped = byte(at)?;
                set[usize::from(escaped)] = true;
                previous = Some(escaped);
            }
            b'-' if previous.is_some() && byte(at + 1)? != b']' => {
                at += 1;
                if byte(at)? == b'\\' {
                    at += 1;
                }
                let low = previous.take().expect("the guard saw it");
                for b in low..=byte(at)? {
                    set[usize::from(b)] = true;
                }
            }
            b'[' if byte(at + 1)? == b':' => {
                let from = at + 2;
                let close = (from..pattern.len()).find(|i| pattern[*i] == b']').ok_or(PatternError::BadClass)?;
                if close > from && pattern[close - 1] == b':' {
                    add_named(&mut set, &pattern[from..close - 1])?;
                    previous = None;
                    at = close;
                } else {
                    set[usize::from(b'[')] = true;
                    previous = Some(b'[');
                }
            }
            other => {
                set[usize::from(other)] = true;
                previous = Some(other);
            }
        }
        first = false;
        at += 1;
    }
    if negated {
        set.iter_mut().for_each(|b| *b = !*b);
    }
    Ok((ByteSet(set), at + 1))
}

fn add_named(set: &mut [bool; 256], name: &[u8]) -> Result<(), PatternError> {
    let test: fn(&u8) -> bool = match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |b| matches!(b, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |b| matches!(b, b' '..=b'~'),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |b| matches!(b, b' ' | b'\t' | b'\n' | b'\r'),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return Err(PatternError::BadClass),
    };
    (0..=255u8).filter(test).for_each(|b| set[usize::from(b)] = true);
    Ok(())
}

impl NameGlob {
    fn from_tokens(mut tokens: Vec<Token>) -> Result<NameGlob, PatternError> {
        let stars = tokens.len() > 1 && tokens.iter().all(|t| t == &Token::Star);
        if stars {
            return Ok(NameGlob::AnyDirs);
        }
        tokens.dedup_by(|b, a| *a == Token::Star && *b == Token::Star);
        let literal = |tokens: &[Token]| -> Option<Box<[u8]>> {
            tokens.iter().map(|t| if let Token::Byte(b) = t { Some(*b) } else { None }).collect()
        };
        if let Some(literal) = literal(&tokens) {
            return match &*literal {
                b"" => Err(PatternError::EmptyName),
                b"." | b".." => Err(PatternError::DotName),
                [..] => Ok(NameGlob::Literal(literal)),
            };
        }
        Ok(match tokens.as_slice() {
            [Token::Star] => NameGlob::Any,
            [Token::Star, rest @ ..] if literal(rest).is_some() => {
                NameGlob::Suffix(literal(rest).expect("the guard saw it"))
            }
            [rest @ .., Token::Star] if literal(rest).is_some() => {
                NameGlob::Prefix(literal(rest).expect("the guard saw it"))
            }
            [..] => NameGlob::Tokens(tokens.into()),
        })
    }
}

impl MatchName for NameGlob {
    fn matches(&self, name: &[u8]) -> bool {
        match self {
            NameGlob::AnyDirs | NameGlob::Any => true,
            NameGlob::Literal(literal) => **literal == *name,
            NameGlob::Suffix(suffix) => name.ends_with(suffix),
            NameGlob::Prefix(prefix) => name.starts_with(prefix),
            NameGlob::Tokens(tokens) => tokens_match(tokens, name),
        }
    }
}

/// Each star takes as little as it can; only the last star met ever has to take more, so the cost is at most the
/// product of both lengths.
fn tokens_match(tokens: &[Token], name: &[u8]) -> bool {
    let (mut t, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let fits = match (tokens.get(t), name.get(n)) {
            (None, None) => return true,
            (Some(Token::Star), _) => {
                retry = Some((t + 1, n));
                t += 1;
                continue;
            }
            (Some(Token::Byte(want)), Some(have)) => want == have,
            (Some(Token::One), Some(_)) => true,
            (Some(Token::Class(set)), Some(have)) => set.0[usize::from(*have)],
            (None, Some(_)) | (Some(_), None) => false,
        };
        if fits {
            t += 1;
            n += 1;
        } else if let Some((token, from)) = retry.filter(|(_, from)| *from < name.len()) {
            retry = Some((token, from + 1));
            (t, n) = (token, from + 1);
        } else {
            return false;
        }
    }
}
