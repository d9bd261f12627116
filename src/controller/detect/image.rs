//! Image references, their digests, and patterns for them.

use std::fmt;

use regex::Regex;

use crate::controller::go_regexp::{self, PatternError};
use crate::controller::profile::image::ImagePattern;

/// The SHA-256 of an image: 64 lower-case hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Digest(String);

impl Digest {
    /// Reads `sha256:…`. Anything but that prefix and 64 lower-case digits is no digest.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("sha256:")?;
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (hex.len() == 64 && hex.bytes().all(is_digit)).then(|| Self(hex.to_owned()))
    }

    /// Reads the image ID of a container's status: `registry/name@sha256:…`, or the digest alone.
    #[must_use]
    pub fn of_image_id(image_id: &str) -> Option<Self> {
        match image_id.split_once("@sha256:") {
            Some((name, _)) => Self::parse(&image_id[name.len() + 1..]),
            None => Self::parse(image_id),
        }
    }

    /// The digits, without prefix.
    #[must_use]
    pub fn as_hex(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.0)
    }
}

/// An image reference, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference<'a> {
    /// Registry and repository.
    pub name: &'a str,
    /// Tag; empty if there is none.
    pub tag: &'a str,
    /// Digest. A malformed one is dropped.
    pub digest: Option<Digest>,
}

impl<'a> Reference<'a> {
    /// Takes `image` apart. Every text is accepted.
    #[must_use]
    pub fn parse(image: &'a str) -> Self {
        let (tagged, digest) = match image.rsplit_once('@') {
            Some((tagged, digest)) => (tagged, Digest::parse(digest)),
            None => (image, None),
        };
        // A colon before the last slash belongs to a registry's port.
        let last = tagged.rfind('/').map_or(0, |slash| slash + 1);
        let (name, tag) = match tagged[last..].rfind(':') {
            Some(colon) => (&tagged[..last + colon], &tagged[last + colon + 1..]),
            None => (tagged, ""),
        };
        Self { name, tag, digest }
    }

    /// The name without what Docker Hub allows to be left out.
    #[must_use]
    pub fn familiar_name(&self) -> &'a str {
        let name = self
            .name
            .strip_prefix("index.docker.io/")
            .or_else(|| self.name.strip_prefix("docker.io/"))
            .unwrap_or(self.name);
        name.strip_prefix("library/").unwrap_or(name)
    }
}

/// A compiled pattern for images.
#[derive(Clone, Debug)]
pub struct Matcher {
    name: String,
    pattern: String,
    regex: Regex,
}

impl Matcher {
    /// Compiles `pattern`, whose images are called `name`.
    ///
    /// # Errors
    ///
    /// When the pattern is not a regular expression.
    pub fn new(name: &str, pattern: &str) -> Result<Self, PatternError> {
        Ok(Self {
            name: name.to_owned(),
            pattern: pattern.to_owned(),
            regex: go_regexp::compile(pattern)?,
        })
    }

    pub(super) fn all(patterns: &[ImagePattern]) -> Result<Vec<Self>, PatternError> {
        patterns
            .iter()
            .map(|pattern| Self::new(pattern.name, pattern.pattern))
            .collect()
    }

    pub(super) fn matches(&self, image: &str) -> bool {
        self.regex.is_match(image)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn pattern(&self) -> &str {
        &self.pattern
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn a_reference_is_taken_apart_at_the_right_signs() {
        for (image, name, tag, digest) in [
            ("nginx", "nginx", "", false),
            ("nginx:1.27", "nginx", "1.27", false),
            ("host:5000/team/nginx", "host:5000/team/nginx", "", false),
            ("host:5000/nginx:1", "host:5000/nginx", "1", false),
            (&format!("a/b:v1@sha256:{HEX}"), "a/b", "v1", true),
            (
                &format!("a/b@sha256:{}", HEX.to_uppercase()),
                "a/b",
                "",
                false,
            ),
            (&format!("a/b@sha256:{}", &HEX[1..]), "a/b", "", false),
            ("a/b:v1@sha512:00", "a/b", "v1", false),
        ] {
            let reference = Reference::parse(image);
            assert_eq!(reference.name, name, "{image}");
            assert_eq!(reference.tag, tag, "{image}");
            assert_eq!(reference.digest.is_some(), digest, "{image}");
        }
    }

    #[test]
    fn an_image_id_may_carry_a_name_or_not() {
        for id in [
            format!("sha256:{HEX}"),
            format!("docker.io/library/nginx@sha256:{HEX}"),
            format!("docker-pullable://nginx@sha256:{HEX}"),
        ] {
            assert_eq!(Digest::of_image_id(&id).expect("a digest").as_hex(), HEX);
        }
        for id in ["", "nginx", "nginx@sha256:12", "docker://sha256:12"] {
            assert_eq!(Digest::of_image_id(id), None, "{id}");
        }
    }

    #[test]
    fn docker_hub_names_are_the_same_in_every_spelling() {
        for image in [
            "nginx:1",
            "library/nginx",
            "docker.io/library/nginx:2",
            "index.docker.io/nginx",
        ] {
            assert_eq!(Reference::parse(image).familiar_name(), "nginx", "{image}");
        }
        assert_eq!(
            Reference::parse("ghcr.io/library/x").familiar_name(),
            "ghcr.io/library/x"
        );
    }
}
