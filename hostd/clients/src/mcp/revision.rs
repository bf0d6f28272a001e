//! The revisions of the protocol that are served: those with sessions. A client that also speaks a later one, which has
//! neither sessions nor resumed streams, is told the list and falls back to these.

use rmcp::model::ProtocolVersion;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    March2025,
    June2025,
    November2025,
}

impl Revision {
    pub const ALL: [Self; 3] = [Self::March2025, Self::June2025, Self::November2025];
    pub const LATEST: Self = Self::November2025;

    /// Returns the revision for a client that asks for this one: the same, or the latest that is served.
    pub fn negotiate(requested: &str) -> Self {
        Self::parse(requested).unwrap_or(Self::LATEST)
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.version().as_str() == text)
    }

    pub fn version(self) -> ProtocolVersion {
        match self {
            Self::March2025 => ProtocolVersion::V_2025_03_26,
            Self::June2025 => ProtocolVersion::V_2025_06_18,
            Self::November2025 => ProtocolVersion::V_2025_11_25,
        }
    }

    /// Whether clients understand an event without content that begins a stream and gives it an id.
    pub fn has_first_event(self) -> bool {
        self >= Self::November2025
    }

    /// The number in ids of sessions.
    pub fn number(self) -> u8 {
        match self {
            Self::March2025 => 1,
            Self::June2025 => 2,
            Self::November2025 => 3,
        }
    }

    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.number() == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_the_revision_it_asks_for_or_the_latest() {
        for (requested, expected) in [
            ("2025-03-26", Revision::March2025),
            ("2025-06-18", Revision::June2025),
            ("2025-11-25", Revision::November2025),
            ("2024-11-05", Revision::LATEST),
            ("2026-07-28", Revision::LATEST),
            ("", Revision::LATEST),
        ] {
            assert_eq!(Revision::negotiate(requested), expected, "{requested}");
        }
        for revision in Revision::ALL {
            assert_eq!(Revision::from_number(revision.number()), Some(revision));
        }
        assert_eq!(Revision::from_number(0), None);
    }
}
