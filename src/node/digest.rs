//! SHA-256 for names that a registry or a runtime would have made.

use std::fmt::Write as _;

use sha2::Digest as _;

/// The digest of these bytes as 64 lower-case hexadecimal digits.
pub(super) fn sha256_hex(bytes: &[u8]) -> String {
    let digest = sha2::Sha256::digest(bytes);
    digest.iter().fold(String::new(), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
