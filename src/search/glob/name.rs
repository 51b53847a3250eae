//! One component of a glob: `*`, `?` and classes over the characters of one name.

use super::{Dialect, braces::class_end};
use crate::types::MatchName;

/// What one component matches. The common forms have a case of their own, for speed alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum CharGlob {
    /// `*`.
    Any,
    /// No wildcard.
    Literal(Box<str>),
    /// `*` and a literal.
    Suffix(Box<str>),
    /// A literal and `*`.
    Prefix(Box<str>),
    /// All else, and all that folds case.
    Tokens { tokens: Box<[Token]>, ignore_case: bool },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token {
    One,
    Star,
    /// A character, folded if case does not count.
    Char(u32),
    /// Inclusive ranges of characters, and whether all others are meant.
    Class {
        ranges: Box<[(u32, u32)]>,
        negated: bool,
    },
}

/// Splits a pattern into its components; a `/` inside a class does not split.
pub(super) fn split(pattern: &str, dialect: Dialect) -> Vec<&str> {
    if dialect == Dialect::Plain {
        return pattern.split('/').collect();
    }
    let (mut names, mut from, mut at) = (Vec::new(), 0, 0);
    while let Some(c) = pattern[at..].chars().next() {
        match c {
            '/' => {
                names.push(&pattern[from..at]);
                from = at + 1;
                at += 1;
            }
            '\\' => at += 1 + pattern[at + 1..].chars().next().map_or(0, char::len_utf8),
            '[' => at += class_end(&pattern[at..]).unwrap_or(1),
            c => at += c.len_utf8(),
        }
    }
    names.push(&pattern[from..]);
    names
}

impl CharGlob {
    pub(super) fn parse(pattern: &str, dialect: Dialect, ignore_case: bool) -> Result<CharGlob, String> {
        if matches!(pattern, "" | "." | "..") {
            return Err(format!("{pattern:?} as a component never matches"));
        }
        let mut tokens = Vec::new();
        let mut rest = pattern;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            match c {
                '*' if tokens.last() == Some(&Token::Star) => {}
                '*' => tokens.push(Token::Star),
                '?' => tokens.push(Token::One),
                '\\' if dialect != Dialect::Plain => {
                    let escaped =
                        rest.chars().next().ok_or("it ends with `\\`; write `\\\\` for the character itself")?;
                    rest = &rest[escaped.len_utf8()..];
                    tokens.push(Token::Char(u32::from(escaped)));
                }
                '[' if dialect != Dialect::Plain => {
                    let text = &pattern[pattern.len() - rest.len() - 1..];
                    let end = class_end(text).ok_or("a `[` is not closed; write `\\[` for the character itself")?;
                    tokens.push(class(&text[1..end - 1], dialect)?);
                    rest = &text[end..];
                }
                literal => tokens.push(Token::Char(u32::from(literal))),
            }
        }
        Ok(CharGlob::of(tokens, ignore_case))
    }

    fn of(mut tokens: Vec<Token>, ignore_case: bool) -> CharGlob {
        let literal = |tokens: &[Token]| -> Option<Box<str>> {
            let chars = tokens.iter().map(|t| if let Token::Char(c) = t { char::from_u32(*c) } else { None });
            chars.collect::<Option<String>>().map(String::into_boxed_str)
        };
        if tokens == [Token::Star] {
            return CharGlob::Any;
        }
        if !ignore_case {
            if let Some(whole) = literal(&tokens) {
                return CharGlob::Literal(whole);
            }
            if let Some(suffix) = tokens.strip_prefix(&[Token::Star]).and_then(literal) {
                return CharGlob::Suffix(suffix);
            }
            if let Some(prefix) = tokens.strip_suffix(&[Token::Star]).and_then(literal) {
                return CharGlob::Prefix(prefix);
            }
        }
        if ignore_case {
            for token in &mut tokens {
                if let Token::Char(c) = token {
                    *c = folded(*c);
                }
            }
        }
        CharGlob::Tokens { tokens: tokens.into(), ignore_case }
    }
}

impl MatchName for CharGlob {
    fn matches(&self, name: &[u8]) -> bool {
        match self {
            CharGlob::Any => true,
            CharGlob::Literal(literal) => literal.as_bytes() == name,
            CharGlob::Suffix(suffix) => name.ends_with(suffix.as_bytes()),
            CharGlob::Prefix(prefix) => name.starts_with(prefix.as_bytes()),
            CharGlob::Tokens { tokens, ignore_case } => tokens_match(tokens, name, *ignore_case),
        }
    }
}

/// Each star takes as little as it can; only the last star met ever has to take more, so the cost is at most the
/// product of both lengths.
fn tokens_match(tokens: &[Token], name: &[u8], ignore_case: bool) -> bool {
    let (mut t, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let (have, len) = unit(&name[n..]).unzip();
        let fits = match (tokens.get(t), have) {
            (None, None) => return true,
            (Some(Token::Star), _) => {
                retry = Some((t + 1, n));
                t += 1;
                continue;
            }
            (Some(Token::One), Some(_)) => true,
            (Some(Token::Char(want)), Some(have)) => *want == if ignore_case { folded(have) } else { have },
            (Some(Token::Class { ranges, negated }), Some(have)) => {
                let within = |c: u32| ranges.iter().any(|(low, high)| (*low..=*high).contains(&c));
                (within(have) || ignore_case && variants(have).into_iter().any(within)) != *negated
            }
            (None, Some(_)) | (Some(_), None) => false,
        };
        if fits {
            t += 1;
            n += len.unwrap_or(0);
        } else if let Some((token, from, skipped)) = retry.and_then(|(t, from)| Some((t, from, unit(&name[from..])?.1)))
        {
            retry = Some((token, from + skipped));
            (t, n) = (token, from + skipped);
        } else {
            return false;
        }
    }
}

/// The next character and its length; a byte that is not UTF-8 stands for itself, beyond all characters.
fn unit(bytes: &[u8]) -> Option<(u32, usize)> {
    let first = *bytes.first()?;
    let len = match first {
        0..=0x7f => return Some((u32::from(first), 1)),
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        0x80..=0xc1 | 0xf5..=0xff => 1,
    };
    let whole = bytes.get(..len).and_then(|b| std::str::from_utf8(b).ok()).and_then(|s| s.chars().next());
    Some(whole.map_or((0x11_0000 + u32::from(first), 1), |c| (u32::from(c), len)))
}

/// Simple folding: one character for one.
fn folded(c: u32) -> u32 {
    let [_, lower] = variants(c);
    lower
}

/// Upper case, and the lower case of that, where each is one character.
fn variants(c: u32) -> [u32; 2] {
    let Some(c) = char::from_u32(c) else { return [c, c] };
    let upper = single(c.to_uppercase()).unwrap_or(c);
    let lower = single(upper.to_lowercase()).unwrap_or(upper);
    [u32::from(upper), u32::from(lower)]
}

fn single(mut chars: impl Iterator<Item = char>) -> Option<char> {
    let first = chars.next()?;
    chars.next().is_none().then_some(first)
}

/// Reads what stands between the brackets.
fn class(inner: &str, dialect: Dialect) -> Result<Token, String> {
    let (negated, inner) = match inner.strip_prefix(['!', '^']) {
        Some(rest) => (true, rest),
        None => (false, inner),
    };
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    let mut rest = inner;
    let mut low: Option<char> = None;
    while let Some(mut c) = rest.chars().next() {
        if dialect == Dialect::Gitignore && rest.starts_with("[:") && rest.contains(":]") {
            let end = rest.find(":]").unwrap_or(rest.len());
            ranges.extend(named(&rest[2..end])?);
            rest = &rest[end + 2..];
            low = None;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        if c == '-'
            && !rest.is_empty()
            && let Some(from) = low.take()
        {
            let mut to = rest.chars().next().unwrap_or(c);
            rest = &rest[to.len_utf8()..];
            if to == '\\' {
                to = rest.chars().next().unwrap_or(to);
                rest = rest.get(to.len_utf8()..).unwrap_or("");
            }
            if from > to {
                return Err(format!("the range `{from}-{to}` is the wrong way round"));
            }
            ranges.push((u32::from(from), u32::from(to)));
            continue;
        }
        if c == '\\'
            && let Some(escaped) = rest.chars().next()
        {
            c = escaped;
            rest = &rest[c.len_utf8()..];
        }
        ranges.push((u32::from(c), u32::from(c)));
        low = Some(c);
    }
    Ok(Token::Class { ranges: ranges.into(), negated })
}

fn named(name: &str) -> Result<Vec<(u32, u32)>, String> {
    let test: fn(&u8) -> bool = match name {
        "alnum" => u8::is_ascii_alphanumeric,
        "alpha" => u8::is_ascii_alphabetic,
        "blank" => |b| matches!(b, b' ' | b'\t'),
        "cntrl" => u8::is_ascii_control,
        "digit" => u8::is_ascii_digit,
        "graph" => u8::is_ascii_graphic,
        "lower" => u8::is_ascii_lowercase,
        "print" => |b| matches!(b, b' '..=b'~'),
        "punct" => u8::is_ascii_punctuation,
        "space" => u8::is_ascii_whitespace,
        "upper" => u8::is_ascii_uppercase,
        "xdigit" => u8::is_ascii_hexdigit,
        _ => return Err(format!("there is no class [:{name}:]")),
    };
    Ok((0..=127_u8).filter(test).map(|b| (u32::from(b), u32::from(b))).collect())
}
