//! Rows of COPY: written, cut anywhere, read back; and what is refused.

use proptest::prelude::*;

use super::*;

fn written(options: &CopyOptions, rows: &[Vec<Option<Vec<u8>>>]) -> Vec<u8> {
    let writer = CopyOut::new(options.clone());
    let mut out = Vec::new();
    writer.begin(&mut out, ["a", "b"].into_iter());
    for row in rows {
        writer.row(&mut out, row.iter().map(|field| field.as_deref()));
    }
    writer.end(&mut out);
    out
}

fn read(options: &CopyOptions, columns: u16, parts: &[&[u8]]) -> Result<Vec<Fields>, Refusal> {
    let mut reader = CopyIn::new(options.clone(), columns, 1 << 16);
    let mut found = Vec::new();
    let mut row = |fields: &[Option<Vec<u8>>]| {
        found.push(fields.to_vec());
        Ok(())
    };
    for part in parts {
        reader.data(part, &mut row)?;
    }
    reader.done(&mut row)?;
    Ok(found)
}

fn texts(rows: &[Fields]) -> Vec<Vec<Option<&str>>> {
    fn text(field: &Option<Vec<u8>>) -> Option<&str> {
        field
            .as_deref()
            .map(|field| std::str::from_utf8(field).expect("UTF-8"))
    }
    rows.iter().map(|row| row.iter().map(text).collect()).collect()
}

#[test]
fn text_as_postgresql_writes_it() {
    let options = CopyOptions::of(CopyFormat::Text);
    let rows = [
        vec![Some(b"a\tb\\\n".to_vec()), None],
        vec![Some(Vec::new()), Some(b"\\N".to_vec())],
    ];
    let bytes = written(&options, &rows);
    assert_eq!(bytes, b"a\\tb\\\\\\n\t\\N\n\t\\\\N\n");
    assert_eq!(read(&options, 2, &[&bytes]), Ok(rows.to_vec()));
    let other = read(&options, 1, &[b"\\x41\\102\\q\r\nend"]).expect("rows");
    assert_eq!(texts(&other), [[Some("ABq")], [Some("end")]]);
    let marked = read(&options, 1, &[b"1\n\\.\nignored\n"]).expect("rows");
    assert_eq!(texts(&marked), [[Some("1")]]);
}

#[test]
fn csv_as_postgresql_writes_it() {
    let mut options = CopyOptions::of(CopyFormat::Csv);
    options.header = true;
    let rows = [
        vec![Some(b"a,\"b\"\n".to_vec()), None],
        vec![Some(Vec::new()), Some(b"plain".to_vec())],
    ];
    let bytes = written(&options, &rows);
    assert_eq!(bytes, b"a,b\n\"a,\"\"b\"\"\n\",\n\"\",plain\n");
    assert_eq!(read(&options, 2, &[&bytes]), Ok(rows.to_vec()));
}

#[test]
fn what_is_no_row_names_its_line() {
    let text = CopyOptions::of(CopyFormat::Text);
    let csv = CopyOptions::of(CopyFormat::Csv);
    let binary = CopyOptions::of(CopyFormat::Binary);
    for (options, data, told) in [
        (&text, &b"1\t2\n3\n"[..], "missing data for column 2"),
        (&text, b"1\t2\t3\n", "extra data after last expected column"),
        (&csv, b"1,\"2\n", "unterminated CSV quoted field"),
        (
            &binary,
            b"PGCOPY\n\xff\r\n\x01",
            "COPY file signature not recognized",
        ),
        (&binary, b"PGCOPY\n\xff\r\n\0", "unexpected EOF in COPY data"),
        (
            &binary,
            b"PGCOPY\n\xff\r\n\0\0\x01\0\0\0\0\0\0",
            "unrecognized critical flags in COPY file header",
        ),
        (
            &binary,
            b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x01",
            "row field count is 1, expected 2",
        ),
    ] {
        let refusal = read(options, 2, &[data]).expect_err(told);
        assert_eq!(
            (refusal.code, refusal.message.as_str()),
            (code::BAD_COPY_FILE_FORMAT, told)
        );
        assert!(refusal.detail.expect("a line").starts_with("Line "));
    }
}

#[test]
fn options_that_take_each_other_s_place() {
    let with = |change: fn(&mut CopyOptions)| {
        let mut options = CopyOptions::of(CopyFormat::Csv);
        change(&mut options);
        options.check()
    };
    assert_eq!(with(|_| {}), Ok(()));
    assert!(with(|options| options.delimiter = b'"').is_err());
    assert!(with(|options| options.delimiter = b'\n').is_err());
    assert!(with(|options| options.null = "a,b".to_owned()).is_err());
    assert!(with(|options| options.null = "\"".to_owned()).is_err());
    assert!(with(|options| options.format = CopyFormat::Text).is_ok());
}

#[test]
fn a_row_has_a_limit() {
    for format in [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary] {
        let mut reader = CopyIn::new(CopyOptions::of(format), 1, 100);
        let mut data = if format == CopyFormat::Binary {
            BINARY_HEADER.to_vec()
        } else {
            Vec::new()
        };
        data.extend([0, 1, 0, 0, 0, 200]);
        data.extend([b'x'; 150]);
        assert!(reader.data(&data, &mut |_| Ok(())).is_err(), "{format:?}");
    }
}

fn any_rows() -> impl Strategy<Value = Vec<Vec<Option<Vec<u8>>>>> {
    let byte = prop_oneof![any::<u8>(), prop::sample::select(b"\t,\"\\\n\rN.'x0".to_vec())];
    let field = prop::option::weighted(0.8, prop::collection::vec(byte, 0..6));
    prop::collection::vec(prop::collection::vec(field, 2..3), 0..6)
}

proptest! {
    #[test]
    fn rows_are_read_back_however_they_are_cut(
        rows in any_rows(),
        format in prop::sample::select(vec![CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary]),
        cut in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        escape in prop::sample::select(b"\"\\".to_vec()),
    ) {
        let options = CopyOptions { escape, ..CopyOptions::of(format) };
        let bytes = written(&options, &rows);
        let mut cuts: Vec<usize> = cut.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let parts: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(read(&options, 2, &parts), Ok(rows));
    }

    #[test]
    fn any_bytes_are_rows_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        format in prop::sample::select(vec![CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary]),
        signature: bool,
    ) {
        let begin: &[u8] = if signature { BINARY_HEADER } else { b"" };
        let _ = read(&CopyOptions::of(format), 2, &[begin, &bytes]);
    }
}
