mod config {
    use crate::{
        local::fixture::{badge, blueprint},
        oci::{
            bundle::Bundle, cgroup::Hierarchies, images::Rootfs, layout::Layout, mounts::SandboxMounts,
            runtime_profile::RuntimeProfile,
        },
    };
    use serde_json::Value;
    use std::path::Path;

    fn config(profile: &RuntimeProfile) -> Value {
        let (badge, blueprint) = (badge(), blueprint());
        let layout = Layout::new("/data".into(), "oci");
        let (dir, workspace) = (layout.sandbox(&badge.sandbox), layout.workspace(&badge.sandbox));
        let rootfs = Rootfs::directory("/data/root".into(), vec![("/usr".into(), "/usr".into())]);
        let hierarchies = Hierarchies::discover("x").expect("tests run where control groups are");
        let group = hierarchies.for_sandbox(&badge.sandbox);
        let mounts = SandboxMounts {
            rootfs: &rootfs,
            dir: &dir,
            workspace: &workspace,
            runtimed: Path::new("/bin/runtimed"),
            group: &group,
            memory_bytes: 512 << 20,
            idmapped: profile.idmapped(),
            stacked: false,
        };
        let bundle = Bundle {
            profile,
            mounts,
            hostname: badge.sandbox.as_str(),
            uid_base: 1 << 28,
            limits: &blueprint.limits,
            nofile: 20_000,
            proxy: false,
            services_held: false,
            image_env: None,
            cgroups_path: hierarchies.path_of(&badge.sandbox),
            filter: "AAAA",
        };
        serde_json::from_slice(&bundle.config().expect("a bundle")).expect("JSON")
    }

    fn mount<'a>(config: &'a Value, at: &str) -> &'a Value {
        let mounts = config["mounts"].as_array().expect("mounts");
        mounts.iter().find(|mount| mount["destination"] == at).unwrap_or_else(|| panic!("no mount at {at}"))
    }

    fn profile(program: &str) -> RuntimeProfile {
        RuntimeProfile::candidates(Path::new(program)).remove(0)
    }

    #[test]
    fn a_sandbox_is_confined_whatever_runs_it() {
        for program in ["/usr/bin/crun", "/usr/sbin/runc", "/usr/bin/youki"] {
            let config = config(&profile(program));
            let process = &config["process"];
            assert_eq!(process["noNewPrivileges"], true, "{program}");
            assert_eq!(process["args"], serde_json::json!(["/.runtimed"]));
            assert_eq!(process["env"], serde_json::json!([]), "no environment enters a bundle");
            for set in ["bounding", "permitted", "effective"] {
                assert_eq!(process["capabilities"][set].as_array().map(Vec::len), Some(3), "{set}");
            }
            assert_eq!(config["root"]["readonly"], true);
            assert_eq!(config["linux"]["namespaces"].as_array().map(Vec::len), Some(7));
            assert_eq!(config["linux"]["uidMappings"][0]["hostID"], 1 << 28);
            let filtered = config["linux"]["seccomp"].is_object()
                || config["annotations"]["run.oci.seccomp_bpf_data"] == "AAAA";
            assert!(filtered, "{program} has no filter");
            let usr = mount(&config, "/usr")["options"].to_string();
            assert!(usr.contains("\"ro\"") && usr.contains("nosuid"), "{usr}");
            assert!(!mount(&config, "/tmp")["options"].to_string().contains("noexec"));
            assert!(mount(&config, "/tmp")["options"].to_string().contains("size=268435450"));
        }
    }

    #[test]
    fn each_runtime_gets_what_it_understands() {
        let crun = config(&profile("/usr/bin/crun"));
        assert!(mount(&crun, "/home/sandbox")["options"].to_string().contains("idmap"));
        assert!(crun["linux"]["cgroupsPath"].is_null() && crun["linux"]["resources"].is_null());
        let runc = config(&profile("/usr/sbin/runc"));
        assert!(!mount(&runc, "/home/sandbox")["options"].to_string().contains("idmap"));
        assert_eq!(runc["linux"]["cgroupsPath"], "/slipway-x/01jb9xyzabcdefghjkmnpqrstv");
        assert_eq!(runc["linux"]["resources"]["cpu"]["quota"], 10_000);
        assert_eq!(runc["linux"]["resources"]["memory"]["limit"], 512u64 << 20);
    }
}
