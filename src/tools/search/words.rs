//! Words of a text as code has them: identifiers split, case folded, plurals and common endings set aside.

/// The words of `text`, each with the byte at which it begins, in the form in which words are compared.
pub(super) fn each(text: &str, mut word: impl FnMut(usize, &str)) {
    let mut form = String::new();
    let mut begin = 0;
    let mut before = None;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let splits = match before {
            Some(prior) if is_part(c) => {
                let next_is_lower = chars.peek().is_some_and(|(_, next)| next.is_lowercase());
                is_lower(prior) && c.is_uppercase() || prior_upper(prior) && c.is_uppercase() && next_is_lower
            }
            Some(_) | None => !is_part(c),
        };
        if splits {
            finish(&mut form, begin, &mut word);
        }
        if is_part(c) {
            if form.is_empty() {
                begin = at;
            }
            form.extend(c.to_lowercase());
        }
        before = Some(c);
    }
    finish(&mut form, begin, &mut word);
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric()
}

fn is_lower(c: char) -> bool {
    c.is_lowercase() || c.is_numeric()
}

fn prior_upper(c: char) -> bool {
    c.is_uppercase()
}

fn finish(form: &mut String, begin: usize, word: &mut impl FnMut(usize, &str)) {
    if !form.is_empty() {
        word(begin, stem(form));
        form.clear();
    }
}

/// Without a common ending, if enough remains.
fn stem(word: &str) -> &str {
    for ending in ["ings", "ing", "edly", "ies", "ed", "es", "s"] {
        if let Some(rest) = word.strip_suffix(ending)
            && rest.len() >= 3
            && !(ending == "s" && rest.ends_with('s'))
        {
            return rest;
        }
    }
    word.strip_suffix('e').filter(|rest| rest.len() >= 3).unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(usize, &str)]) {
        let mut found = Vec::new();
        each(text, |at, word| found.push((at, word.to_owned())));
        let expected: Vec<_> = expected.iter().map(|(at, word)| (*at, (*word).to_owned())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn identifiers_are_split_and_endings_set_aside() {
        check("parseHTTPRequest", &[(0, "pars"), (5, "http"), (9, "request")]);
        check("read_file2(x)", &[(0, "read"), (5, "file2"), (11, "x")]);
        check("Caches, cached caching", &[(0, "cach"), (8, "cach"), (15, "cach")]);
        check("the class is", &[(0, "the"), (4, "class"), (10, "is")]);
        check("Äpfel", &[(0, "äpfel")]);
        check("", &[]);
    }
}
