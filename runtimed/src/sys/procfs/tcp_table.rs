//! The kernel's tables of TCP sockets, `/proc/net/tcp` and `tcp6`. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listener {
    pub port: u16,
    pub address: IpAddr,
    /// Inode of the socket, by which its owner is found; 0 when it has none any more.
    pub inode: u64,
}

const STATE_LISTEN: &str = "0A";

/// The listening sockets of a table; torn or unknown lines are skipped.
pub fn parse(table: &[u8]) -> impl Iterator<Item = Listener> {
    table.split(|byte| *byte == b'\n').filter_map(|line| parse_line(std::str::from_utf8(line).ok()?))
}

/// `0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 1000 0 4711 …`
fn parse_line(line: &str) -> Option<Listener> {
    let mut fields = line.split_ascii_whitespace();
    let (address, port) = fields.nth(1)?.split_once(':')?;
    if fields.nth(1)? != STATE_LISTEN || port.len() != 4 {
        return None;
    }
    // More fields always follow the inode: without them the number may have lost its last digits.
    let inode = fields.nth(5)?.parse().ok()?;
    fields.next()?;
    Some(Listener { port: u16::from_str_radix(port, 16).ok()?, address: parse_address(address)?, inode })
}

/// Parses one or four words. Each is the number that the bytes of the address form in this machine's memory.
fn parse_address(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(hex.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    match hex.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?];
            let bytes: [u8; 16] = words.concat().try_into().ok()?;
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::proptest;

    fn check(table: &str, expected: &[(&str, u16, u64)]) {
        let got: Vec<_> = parse(table.as_bytes()).map(|l| (l.address.to_string(), l.port, l.inode)).collect();
        let expected: Vec<_> = expected.iter().map(|(a, p, i)| ((*a).to_owned(), *p, *i)).collect();
        assert_eq!(got, expected, "{table}");
    }

    const HEAD: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
    const TAIL: &str = "1 00000000d2582137 100 0 0 10 0";

    #[test]
    fn version_4_lists_what_listens_and_nothing_else() {
        let table = format!(
            "{HEAD}                                                     \n\
             \x20  0: 00000000:07E8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 552 {TAIL}                       \n\
             \x20  1: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 {TAIL}                     \n\
             \x20  2: 0B00007F:A2B3 00000000:0000 0A 00000000:00000080 00:00000000 00000000   101        0 18446744073709551615 {TAIL}\n\
             \x20  3: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0000000000000000 20 4 30 10 -1\n\
             \x20  4: 0100007F:C351 0100007F:1F90 06 00000000:00000000 03:000017A0 00000000     0        0 0 3 0000000000000000\n"
        );
        check(
            &table,
            &[("0.0.0.0", 2024, 552), ("127.0.0.1", 8080, 4711), ("127.0.0.11", 41651, 18446744073709551615)],
        );
    }

    #[test]
    fn version_6_addresses_are_read_word_by_word() {
        let line = |address: &str| {
            let other = "0".repeat(32);
            format!(
                "   0: {address}:1F90 {other}:0000 0A 00000000:00000000 00:00000000 00000000 1000 0 77 {TAIL}\n"
            )
        };
        for (address, expected) in [
            ("00000000000000000000000000000000", "::"),
            ("00000000000000000000000001000000", "::1"),
            ("0000000000000000FFFF00000100007F", "::ffff:127.0.0.1"),
            ("B80D0120000000000000000067452301", "2001:db8::123:4567"),
            ("000080FE00000000FF005450B6AD1DFE", "fe80::5054:ff:fe1d:adb6"),
        ] {
            check(&line(address), &[(expected, 8080, 77)]);
        }
    }

    #[test]
    fn torn_lines_and_garbage_are_left_out() {
        let good = format!("0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 1000 0 4711 {TAIL}");
        check(&good, &[("127.0.0.1", 8080, 4711)]);
        for (bad, why) in [
            ("", "empty"),
            (HEAD, "the heading"),
            ("0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 1000 0 47", "cut inside the inode"),
            ("0: 0100007F:1F90 00000000:0000 0A 0:0", "cut before the inode"),
            ("0: 0100007F:1F", "cut inside the port"),
            ("0: 0100007F1F90 00000000:0000 0A 0:0 0:0 0 1000 0 4711 1", "no port"),
            ("0: 0100007F:11F90 00000000:0000 0A 0:0 0:0 0 1000 0 4711 1", "a port too large"),
            ("0: 0100007F:+F90 00000000:0000 0A 0:0 0:0 0 1000 0 x 1", "an inode that is none"),
            ("0: 01007F:1F90 00000000:0000 0A 0:0 0:0 0 1000 0 4711 1", "an address too short"),
            ("0: 0100007é:1F90 00000000:0000 0A 0:0 0:0 0 1000 0 4711 1", "not hexadecimal"),
            ("0: 000000é:1F90 00000000:0000 0A 0:0 0:0 0 1000 0 4711 1", "eight bytes, cut inside a letter"),
        ] {
            check(bad, &[]);
            let both = format!("{bad}\n{good}\n");
            assert_eq!(parse(both.as_bytes()).count(), 1, "{why}");
        }
        assert_eq!(parse(b"\xff\xfe\n\0\n").count(), 0);
    }

    proptest! {
        #[test]
        fn no_table_makes_it_panic(bytes: Vec<u8>, text: String) {
            parse(&bytes).for_each(drop);
            parse(text.as_bytes()).for_each(drop);
        }
    }
}
