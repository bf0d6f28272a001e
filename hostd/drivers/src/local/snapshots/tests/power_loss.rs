//! A loss of power: what was said to be there is there, whole, when only what the disk had at that moment is left.

use super::*;

/// The states of a disk at moments, and what has to hold after each.
struct Moments {
    host: Host,
    seen: Vec<Moment>,
}

struct Moment {
    what: &'static str,
    image: PathBuf,
    check: Box<dyn Fn(&Host)>,
}

impl Moments {
    /// Copies what the device holds now; what waits in memory is lost.
    fn lose_power(&mut self, what: &'static str, check: impl Fn(&Host) + 'static) {
        let image = self.host.disk.temp.path().join(format!("image-{}", self.seen.len()));
        run(Command::new("cp").arg("--sparse=always").arg(self.host.disk.image()).arg(&image));
        self.seen.push(Moment { what, image, check: Box::new(check) });
    }

    /// Mounts the states one after another.
    fn check(self, kind: &str, method: SnapshotMethod, ids: StackIds) {
        let images = tempfile::tempdir_in(self.host.disk.temp.path().parent().expect("a parent"));
        let images = images.expect("a directory");
        for moment in &self.seen {
            fs::rename(&moment.image, images.path().join(moment.what)).expect("moved");
        }
        let seen = self.seen;
        drop(self.host);
        for moment in seen {
            eprintln!("{kind} {method}: {}", moment.what);
            if kind == "btrfs" {
                // The kernel remembers the newer state of the same file system.
                run(Command::new("btrfs").args(["device", "scan", "--forget"]));
            }
            let disk = Disk { temp: tempfile::tempdir().expect("a directory") };
            fs::create_dir(disk.data()).expect("made");
            fs::rename(images.path().join(moment.what), disk.image()).expect("moved");
            disk.mount();
            (moment.check)(&Host::open(disk, method, ids));
        }
    }
}

fn fill_with(workspace: &Path, text: &'static str) {
    as_owner(workspace, || {
        for number in 0..100 {
            let content = format!("{text} {number}\n").repeat(300);
            fs::write(workspace.join(format!("workspace/app/{number}")), content).expect("written");
        }
    });
}

#[test]
fn what_was_acknowledged_survives_a_loss_of_power() {
    // Each file system once, by the method that hostd chooses there.
    let chosen = |kind: &str| if kind == "btrfs" { SnapshotMethod::Btrfs } else { SnapshotMethod::Overlay };
    let ways = all_ways().into_iter().filter(|(kind, method, _)| *kind != "host" && *method == chosen(kind));
    for (kind, method, ids) in ways {
        let mut power = Moments { host: Host::on(kind, method, ids), seen: vec![] };
        let sandbox = id::<SandboxId>();
        let workspace = power.host.make(&sandbox);
        fill_with(&workspace, "first");
        let running = power.host.take(&sandbox, &Excludes::default(), Some(&|| fill(&workspace)));
        let first = tree(&workspace);
        let expected = first.clone();
        power.lose_power("a snapshot of a sandbox that runs", move |host| {
            assert_eq!(tree(&host.fork(&running).1), expected);
        });

        fill_with(&workspace, "second");
        let at_rest = power.host.take(&sandbox, &Excludes::default(), None);
        let second = tree(&workspace);
        let expected = second.clone();
        power.lose_power("a snapshot at rest", move |host| {
            assert_eq!(tree(&host.fork(&at_rest).1), expected);
            host.workspaces().mount(&sandbox).expect("mounted");
            assert_eq!(tree(&host.layout.workspace(&sandbox)), expected, "and the sandbox has its files");
        });

        let (forked, _) = power.host.fork(&running);
        let expected = first.clone();
        power.lose_power("a fork that was launched", move |host| {
            host.workspaces().mount(&forked).expect("mounted");
            assert_eq!(tree(&host.layout.workspace(&forked)), expected);
        });

        let unfinished = id::<SandboxId>();
        let _not_synced = power.host.fork_into(&unfinished, &running);
        // Something else puts the name on disk, and not the content of the record.
        sync_dir(&power.host.layout.stacks()).expect("synced");
        let expected = first.clone();
        power.lose_power("a fork whose launch was cut off", move |host| {
            host.fork_into(&unfinished, &running).sync().expect("synced");
            assert_eq!(tree(&host.layout.workspace(&unfinished)), expected);
        });

        let workspaces = power.host.workspaces();
        workspaces.unmount(&sandbox).expect("unmounted");
        let record = power.host.record(&running);
        workspaces.replace(&sandbox, &record, &LIMITS).expect("replaced");
        let kept = ReplacementOutcome::KeepNew;
        workspaces.finish_replacement(&sandbox, kept).expect("finished");
        power.lose_power("a restore", move |host| {
            let left = fs::read_dir(host.layout.replaced()).expect("there").count();
            assert_eq!(left, 0, "nothing that could be rolled back");
            host.workspaces().mount(&sandbox).expect("mounted");
            assert_eq!(tree(&host.layout.workspace(&sandbox)), first);
        });

        power.host.workspaces().remove_snapshot(&at_rest).expect("removed");
        power.lose_power("the removal of a snapshot", move |host| {
            let found = SnapshotRecord::read(&host.layout, &at_rest).expect("read");
            assert_eq!(found, None);
            host.workspaces().remove_unreferenced_layers().expect("removed");
            assert!(host.workspaces().remove_unreferenced_layers().expect("removed") == 0);
            host.record(&running);
        });
        power.check(kind, method, ids);
    }
}
