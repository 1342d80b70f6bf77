//! A dead letter that no step makes small enough.

/// What becomes of a record whose dead letter is too large for its topic even without its value
/// (`dead.letter.too.large`): its key and its own headers are never cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TooLarge {
    /// Its partition holds it and tries again, until the topic takes more.
    #[default]
    Pause,
    /// The pipeline stops.
    Stop,
}

impl TooLarge {
    /// Every choice.
    pub const ALL: [TooLarge; 2] = [TooLarge::Pause, TooLarge::Stop];

    /// The value of `dead.letter.too.large`.
    pub const fn as_str(self) -> &'static str {
        match self {
            TooLarge::Pause => "pause",
            TooLarge::Stop => "stop",
        }
    }

    /// The choice with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for choice in TooLarge::ALL {
            assert_eq!(TooLarge::from_name(choice.as_str()), Some(choice));
        }
        assert_eq!(TooLarge::from_name("drop"), None);
    }
}
