//! What properties say of topics.

/// What becomes of a pipeline whose topics do not fit (`topics.check`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopicCheck {
    /// It does not start where there is an error; warnings are told.
    Refuse,
    /// It starts, and tells.
    #[default]
    Warn,
    /// Nobody looks.
    Off,
}

impl TopicCheck {
    /// Every choice.
    pub const ALL: [TopicCheck; 3] = [TopicCheck::Refuse, TopicCheck::Warn, TopicCheck::Off];

    /// The value of `topics.check`.
    pub const fn as_str(self) -> &'static str {
        match self {
            TopicCheck::Refuse => "refuse",
            TopicCheck::Warn => "warn",
            TopicCheck::Off => "off",
        }
    }

    /// The choice with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.as_str() == name)
    }
}

/// Whether topics that a pipeline needs are created (`topics.create`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopicCreate {
    /// Never; the commands that create them are told.
    #[default]
    Never,
    /// Those that are missing.
    Missing,
}

impl TopicCreate {
    /// Every choice.
    pub const ALL: [TopicCreate; 2] = [TopicCreate::Never, TopicCreate::Missing];

    /// The value of `topics.create`.
    pub const fn as_str(self) -> &'static str {
        match self {
            TopicCreate::Never => "never",
            TopicCreate::Missing => "missing",
        }
    }

    /// The choice with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.as_str() == name)
    }
}

/// The entries of a list; a comma within brackets of a pattern (`^a{1,3}`) is the pattern's.
pub(super) fn split(text: &str) -> Vec<String> {
    let (mut entries, mut entry) = (Vec::new(), String::new());
    let (mut depth, mut escaped) = (0_usize, false);
    for c in text.chars() {
        let pattern = entry.trim_start().starts_with('^');
        if c == ',' && (!pattern || (depth == 0 && !escaped)) {
            entries.push(std::mem::take(&mut entry));
            (depth, escaped) = (0, false);
            continue;
        }
        if pattern && !escaped {
            match c {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        escaped = pattern && c == '\\' && !escaped;
        entry.push(c);
    }
    entries.push(entry);
    let trimmed = entries.iter().map(|entry| entry.trim());
    let there = trimmed.filter(|entry| !entry.is_empty());
    there.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_parts_entries_but_not_within_the_brackets_of_a_pattern() {
        for (text, entries) in [
            ("orders, payments", &["orders", "payments"][..]),
            (" orders ,,", &["orders"]),
            ("^a{1,3}$,b", &["^a{1,3}$", "b"]),
            ("b, ^(x|y[,]{2,}),^c", &["b", "^(x|y[,]{2,})", "^c"]),
            (r"^a\{,b", &[r"^a\{", "b"]),
            (r"^a\,b", &[r"^a\,b"]),
            ("a{1,2}", &["a{1", "2}"]),
            ("", &[]),
        ] {
            assert_eq!(split(text), entries, "{text}");
        }
    }

    #[test]
    fn choices_have_names() {
        for choice in TopicCheck::ALL {
            assert_eq!(TopicCheck::from_name(choice.as_str()), Some(choice));
        }
        for choice in TopicCreate::ALL {
            assert_eq!(TopicCreate::from_name(choice.as_str()), Some(choice));
        }
        assert_eq!(TopicCheck::from_name("Refuse"), None);
        assert_eq!(TopicCreate::from_name("always"), None);
    }
}
