//! What a snapshot holds.

use super::*;

#[test]
fn a_snapshot_holds_what_was_there_and_forks_of_it_are_apart() {
    for (kind, method, ids) in all_ways() {
        let host = Host::on(kind, method, ids);
        let sandbox = id::<SandboxId>();
        let workspace = host.make(&sandbox);
        fill(&workspace);
        let before = tree(&workspace);
        let first = host.take(&sandbox, &Excludes::default(), None);
        assert_eq!(tree(&workspace), before, "{kind} {method}: the workspace is as it was");
        // What comes later is in no snapshot of before.
        write(&workspace, "workspace/app/main.js", "second");
        as_owner(&workspace, || {
            let app = workspace.join("workspace/app");
            fs::remove_file(app.join("gone")).expect("removed");
            fs::rename(app.join("node_modules"), app.join("moved")).expect("moved");
        });
        let changed = tree(&workspace);
        let (forked, fork) = host.fork(&first);
        assert_eq!(tree(&fork), before, "{kind} {method}");
        write(&fork, "workspace/app/main.js", "of the fork");
        assert_eq!(tree(&workspace), changed, "{kind} {method}");
        // A snapshot of changes above a snapshot, and a fork of that.
        let second =
            host.take(&sandbox, &Excludes::default(), Some(&|| write(&workspace, "workspace/app/late", "1")));
        let (_, of_second) = host.fork(&second);
        assert_eq!(tree(&of_second), tree(&workspace), "{kind} {method}");
        let compared = host.workspaces().verify_snapshot(&first).expect("read");
        assert_eq!((compared.differences, compared.differences_total), (vec![], 0), "{kind} {method}");
        // A fork of a fork.
        let third = host.take(&forked, &Excludes::default(), None);
        assert_eq!(tree(&host.fork(&third).1), tree(&fork), "{kind} {method}");
    }
}

#[test]
fn what_changes_while_a_copy_is_made_is_in_the_snapshot() {
    for (kind, method, ids) in all_ways() {
        let host = Host::on(kind, method, ids);
        let sandbox = id::<SandboxId>();
        let workspace = host.make(&sandbox);
        fill(&workspace);
        for round in 0..2 {
            let app = workspace.join("workspace/app");
            let change = || {
                fs::write(app.join("main.js"), format!("changed {round}")).expect("written");
                fs::write(app.join(format!("new-{round}")), "new").expect("written");
                let _ = fs::remove_file(app.join("gone"));
                // Two directories change places: neither their files nor their sizes change.
                for (dir, text) in [("a", "of a"), ("b", "of b")] {
                    if !app.join(dir).exists() {
                        fs::create_dir(app.join(dir)).expect("made");
                        fs::write(app.join(dir).join("file"), text).expect("written");
                    }
                }
                fs::rename(app.join("a"), app.join("c")).expect("moved");
                fs::rename(app.join("b"), app.join("a")).expect("moved");
                fs::rename(app.join("c"), app.join("b")).expect("moved");
            };
            let snapshot = host.take(&sandbox, &Excludes::default(), Some(&|| as_owner(&workspace, change)));
            assert_eq!(tree(&host.fork(&snapshot).1), tree(&workspace), "{kind} {method} {round}");
        }
    }
}

#[test]
fn names_that_are_excluded_are_in_no_snapshot_at_rest_or_not() {
    let excludes = Excludes::parse(&["node_modules".to_owned()]).expect("good");
    for (kind, method, ids) in all_ways() {
        let host = Host::on(kind, method, ids);
        let sandbox = id::<SandboxId>();
        let workspace = host.make(&sandbox);
        fill(&workspace);
        let whole = host.take(&sandbox, &Excludes::default(), None);
        for meanwhile in [None, Some(&(|| ()) as &dyn Fn())] {
            let without = host.take(&sandbox, &excludes, meanwhile);
            let app = host.fork(&without).1.join("workspace/app");
            assert!(!app.join("node_modules").exists() && app.join("main.js").exists(), "{kind} {method}");
        }
        let app = host.fork(&whole).1.join("workspace/app");
        assert!(app.join("node_modules/left/index.js").exists(), "{kind} {method}");
    }
}
