//! Just enough of Rust's grammar to find the paths that a file names, and which of its code is for tests alone.

/// A piece of code that matters here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Token {
    /// An identifier or keyword.
    Ident(String),
    /// `::`.
    Sep,
    /// Any other character that is not white space.
    Punct(char),
}

/// A path as written, groups expanded: `use a::{b, c::d}` names `a::b` and `a::c::d`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// Its parts.
    pub parts: Vec<String>,
    /// How many inline modules stand around it.
    pub depth: usize,
    /// It stands in a `use`.
    pub import: bool,
}

/// The tokens of `text`, without comments, strings and characters.
pub fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let here = chars[at];
        let next = chars.get(at + 1).copied();
        match (here, next) {
            ('/', Some('/')) => at = end_of_line(&chars, at),
            ('/', Some('*')) => at = end_of_block(&chars, at),
            ('"', _) => at = end_of_string(&chars, at),
            ('r' | 'b' | 'c', Some('"' | '#' | 'r' | '\'')) if prefixed(&chars, at).is_some() => {
                at = prefixed(&chars, at).unwrap();
            }
            ('\'', _) => at = end_of_char(&chars, at),
            (':', Some(':')) => {
                found.push(Token::Sep);
                at += 2;
            }
            _ if here.is_alphabetic() || here == '_' => {
                let start = at;
                while at < chars.len() && (chars[at].is_alphanumeric() || chars[at] == '_') {
                    at += 1;
                }
                found.push(Token::Ident(chars[start..at].iter().collect()));
            }
            _ => {
                if !here.is_whitespace() {
                    found.push(Token::Punct(here));
                }
                at += 1;
            }
        }
    }
    found
}

fn end_of_line(chars: &[char], from: usize) -> usize {
    chars[from..].iter().position(|c| *c == '\n').map_or(chars.len(), |n| from + n)
}

fn end_of_block(chars: &[char], from: usize) -> usize {
    let (mut at, mut depth) = (from + 2, 1);
    while at < chars.len() && depth > 0 {
        match (chars[at], chars.get(at + 1)) {
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            _ => at += 1,
        }
    }
    at
}

fn end_of_string(chars: &[char], from: usize) -> usize {
    let mut at = from + 1;
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// The end of a string or byte with a prefix (`b"`, `r#"`, `br"`, `c"`, `b'`), if there is one here.
fn prefixed(chars: &[char], from: usize) -> Option<usize> {
    let mut at = from;
    let mut raw = false;
    while at < from + 2 && matches!(chars.get(at), Some('r' | 'b' | 'c')) {
        raw |= chars[at] == 'r';
        at += 1;
    }
    if !raw {
        return match chars.get(at) {
            Some('"') => Some(end_of_string(chars, at)),
            Some('\'') if chars[from] == 'b' => Some(end_of_char(chars, at)),
            _ => None,
        };
    }
    let hashes = chars[at..].iter().take_while(|c| **c == '#').count();
    at += hashes;
    if chars.get(at) != Some(&'"') {
        return None;
    }
    at += 1;
    while at < chars.len() {
        if chars[at] == '"' && chars[at + 1..].iter().take_while(|c| **c == '#').count() >= hashes {
            return Some(at + 1 + hashes);
        }
        at += 1;
    }
    Some(at)
}

/// The end of a character, or of a lifetime's tick.
fn end_of_char(chars: &[char], from: usize) -> usize {
    match (chars.get(from + 1), chars.get(from + 2)) {
        (Some('\\'), _) => {
            let mut at = from + 3;
            while at < chars.len() && chars[at] != '\'' {
                at += 1;
            }
            at + 1
        }
        (Some(_), Some('\'')) => from + 3,
        _ => from + 1,
    }
}

/// `tokens` without the items marked `#[cfg(test)]`.
pub fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if let Some(after) = cfg_test(tokens, at) {
            at = end_of_item(tokens, after);
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// The names of the files that `tokens` declares as modules, and whether for tests alone.
pub fn declared(tokens: &[Token]) -> Vec<(String, bool)> {
    let all = plain_mods(tokens);
    let kept = plain_mods(&without_tests(tokens));
    all.into_iter()
        .map(|name| {
            let tests = !kept.contains(&name);
            (name, tests)
        })
        .collect()
}

fn plain_mods(tokens: &[Token]) -> Vec<String> {
    tokens
        .windows(3)
        .filter_map(|three| match three {
            [Token::Ident(word), Token::Ident(name), Token::Punct(';')] if word == "mod" => Some(name.clone()),
            _ => None,
        })
        .collect()
}

/// If `#[cfg(test)]` stands at `at`, where it ends.
fn cfg_test(tokens: &[Token], at: usize) -> Option<usize> {
    let wanted = ["#", "[", "cfg", "(", "test", ")", "]"];
    let here = tokens.get(at..at + wanted.len())?;
    let same = here.iter().zip(wanted).all(|(token, word)| match token {
        Token::Ident(name) => name == word,
        Token::Punct(c) => word.chars().eq([*c]),
        Token::Sep => false,
    });
    same.then_some(at + wanted.len())
}

/// Where the item that begins at `from` ends: after its `;` or its braces.
fn end_of_item(tokens: &[Token], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0_usize);
    while at < tokens.len() {
        match &tokens[at] {
            Token::Punct('{' | '(' | '[') => depth += 1,
            Token::Punct('}') if depth == 1 => return at + 1,
            Token::Punct('}' | ')' | ']') => depth = depth.saturating_sub(1),
            Token::Punct(';') if depth == 0 => return at + 1,
            Token::Ident(_) | Token::Sep | Token::Punct(_) => {}
        }
        at += 1;
    }
    at
}

/// All paths that `tokens` name.
pub fn named(tokens: &[Token]) -> Vec<Named> {
    let mut found = Vec::new();
    let mut braces: Vec<bool> = Vec::new();
    let (mut at, mut import) = (0, false);
    while at < tokens.len() {
        let depth = braces.iter().filter(|module| **module).count();
        match &tokens[at] {
            Token::Ident(word) if word == "use" => import = true,
            Token::Ident(_) => {
                let mut paths = Vec::new();
                let end = path(tokens, at, &[], &mut paths);
                found.extend(paths.into_iter().map(|parts| Named { parts, depth, import }));
                at = end;
                continue;
            }
            Token::Punct(';') => import = false,
            Token::Punct('{') => braces.push(opens_module(tokens, at)),
            Token::Punct('}') => {
                braces.pop();
            }
            Token::Sep | Token::Punct(_) => {}
        }
        at += 1;
    }
    found
}

fn opens_module(tokens: &[Token], brace: usize) -> bool {
    brace >= 2 && tokens[brace - 2] == Token::Ident("mod".into())
}

/// Reads one path with its groups from `at`, below `prefix`; returns where it ends.
fn path(tokens: &[Token], mut at: usize, prefix: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let mut parts = prefix.to_vec();
    loop {
        match tokens.get(at) {
            Some(Token::Ident(name)) => {
                parts.push(name.clone());
                at += 1;
            }
            Some(Token::Punct('*')) => at += 1,
            Some(Token::Punct('{')) => return group(tokens, at + 1, &parts, found),
            _ => break,
        }
        if tokens.get(at) != Some(&Token::Sep) {
            break;
        }
        at += 1;
    }
    found.push(parts);
    at
}

/// Reads the members of a group until its closing brace.
fn group(tokens: &[Token], mut at: usize, prefix: &[String], found: &mut Vec<Vec<String>>) -> usize {
    while at < tokens.len() {
        match &tokens[at] {
            Token::Punct('}') => return at + 1,
            Token::Ident(word) if word == "as" => at += 2,
            Token::Ident(_) | Token::Punct('{' | '*') => at = path(tokens, at, prefix, found),
            Token::Punct(_) | Token::Sep => at += 1,
        }
    }
    at
}
