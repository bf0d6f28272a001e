//! Matches processes to containers by their control group.

/// Whether a process, by its `/proc/<pid>/cgroup`, is in the control group of a container. Each engine puts
/// the container id into the path in its own way.
pub fn is_in_container(proc_cgroup: &str, container: &str) -> bool {
    let paths = proc_cgroup.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    container.len() >= ID_MIN_BYTES
        && paths.flat_map(|path| path.split('/')).any(|part| part.contains(container))
}

/// A shorter id could match part of another path.
const ID_MIN_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_matched_to_its_container_by_cgroup_path() {
        let id = "c".repeat(64);
        for (text, expected) in [
            (format!("9:pids:/docker/{id}\n"), true),
            (format!("0::/system.slice/docker-{id}.scope\n"), true),
            (format!("9:pids:/libpod_parent/libpod-{id}\n"), true),
            (format!("9:pids:/docker/{}\n", "d".repeat(64)), false),
            ("9:pids:/\n".to_owned(), false),
        ] {
            assert_eq!(is_in_container(&text, &id), expected, "{text}");
        }
        assert!(!is_in_container("9:pids:/docker/cc\n", "c"), "too short to mean anything");
    }
}
