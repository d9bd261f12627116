use std::fs;
use std::path::Path;

use super::*;

/// A script in place of Helm, and the folder in which it runs.
struct Script {
    folder: tempfile::TempDir,
    program: Program,
}

impl Script {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("helm.sh");
        fs::write(&path, text).expect("written");
        let launcher = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/helm/launcher.sh");
        let program = Program {
            launcher: Launcher::new(launcher),
            path,
            env: vec![("HELM_DATA_HOME".into(), "/data".into())],
            cwd: folder.path().to_owned(),
        };
        Self { folder, program }
    }

    async fn run(&self, args: &[&str], limit: Duration) -> Ended {
        let args = args.iter().map(OsString::from).collect();
        self.program.run(args, limit).await.expect("it runs")
    }

    /// Waits until the script has written this file.
    async fn wrote(&self, name: &str) -> String {
        let path = self.folder.path().join(name);
        for _ in 0..500 {
            match fs::read_to_string(&path) {
                Ok(text) if !text.is_empty() => return text,
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
        panic!("{} was never written", path.display())
    }
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn both_streams_and_the_exit_code_are_kept() {
    let script = Script::new("echo \"$@\"; echo no >&2; exit 3");
    let ended = script.run(&["upgrade", "a b"], LONG).await;
    assert_eq!((ended.exit, ended.signal), (Some(3), None));
    assert_eq!(ended.stdout, Captured::whole(b"upgrade a b\n"));
    assert_eq!(ended.stderr, Captured::whole(b"no\n"));
    assert_eq!(ended.stopped_after, None);
}

#[tokio::test]
async fn nothing_of_the_environment_is_seen_but_path_and_home() {
    let script = Script::new("env");
    let ended = script.run(&[], LONG).await;
    let text = ended.stdout.text();
    let mut names: Vec<&str> = text
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0))
        // The shell's own.
        .filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name))
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["HELM_DATA_HOME", "HOME", "PATH"]);
}

#[test]
fn proxies_and_settings_of_helm_are_removed() {
    let set = ["HTTPS_PROXY", "PATH", "HELM_DRIVER", "HOME", "KUBECONFIG"];
    assert_eq!(
        unwanted(set.into_iter().map(OsString::from)),
        ["HTTPS_PROXY", "HELM_DRIVER", "KUBECONFIG"]
    );
}

#[tokio::test]
async fn a_process_that_does_not_end_is_asked_to() {
    let script =
        Script::new("trap 'echo cancelled >&2; exit 1' TERM\nwhile :; do sleep 0.05; done");
    let limit = Duration::from_millis(500);
    let ended = script.run(&[], limit).await;
    assert_eq!(ended.exit, Some(1));
    assert_eq!(ended.stderr.text(), "cancelled\n");
    assert_eq!(ended.stopped_after, Some(limit));
}

#[tokio::test]
async fn a_process_that_left_a_child_with_its_pipes_has_ended() {
    let script = Script::new("echo said\nsleep 30 & echo $! > child\nexit 0");
    let ended = script.run(&[], LONG).await;
    assert_eq!(ended.exit, Some(0));
    assert_eq!(ended.stdout.text(), "said\n");
    assert!(ended.took < Duration::from_secs(20), "{:?}", ended.took);
    let child = script.wrote("child").await;
    let child = rustix::process::Pid::from_raw(child.trim().parse().expect("a number"));
    let _ = rustix::process::kill_process(child.expect("a process"), rustix::process::Signal::KILL);
}

#[tokio::test]
async fn a_process_whose_owner_lost_interest_may_still_put_things_in_order() {
    let script = Script::new(
        "trap 'echo failed > status; exit 1' TERM\necho up > running\nwhile :; do sleep 0.05; done",
    );
    let program = script.program.clone();
    let running = tokio::spawn(async move { program.run(Vec::new(), LONG).await });
    script.wrote("running").await;
    running.abort();
    assert_eq!(script.wrote("status").await, "failed\n");
}
