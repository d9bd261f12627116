//! The machine that programs must run on, and whether a file can run there.

use std::env::consts;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::error::BinaryError;
use super::reason::Problem;

/// An architecture that programs are released for, on Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Platform {
    Amd64,
    Arm64,
}

/// `e_machine` of the ELF header and the name that users know it by.
const MACHINES: [(u16, &str); 6] = [
    (3, "x86"),
    (21, "ppc64"),
    (22, "s390x"),
    (40, "arm"),
    (62, "x86-64"),
    (183, "arm64"),
];

impl Platform {
    /// The machine that this process runs on.
    pub(super) fn current() -> Result<Self, BinaryError> {
        match (consts::OS, consts::ARCH) {
            ("linux", "x86_64") => Ok(Self::Amd64),
            ("linux", "aarch64") => Ok(Self::Arm64),
            (os, arch) => Err(BinaryError::Platform { os, arch }),
        }
    }

    /// The name that Go and the releases use.
    pub(super) fn go_arch(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    fn elf(self) -> (u16, &'static str) {
        match self {
            Self::Amd64 => (62, "x86-64"),
            Self::Arm64 => (183, "arm64"),
        }
    }

    /// Whether the kernel could run this file here: told from mode and header, without running it.
    pub(super) fn can_run(self, path: &Path) -> Result<(), Problem> {
        let unreadable = |error: io::Error| Problem::Unreadable {
            why: error.to_string(),
        };
        let mut file = File::open(path).map_err(unreadable)?;
        let meta = file.metadata().map_err(unreadable)?;
        if !meta.is_file() {
            return Err(Problem::NotAFile);
        }
        let mode = meta.permissions().mode() & 0o7777;
        if mode & 0o111 == 0 {
            return Err(Problem::NotExecutable { mode });
        }
        let mut header = Vec::with_capacity(20);
        Read::by_ref(&mut file)
            .take(20)
            .read_to_end(&mut header)
            .map_err(unreadable)?;
        self.fits_header(&header)
    }

    fn fits_header(self, header: &[u8]) -> Result<(), Problem> {
        if header.starts_with(b"#!") {
            return Ok(());
        }
        let Some(rest) = header.strip_prefix(b"\x7fELF") else {
            return Err(Problem::NotAProgram);
        };
        // Bytes 4 and 5 are class and byte order; 18 and 19 the machine, in that byte order.
        let &[class, order, .., low, high] = rest else {
            return Err(Problem::NotAProgram);
        };
        if rest.len() != 16 {
            return Err(Problem::NotAProgram);
        }
        let machine = match order {
            1 => u16::from_le_bytes([low, high]),
            2 => u16::from_be_bytes([low, high]),
            _ => return Err(Problem::NotAProgram),
        };
        let (wanted_machine, wanted) = self.elf();
        if (class, order, machine) == (2, 1, wanted_machine) {
            return Ok(());
        }
        let name = MACHINES.iter().find(|(number, _)| *number == machine);
        let name = name.map_or_else(
            || format!("machine {machine}"),
            |(_, name)| (*name).to_owned(),
        );
        let bits = if class == 1 { "32-bit " } else { "" };
        Err(Problem::WrongArchitecture {
            found: format!("{bits}{name}"),
            wanted,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(class: u8, order: u8, machine: [u8; 2]) -> Vec<u8> {
        let mut header = b"\x7fELF".to_vec();
        header.extend([class, order]);
        header.extend([0; 12]);
        header.extend(machine);
        header
    }

    #[test]
    fn the_header_tells_the_machine() {
        let amd64 = Platform::Amd64;
        assert_eq!(amd64.fits_header(&elf(2, 1, [62, 0])), Ok(()));
        assert_eq!(Platform::Arm64.fits_header(&elf(2, 1, [183, 0])), Ok(()));
        let wrong = |header: &[u8]| amd64.fits_header(header).expect_err("refused").to_string();
        assert_eq!(
            wrong(&elf(2, 1, [183, 0])),
            "is built for arm64, this machine runs x86-64"
        );
        assert_eq!(
            wrong(&elf(1, 1, [3, 0])),
            "is built for 32-bit x86, this machine runs x86-64"
        );
        assert_eq!(
            wrong(&elf(2, 2, [0, 22])),
            "is built for s390x, this machine runs x86-64"
        );
    }

    #[test]
    fn a_script_passes_and_anything_else_does_not() {
        assert_eq!(Platform::Amd64.fits_header(b"#!/bin/sh\n"), Ok(()));
        for header in [&b""[..], b"\x7fELF", b"<html>", &elf(2, 9, [62, 0])] {
            assert_eq!(
                Platform::Amd64.fits_header(header),
                Err(Problem::NotAProgram)
            );
        }
    }

    #[test]
    fn this_very_program_can_run() {
        let here = std::env::current_exe().expect("this test has a file");
        let platform = Platform::current().expect("tests run on a supported machine");
        assert_eq!(platform.can_run(&here), Ok(()));
    }
}
