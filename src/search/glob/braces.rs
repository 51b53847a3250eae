//! Braces: `{a,b}` read as one pattern for each alternative, nested ones too.

/// More readings than this are refused.
const MAX_READINGS: usize = 512;

/// Every reading of `pattern`, in the order written. Braces in classes and behind `\` mean themselves.
pub(super) fn expand(pattern: &str) -> Result<Vec<String>, String> {
    let mut rest = pattern;
    let readings = sequence(&mut rest, 0)?;
    if rest.is_empty() {
        Ok(readings)
    } else {
        Err("a `}` stands without its `{`; write `\\}` for the character itself".into())
    }
}

/// Reads up to the end, or within braces up to `,` or `}`.
fn sequence(rest: &mut &str, depth: usize) -> Result<Vec<String>, String> {
    if depth > 10 {
        return Err("its braces are nested more than 10 deep".into());
    }
    let mut readings = vec![String::new()];
    while let Some(c) = rest.chars().next() {
        let piece = match c {
            '{' => {
                *rest = &rest[1..];
                let alternatives = group(rest, depth)?;
                if readings.len() * alternatives.len() > MAX_READINGS {
                    return Err(format!("its braces give more than {MAX_READINGS} alternatives"));
                }
                readings = readings.iter().flat_map(|r| alternatives.iter().map(move |a| format!("{r}{a}"))).collect();
                continue;
            }
            '}' => break,
            ',' if depth > 0 => break,
            '\\' => rest.char_indices().nth(2).map_or(*rest, |(end, _)| &rest[..end]),
            '[' => &rest[..class_end(rest).unwrap_or(1)],
            c => &rest[..c.len_utf8()],
        };
        readings.iter_mut().for_each(|r| r.push_str(piece));
        *rest = &rest[piece.len()..];
    }
    Ok(readings)
}

fn group(rest: &mut &str, depth: usize) -> Result<Vec<String>, String> {
    let mut alternatives = Vec::new();
    loop {
        alternatives.extend(sequence(rest, depth + 1)?);
        match rest.chars().next() {
            Some(',') => *rest = &rest[1..],
            Some(_) => {
                *rest = &rest[1..];
                return Ok(alternatives);
            }
            None => return Err("a `{` is not closed; write `\\{` for the character itself".into()),
        }
    }
}

/// Behind the `]` that closes the class with which `text` begins; the first character in it may be a `]`.
pub(super) fn class_end(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().skip(1).peekable();
    chars.next_if(|(_, c)| matches!(c, '!' | '^'));
    let mut first = true;
    while let Some((at, c)) = chars.next() {
        match c {
            ']' if !first => return Some(at + 1),
            '\\' => {
                chars.next();
            }
            '[' if text[at..].starts_with("[:") => {
                if let Some(len) = text[at..].find(":]") {
                    while chars.next_if(|(next, _)| *next < at + len + 2).is_some() {}
                }
            }
            _ => {}
        }
        first = false;
    }
    None
}
