//! `inet`: an address of the Internet and the bits of its network, as PostgreSQL writes it: `10.0.0.1`, `10.0.0.1/8`, `::1`.

use super::kind::Format;
use std::net::IpAddr;

/// PostgreSQL's numbers of the families.
const V4: u8 = 2;
const V6: u8 = 3;

fn parsed(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = match text.split_once('/') {
        None => (text, None),
        Some((address, bits)) => (address, Some(bits)),
    };
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        None => most,
        Some(bits) if bits.bytes().all(|digit| digit.is_ascii_digit()) => bits.parse().ok()?,
        Some(_) => return None,
    };
    (bits <= most).then_some((address, bits))
}

fn shown(address: IpAddr, bits: u8) -> String {
    let most = if address.is_ipv4() { 32 } else { 128 };
    match bits == most {
        true => address.to_string(),
        false => format!("{address}/{bits}"),
    }
}

/// The text as PostgreSQL writes it; `None`: it is no address.
pub fn normal(text: &str) -> Option<String> {
    parsed(text).map(|(address, bits)| shown(address, bits))
}

/// Appends one. A text that is no address is written as it is.
pub(super) fn write(out: &mut Vec<u8>, format: Format, text: &str) {
    match (format, parsed(text)) {
        (Format::Binary, Some((IpAddr::V4(address), bits))) => {
            out.extend([V4, bits, 0, 4]);
            out.extend(address.octets());
        }
        (Format::Binary, Some((IpAddr::V6(address), bits))) => {
            out.extend([V6, bits, 0, 16]);
            out.extend(address.octets());
        }
        _ => out.extend(text.as_bytes()),
    }
}

/// The text of its binary form; `None`: it has none.
pub(super) fn read_binary(bytes: &[u8]) -> Option<String> {
    let ([family, bits, _, length], address) = bytes.split_first_chunk::<4>()?;
    let address = match (*family, *length) {
        (V4, 4) => IpAddr::from(<[u8; 4]>::try_from(address).ok()?),
        (V6, 16) => IpAddr::from(<[u8; 16]>::try_from(address).ok()?),
        _ => return None,
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    (*bits <= most).then(|| shown(address, *bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_postgresql_writes_them() {
        for (given, normal_form) in [
            ("10.0.0.1", Some("10.0.0.1")),
            ("10.0.0.1/32", Some("10.0.0.1")),
            ("10.0.0.1/8", Some("10.0.0.1/8")),
            ("2001:DB8:0:0::1", Some("2001:db8::1")),
            ("::1/64", Some("::1/64")),
            ("10.0.0", None),
            ("10.0.0.1/33", None),
            ("10.0.0.1/+1", None),
            ("a", None),
        ] {
            assert_eq!(normal(given).as_deref(), normal_form, "{given}");
        }
    }

    #[test]
    fn binary_forms_are_read_as_they_are_written() {
        for text in ["10.0.0.1", "10.0.0.1/8", "2001:db8::1", "::1/64"] {
            let mut bytes = Vec::new();
            write(&mut bytes, Format::Binary, text);
            assert_eq!(read_binary(&bytes).as_deref(), Some(text));
        }
        let mut bytes = Vec::new();
        write(&mut bytes, Format::Binary, "10.0.0.1/8");
        assert_eq!(bytes, [2, 8, 0, 4, 10, 0, 0, 1]);
        assert_eq!(read_binary(&bytes[..7]), None);
    }
}
