//! Programs that the user names and that do not do what they should.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

#[path = "support/programs.rs"]
mod programs;
mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use aibom_qual::plane::tool::Tool;
use programs::write_program;
use support::World;

/// A folder with the real programs, as a user would name it.
fn real_programs(world: &World) -> PathBuf {
    let only = Tool::PLANE.map(|tool| tool.to_string()).join(",");
    let installed = world.run(&["plane", "install", "--only", &only, "--format", "json"]);
    installed.expect(0, &[]);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&installed.stdout).expect("JSON");
    let bin = world.path("bin");
    fs::create_dir(&bin).expect("a folder");
    for (tool, row) in Tool::PLANE.into_iter().zip(rows) {
        let path = row["path"].as_str().expect("a path");
        symlink(path, bin.join(tool.file_name())).expect("a link");
    }
    bin
}

#[test]
fn a_component_that_panics_is_reported_with_its_panic() {
    let world = World::new();
    let bin = real_programs(&world);
    let scheduler = bin.join("kube-scheduler");
    fs::remove_file(&scheduler).expect("a link");
    write_program(
        &scheduler,
        "#!/bin/sh\n\
         if [ \"$1\" = --version ]; then echo 'Kubernetes v1.36.3'; exit 0; fi\n\
         echo 'I1130 all is well'\n\
         sleep 2\n\
         printf 'panic: boom\\n\\ngoroutine 1 [running]:\\nmain.main()\\n'\n\
         exit 2\n",
    );
    let finished = world.run(&["plane", "up", "--binaries", &bin.to_string_lossy()]);
    finished.expect(
        4,
        &[
            "kube-scheduler ended with exit status 2 after ",
            "\n  | panic: boom\n  | \n  | goroutine 1 [running]:\n  | main.main()\n",
            "hint: the whole log is ",
            "logs/kube-scheduler.log",
        ],
    );
    assert!(
        !finished.stderr.contains("all is well"),
        "{}",
        finished.stderr
    );
    assert_eq!(world.processes(), Vec::<String>::new());
    let plane = world.planes().pop().expect("its logs are kept");
    let log = world
        .dirs
        .planes()
        .join(plane)
        .join("logs/kube-scheduler.log");
    assert!(log.exists(), "the log that the message names is kept");
}

#[test]
fn a_named_file_that_cannot_run_here_is_refused_with_its_name() {
    let (machine, foreign, here) = match std::env::consts::ARCH {
        "aarch64" => (62, "x86-64", "arm64"),
        _ => (183, "arm64", "x86-64"),
    };
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0".to_vec();
    elf.extend([machine, 0]);
    let another_machine = format!("is built for {foreign}, this machine runs {here}");
    let cases: [(&[u8], u32, &str, &str); 3] = [
        (&elf, 0o755, &another_machine, "hint: replace it"),
        (
            b"#!/bin/sh\n",
            0o644,
            "is not executable (mode 0644)",
            "hint: make it executable (chmod +x)",
        ),
        (
            b"not a program",
            0o755,
            "is neither an ELF program nor a script",
            "hint: replace it",
        ),
    ];
    for (content, mode, problem, hint) in cases {
        let world = World::new();
        let bin = world.path("bin");
        for tool in Tool::PLANE {
            let path = bin.join(tool.file_name());
            write_program(&path, content);
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        }
        let etcd = bin.join("etcd").display().to_string();
        world
            .run(&["plane", "up", "--binaries", &bin.to_string_lossy()])
            .expect(2, &["etcd from --binaries", &etcd, problem, hint]);
        world.assert_empty(problem);
    }
}
