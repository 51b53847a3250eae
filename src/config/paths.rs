//! Paths as humans write them: `~`, `$VAR` and `${VAR}`.

use std::path::PathBuf;

/// Expands a path by the environment.
///
/// # Errors
/// The variable that is not set.
pub fn expand(text: &str, env: impl Fn(&str) -> Option<String>) -> Result<PathBuf, String> {
    let rest = match text.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            let home = env("HOME").ok_or("HOME is not set, so `~` means nothing")?;
            format!("{home}{rest}")
        }
        Some(_) => return Err(format!("{text}: `~user` is not known; write the directory")),
        None => text.to_owned(),
    };
    let mut out = String::new();
    let mut chars = rest.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '$' {
            out.push(c);
            continue;
        }
        let braced = chars.next_if_eq(&'{').is_some();
        let mut name = String::new();
        while let Some(c) = chars.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
            name.push(c);
        }
        if braced && chars.next_if_eq(&'}').is_none() {
            return Err(format!("{text}: `${{` without `}}`"));
        }
        if name.is_empty() {
            out.push('$');
            continue;
        }
        out.push_str(&env(&name).ok_or_else(|| format!("{text}: ${name} is not set"))?);
    }
    Ok(PathBuf::from(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_and_home_are_expanded_and_missing_ones_refused() {
        let env = |name: &str| (name == "HOME" || name == "A").then(|| "/h".to_owned());
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(expand(text, env).ok(), expected.map(PathBuf::from), "{text}");
        };
        check("~/x", Some("/h/x"));
        check("~", Some("/h"));
        check("$A/x/${A}", Some("/h/x//h"));
        check("/a$", Some("/a$"));
        check("$B", None);
        check("${A", None);
        check("~root/x", None);
    }
}
