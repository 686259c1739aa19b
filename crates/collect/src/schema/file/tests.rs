use std::os::unix::fs::symlink;

use cannery_runtime::RealDisk;
use cannery_testkit::sim_disk::SimDisk;
use tempfile::TempDir;

use super::*;

const SCHEMA: &[u8] = br#"[{"name":"a","type":"INT64"}]"#;

fn foo1() -> Datatype {
    Datatype::new("foo1").unwrap()
}

/// A home whose schema file of `foo1` holds `text`.
fn home_with(text: &[u8]) -> (TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let path = SchemaFile::default_path(home.path(), &foo1());
    create_dir_all(&RealDisk, path.parent().unwrap()).unwrap();
    write_durably(&RealDisk, &path, text).unwrap();
    (home, path)
}

fn message(path: &Path) -> String {
    let error = SchemaFile::read(&RealDisk, &foo1(), path).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains(&format!("`{}`", path.display())),
        "{message}"
    );
    assert!(message.contains("datatype `foo1`"), "{message}");
    message
}

#[test]
fn a_schema_file_becomes_a_table() {
    let (home, path) = home_with(SCHEMA);
    assert_eq!(path, home.path().join("datatypes/foo1.json"));
    let file = SchemaFile::read(&RealDisk, &foo1(), &path).unwrap();
    assert_eq!(file.fields(), parse_datatype(SCHEMA).unwrap());
    assert_eq!(file.path(), path);
    assert_eq!(file.table(true), TableSchema::of(file.fields(), true));
}

#[test]
fn a_missing_file_says_where_it_was_looked_for_and_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let message = message(&SchemaFile::default_path(home.path(), &foo1()));
    assert!(message.contains("/datatypes/foo1.json"), "{message}");
    assert!(message.contains("`--datatype-file foo1:PATH`"), "{message}");
}

#[test]
fn a_link_to_nowhere_is_a_missing_file() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("foo1.json");
    symlink("nowhere", &path).unwrap();
    assert!(message(&path).contains("has no schema"));
}

#[test]
fn a_link_to_a_file_is_followed() {
    let (home, path) = home_with(SCHEMA);
    let link = home.path().join("link.json");
    symlink(&path, &link).unwrap();
    let file = SchemaFile::read(&RealDisk, &foo1(), &link).unwrap();
    assert_eq!(file.path(), link, "messages name what was asked for");
    assert_eq!(file.fields().len(), 1);
}

#[test]
fn a_wrong_field_is_named_at_every_depth() {
    let (_home, path) =
        home_with(br#"[{"name":"r","type":"RECORD","fields":[{"name":"x","type":"INT65"}]}]"#);
    let message = message(&path);
    assert!(message.contains("field `raw.r.x`"), "{message}");
    assert!(message.contains("INT65"), "{message}");
}

#[test]
fn what_is_no_json_is_refused() {
    let (_home, path) = home_with(b"");
    assert!(message(&path).contains("it is not JSON"));
}

#[test]
fn a_file_that_is_too_long_is_not_read() {
    let mut text = SCHEMA.to_vec();
    text.resize(usize::try_from(DATATYPE_BYTES_MAX).unwrap(), b' ');
    let (_home, path) = home_with(&text);
    assert!(SchemaFile::read(&RealDisk, &foo1(), &path).is_ok());
    text.push(b' ');
    write_durably(&RealDisk, &path, &text).unwrap();
    assert!(message(&path).contains("longer than 1048576 bytes"));
}

#[test]
fn neither_a_folder_nor_a_pipe_is_read() {
    let home = tempfile::tempdir().unwrap();
    assert!(message(home.path()).contains("not a regular file"));
    let pipe = home.path().join("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    assert!(message(&pipe).contains("not a regular file"));
}

#[test]
fn the_local_table_schema_is_the_same_bytes_as_the_object() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("not/there/yet");
    let table = TableSchema::of(&parse_datatype(SCHEMA).unwrap(), false);
    for _ in 0..2 {
        let path = write_local(&RealDisk, &below, &foo1(), &table).unwrap();
        assert_eq!(path, below.join("foo1-table.json"));
        assert_eq!(read(&RealDisk, &path, 10_000).unwrap(), table.to_bytes());
    }
    assert_eq!(RealDisk.read_dir(&below).unwrap().len(), 1);
}

#[test]
fn the_table_of_the_indexes_lies_beside_those_of_the_datatypes() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_local_index(&RealDisk, folder.path()).unwrap();
    assert_eq!(path, folder.path().join("index1-table.json"));
    let text = read(&RealDisk, &path, 10_000).unwrap();
    assert_eq!(TableSchema::parse(&text).unwrap(), TableSchema::index1());
    assert!(
        Datatype::new("index1").is_err(),
        "no datatype takes its place"
    );
}

#[test]
fn a_power_cut_leaves_the_old_table_schema_or_the_new_one() {
    let table = |text: &[u8]| TableSchema::of(&parse_datatype(text).unwrap(), false);
    let (old, new) = (table(SCHEMA), table(br#"[{"name":"b","type":"DATE"}]"#));
    let folder = Path::new("/out");
    let disk_with_old = |seed| {
        let disk = SimDisk::new(seed);
        let path = write_local(&disk, folder, &foo1(), &old).unwrap();
        (disk, path)
    };
    let (disk, path) = disk_with_old(0);
    let first = disk.operations() + 1;
    write_local(&disk, folder, &foo1(), &new).unwrap();
    let last = disk.operations();
    let survived = read(&disk.crash(), &path, 10_000).unwrap();
    assert_eq!(survived, new.to_bytes());
    for n in first..=last {
        let (disk, path) = disk_with_old(n);
        disk.power_off_at(n);
        write_local(&disk, folder, &foo1(), &new).unwrap_err();
        let survived = read(&disk.crash(), &path, 10_000).unwrap();
        let whole = [old.to_bytes(), new.to_bytes()].contains(&survived);
        assert!(whole, "power off at {n}: {:?}", disk.log());
    }
}

#[test]
fn a_table_schema_that_cannot_be_written_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("taken");
    write_durably(&RealDisk, &taken, b"").unwrap();
    let table = TableSchema::of(&parse_datatype(SCHEMA).unwrap(), false);
    let error = write_local(&RealDisk, &taken, &foo1(), &table).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("taken/foo1-table.json`"), "{message}");
}
