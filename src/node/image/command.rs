//! Command lines that stand for an image's entrypoint.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

/// A command line in which `{port:8080}` stands for the port of this machine that is the
/// container's port 8080, and `{{` for a brace.
///
/// A program that goes by the name it is called with (one file for many commands, such as busybox)
/// does not know itself when it is started by its container's name; a script that calls it does.
/// A command that starts further processes should `exec` the one that matters: only that one is
/// asked to end, and is certain to end with this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandTemplate {
    /// By absolute path, taken as it is: it has no placeholders.
    program: PathBuf,
    args: Vec<Word>,
}

/// One argument, in the order of its pieces.
type Word = Vec<Piece>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Port(u16),
}

/// A command line cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// There is no word in it.
    #[error("the command is empty")]
    Empty,
    /// A quotation or an escape does not end.
    #[error("the command `{0}` ends within a quotation or after a backslash")]
    Unfinished(String),
    /// No folder in `PATH` has the program.
    #[error("there is no program `{0}` in PATH")]
    NotInPath(String),
    /// The program's path is not that of a program.
    #[error("cannot execute {}", path.display())]
    NotExecutable {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A brace without an end.
    #[error("a placeholder in `{0}` has no closing brace")]
    Unclosed(String),
    /// A placeholder that does not exist.
    #[error("unknown placeholder `{{{name}}}` in `{word}`")]
    Unknown {
        /// The argument.
        word: String,
        /// What stands between the braces.
        name: String,
    },
    /// A port that is none.
    #[error("`{port}` in `{word}` is not a port: expected 1 to 65535")]
    Port {
        /// The argument.
        word: String,
        /// What stands for the port.
        port: String,
    },
}

impl CommandError {
    /// The one thing to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Empty => {
                "name a program, for example `/usr/bin/server --listen 127.0.0.1:{port:8080}`"
            }
            Self::Unfinished(_) => {
                "close the quotation; nothing but quotes and backslashes is special"
            }
            Self::NotInPath(_) => "give the program's path",
            Self::NotExecutable { .. } => {
                "check the path, and that the file may be executed (`chmod +x`)"
            }
            Self::Unclosed(_) | Self::Unknown { .. } => {
                "the only placeholder is `{port:NUMBER}`; write `{{` for a brace"
            }
            Self::Port { .. } => {
                "write the port that the container listens on, as in `{port:8080}`"
            }
        };
        Some(hint.to_owned())
    }
}

impl CommandTemplate {
    /// Reads a command line as a POSIX shell splits it; nothing is expanded but the placeholders.
    ///
    /// The program is a path, or is looked for in `PATH`, now and once.
    ///
    /// # Errors
    ///
    /// [`CommandError`].
    pub fn parse(text: &str) -> Result<Self, CommandError> {
        let words =
            shlex::split(text).ok_or_else(|| CommandError::Unfinished(text.trim().to_owned()))?;
        Self::from_words(words)
    }

    /// The same from words that nobody has to split any more. Arguments may hold placeholders, and
    /// have to write a brace as `{{`.
    ///
    /// # Errors
    ///
    /// [`CommandError`].
    pub fn from_words<W: AsRef<str>>(
        words: impl IntoIterator<Item = W>,
    ) -> Result<Self, CommandError> {
        let mut words = words.into_iter();
        let program = words.next().ok_or(CommandError::Empty)?;
        Ok(Self {
            program: find(program.as_ref(), env::var_os("PATH").as_deref())?,
            args: words
                .map(|word| pieces(word.as_ref()))
                .collect::<Result<_, _>>()?,
        })
    }

    /// The program, by absolute path.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The arguments, with what `port` says for each container port.
    ///
    /// # Errors
    ///
    /// The first one that `port` returns.
    pub fn args<E>(&self, mut port: impl FnMut(u16) -> Result<u16, E>) -> Result<Vec<String>, E> {
        let words = self.args.iter().map(|word| {
            word.iter().try_fold(String::new(), |text, piece| {
                Ok(match piece {
                    Piece::Text(more) => text + more,
                    Piece::Port(container_port) => text + &port(*container_port)?.to_string(),
                })
            })
        });
        words.collect()
    }
}

/// The program by absolute path.
fn find(program: &str, path: Option<&OsStr>) -> Result<PathBuf, CommandError> {
    if program.is_empty() {
        return Err(CommandError::Empty);
    }
    if program.contains('/') {
        let not_executable = |source| CommandError::NotExecutable {
            path: PathBuf::from(program),
            source,
        };
        let absolute = std::path::absolute(program).map_err(not_executable)?;
        return match executable(&absolute) {
            Ok(()) => Ok(absolute),
            Err(source) => Err(not_executable(source)),
        };
    }
    // An empty entry means the working folder, which nobody wants to find programs in by accident.
    let folders = path.map(OsString::from).unwrap_or_default();
    env::split_paths(&folders)
        .filter(|folder| !folder.as_os_str().is_empty())
        .filter_map(|folder| std::path::absolute(folder.join(program)).ok())
        .find(|candidate| executable(candidate).is_ok())
        .ok_or_else(|| CommandError::NotInPath(program.to_owned()))
}

/// Whether this is a file that we may execute.
fn executable(path: &Path) -> io::Result<()> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    Ok(rustix::fs::access(path, Access::EXEC_OK)?)
}

fn pieces(word: &str) -> Result<Word, CommandError> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        if let Some(after) = after.strip_prefix('{') {
            text.push('{');
            rest = after;
            continue;
        }
        let (name, after) = after
            .split_once('}')
            .ok_or_else(|| CommandError::Unclosed(word.to_owned()))?;
        if !text.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut text)));
        }
        pieces.push(Piece::Port(placeholder(word, name)?));
        rest = after;
    }
    text.push_str(rest);
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

fn placeholder(word: &str, name: &str) -> Result<u16, CommandError> {
    let port = name
        .strip_prefix("port:")
        .ok_or_else(|| CommandError::Unknown {
            word: word.to_owned(),
            name: name.to_owned(),
        })?;
    let number = port.parse().ok().filter(|number| *number != 0);
    // `parse` also accepts a plus sign.
    number
        .filter(|_| port.bytes().all(|b| b.is_ascii_digit()))
        .ok_or_else(|| CommandError::Port {
            word: word.to_owned(),
            port: port.to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn args(command: &str) -> Vec<String> {
        let template = CommandTemplate::parse(command).expect(command);
        let doubled = template.args(|port| Ok::<_, ()>(port.wrapping_mul(2)));
        doubled.expect("no port is refused")
    }

    #[test]
    fn a_command_is_split_like_a_shell_does_and_nothing_is_expanded() {
        assert_eq!(
            args("/bin/sh -c 'echo \"$HOME\" *' a\\ b \"c d\" ''"),
            ["-c", "echo \"$HOME\" *", "a b", "c d", ""]
        );
        let template = CommandTemplate::parse("/bin/sh").expect("a program alone");
        assert_eq!(template.program(), Path::new("/bin/sh"));
    }

    #[test]
    fn ports_are_put_in_wherever_they_stand() {
        assert_eq!(
            args(
                "/bin/sh --a=127.0.0.1:{port:8080} {port:1}{port:2} '{{\"x\": {port:65535}}' {{port:1}"
            ),
            ["--a=127.0.0.1:16160", "24", "{\"x\": 65534}", "{port:1}"]
        );
    }

    #[test]
    fn errors_name_the_word_and_tell_what_to_write() {
        for (command, words) in [
            ("", "the command is empty"),
            ("  ", "the command is empty"),
            ("''", "the command is empty"),
            (
                "/bin/sh 'x",
                "the command `/bin/sh 'x` ends within a quotation or after a backslash",
            ),
            (
                "/bin/sh x{port:80",
                "a placeholder in `x{port:80` has no closing brace",
            ),
            (
                "/bin/sh x{pord:80}",
                "unknown placeholder `{pord:80}` in `x{pord:80}`",
            ),
            ("/bin/sh {}", "unknown placeholder `{}` in `{}`"),
            (
                "/bin/sh {port:0}",
                "`0` in `{port:0}` is not a port: expected 1 to 65535",
            ),
            (
                "/bin/sh {port:65536}",
                "`65536` in `{port:65536}` is not a port: expected 1 to 65535",
            ),
            (
                "/bin/sh {port:+80}",
                "`+80` in `{port:+80}` is not a port: expected 1 to 65535",
            ),
            ("/no/such/program", "cannot execute /no/such/program"),
            (
                "no-such-program-anywhere",
                "there is no program `no-such-program-anywhere` in PATH",
            ),
            ("/bin", "cannot execute /bin"),
        ] {
            let error = CommandTemplate::parse(command).expect_err(command);
            assert_eq!(error.to_string(), words);
            assert!(error.hint().is_some());
        }
    }

    #[test]
    fn a_program_is_found_in_path_and_has_to_be_executable() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let (first, second) = (dir.path().join("a"), dir.path().join("b"));
        for (folder, mode) in [(&first, 0o644), (&second, 0o755)] {
            fs::create_dir(folder).expect("a folder");
            fs::write(folder.join("tool"), "#!/bin/sh\n").expect("a file");
            fs::set_permissions(folder.join("tool"), fs::Permissions::from_mode(mode))
                .expect("a mode");
        }
        let path = env::join_paths([&first, &second]).expect("a search path");
        let found = find("tool", Some(&path)).expect("the second one");
        assert_eq!(found, second.join("tool"));
        assert!(find("tool", None).is_err());
    }
}
