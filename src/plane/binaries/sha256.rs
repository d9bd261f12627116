//! SHA-256 digests as a type: read from checksum files, written to records, shown as hex.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::Digest as _;

/// A SHA-256 digest. Shown, parsed and serialised as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256([u8; 32]);

/// The text is not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a SHA-256 digest: expected 64 hexadecimal digits")]
pub struct NotADigest;

impl Sha256 {
    /// The digest of these pieces, one after the other.
    #[must_use]
    pub fn of(pieces: &[&[u8]]) -> Self {
        let mut hasher = sha2::Sha256::new();
        for piece in pieces {
            hasher.update(piece);
        }
        Self(hasher.finalize().into())
    }

    /// The digest and the size in bytes of a file. Reads all of it: not for an async thread.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn of_file(path: &Path) -> io::Result<(Self, u64)> {
        let mut file = File::open(path)?;
        let mut hasher = sha2::Sha256::new();
        let mut buffer = vec![0; 256 * 1024];
        let mut size = 0;
        loop {
            match file.read(&mut buffer) {
                Ok(0) => return Ok((Self(hasher.finalize().into()), size)),
                Ok(count) => {
                    hasher.update(&buffer[..count]);
                    size += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sha256({self})")
    }
}

impl FromStr for Sha256 {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != 32 || !rest.is_empty() {
            return Err(NotADigest);
        }
        let mut bytes = [0; 32];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = nibble(*high)? << 4 | nibble(*low)?;
        }
        Ok(Self(bytes))
    }
}

fn nibble(digit: u8) -> Result<u8, NotADigest> {
    char::from(digit)
        .to_digit(16)
        .and_then(|value| u8::try_from(value).ok())
        .ok_or(NotADigest)
}

impl TryFrom<String> for Sha256 {
    type Error = NotADigest;

    fn try_from(text: String) -> Result<Self, NotADigest> {
        text.parse()
    }
}

impl From<Sha256> for String {
    fn from(digest: Sha256) -> Self {
        digest.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn the_vector_of_the_standard_survives_a_round_trip() {
        let digest = Sha256::of(&[b"a", b"bc"]);
        assert_eq!(digest.to_string(), ABC);
        assert_eq!(ABC.parse(), Ok(digest));
        assert_eq!(ABC.to_uppercase().parse(), Ok(digest));
    }

    #[test]
    fn anything_but_64_digits_is_refused() {
        for text in [
            "",
            "ba78",
            &ABC[1..],
            &format!("{ABC}0"),
            &ABC.replace('b', "g"),
        ] {
            assert_eq!(text.parse::<Sha256>(), Err(NotADigest), "{text}");
        }
    }
}
