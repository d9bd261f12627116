//! The scenarios that come with this program.

/// A shipped scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// Its name, which is that in its file.
    pub name: &'static str,
    /// What it is about, in a line.
    pub summary: &'static str,
    /// Its file.
    pub text: &'static str,
}

static SHIPPED: [Shipped; 1] = [Shipped {
    name: "v1.3-to-v1.5",
    summary: "two round trips between 1.3.0 and 1.5.1, with the definitions of either",
    text: include_str!("../../scenarios/v1.3-to-v1.5.yaml"),
}];

/// All of them.
#[must_use]
pub fn shipped() -> &'static [Shipped] {
    &SHIPPED
}
