//! Places code that an idle PID 1 does not run apart from the code it does run. The kernel maps sixteen pages
//! of a program around each used page, so unused code counts as memory of every sandbox when it lies between
//! used code.
//!
//! build.rs writes the linker script from these lists; the tests below compare them with the source tree.

/// Modules of this crate that only shims, checkpoints, verbs on files and a new `sandbox.yaml` run.
pub const APART: &[&str] = &[
    "api::files",
    "api::programs",
    "api::terminal",
    "api::tunnel",
    "api::warm_agent",
    "checkpoint",
    "core::acp",
    "core::line_joiner",
    "core::manifest",
    "core::stream_json",
    "core::tool_limits",
    "files_process",
    "shim::acp_conversation",
    "shim::child",
    "shim::control",
    "shim::event_writer",
    "shim::exit_status",
    "shim::json_output",
    "shim::output_sink",
    "shim::pump",
    "shim::raw_log",
    "shim::run",
    "shim::run_acp",
    "shim::signal_tree",
    "shim::stdin_queue",
    "shim::tail_buffer",
];

/// Crates that only those modules use, or only a panic.
pub const APART_CRATES: &[&str] = &[
    "adler2",
    "addr2line",
    "aho_corasick",
    "annotate_snippets",
    "block_buffer",
    "bstr",
    "crossbeam_deque",
    "crossbeam_epoch",
    "crossbeam_utils",
    "digest",
    "encoding_rs",
    "encoding_rs_io",
    "files",
    "filetime",
    "flate2",
    "gimli",
    "globset",
    "granit_parser",
    "grep_matcher",
    "grep_searcher",
    "ignore",
    "memmap2",
    "miniz_oxide",
    "regex_automata",
    "regex_lite",
    "regex_syntax",
    "rustc_demangle",
    "rustix",
    "same_file",
    "serde_saphyr",
    "sha1",
    "simd_adler32",
    "tar",
    "walkdir",
];

/// The types of requests for verbs on files, and a library that is no crate.
const APART_NAMES: &[&str] = &["8protocol5files", "libunwind"];

/// Functions of libraries that are the same for many types, so that the compiler keeps one of them, under the name of any
/// of those types: PID 1 runs them.
const SHARED_CODE: &[&str] =
    &["5alloc7raw_vec", "9hashbrown3raw", "10serde_json2de", "10serde_json3ser", "7content"];

/// Returns the linker script that places these modules and crates after the rest of the code.
pub fn linker_script() -> String {
    let modules = APART.iter().flat_map(|path| {
        let mangled: String = path.split("::").map(|name| format!("{}{name}", name.len())).collect();
        // The crate name tells a module of the crate's root from others of its name.
        let mangled = if path.contains("::") { mangled } else { format!("8runtimed{mangled}") };
        [mangled, path.replace("::", "..")].into_iter().filter(|name| !APART.contains(&name.as_str()))
    });
    // `Cs…_5files` is the crate, `5files` alone may be a module of another. A symbol that ends with the name of a crate is
    // one of the standard library's that this crate was the first to use.
    let crates = APART_CRATES.iter().map(|name| format!("_{}{name}?", name.len()));
    let names = modules.chain(crates).chain(APART_NAMES.iter().map(|name| (*name).to_owned()));
    let patterns: String = names.map(|name| format!("    *(.text.*{name}*)\n")).collect();
    let shared: String = SHARED_CODE.iter().map(|name| format!("    *(.text.*{name}*)\n")).collect();
    format!(
        "SECTIONS\n{{\n  .text.shared :\n  {{\n{shared}  }}\n  .text.apart :\n  {{\n{patterns}  }}\n}}\nINSERT AFTER .text;\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, fs, path::Path};

    /// Modules of shims that PID 1 runs as well.
    const SHARED: &[&str] = &["shim::messages"];

    fn source() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))
    }

    #[test]
    fn every_listed_module_exists() {
        for path in APART.iter().chain(SHARED) {
            let file = source().join(path.replace("::", "/"));
            assert!(file.is_dir() || file.with_extension("rs").is_file(), "there is no module {path}");
        }
    }

    #[test]
    fn every_module_of_shims_is_listed() {
        let entries = fs::read_dir(source().join("shim")).expect("the modules of shims");
        let names = entries.map(|entry| entry.expect("an entry").path().with_extension(""));
        let modules: BTreeSet<_> = names
            .map(|path| format!("shim::{}", path.file_name().expect("a name").to_string_lossy()))
            .filter(|name| name != "shim::mod")
            .collect();
        let listed = APART.iter().chain(SHARED).filter(|path| path.starts_with("shim::"));
        assert_eq!(modules, listed.map(|path| (*path).to_owned()).collect());
    }

    #[test]
    fn the_script_names_modules_as_symbols_do() {
        let script = linker_script();
        for pattern in [
            "*(.text.*4shim3run*)",
            "*(.text.*core..acp*)",
            "*(.text.*8runtimed10checkpoint*)",
            "*(.text.*_5gimli?*)",
        ] {
            assert!(script.contains(pattern), "{pattern} is missing from\n{script}");
        }
    }
}
