"""Shows that spool_audit.py passes good lakes and finds each violation. Run: python3 -m unittest -v test_spool_audit"""

import copy
import gzip
import hashlib
import io
import json
import os
import shutil
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import spool_audit  # noqa: E402

COMMIT = "0123456789abcdef0123456789abcdef01234567"
DATE = "2026/11/15"
STAMP = "20261115T182403.850914Z"
ADDED = "2026-11-15T18:24:03.851236Z"
ARCHIVER = [{"mode": "REQUIRED", "name": n, "type": "STRING"} for n in ("Version", "GitCommit", "ArchiveURL", "Filename")]
RAW_FIELDS = [
    {"mode": "REQUIRED", "name": "UUID", "type": "STRING"},
    {"name": "Count", "type": "INTEGER"},
    {"name": "Rate", "type": "FLOAT64"},
    {"name": "Ok", "type": "BOOLEAN"},
    {"name": "At", "type": "TIMESTAMP"},
    {"name": "Day", "type": "DATE"},
    {"mode": "REPEATED", "name": "Tags", "type": "STRING"},
    {"fields": [{"mode": "REQUIRED", "name": "A", "type": "INTEGER"}], "mode": "REPEATED", "name": "Hops", "type": "RECORD"},
]
INDEX_FIELDS = [
    {"name": "Filename", "type": "STRING"},
    {"name": "Size", "type": "INTEGER"},
    {"name": "SHA256", "type": "STRING"},
    {"name": "TimeAdded", "type": "TIMESTAMP"},
]


def sha(data):
    return hashlib.sha256(data).hexdigest()


def schema(raw_fields=RAW_FIELDS, extra=()):
    return [
        {"mode": "REQUIRED", "name": "date", "type": "DATE"},
        {"fields": ARCHIVER, "mode": "REQUIRED", "name": "archiver", "type": "RECORD"},
        {"fields": list(raw_fields), "name": "raw", "type": "RECORD"},
    ] + list(extra)


class World:
    """A lake, a spool and a ledger in a temporary folder; knobs on the way to the objects make them bad."""

    def __init__(self, root):
        self.root = root
        self.lake = os.path.join(root, "lake")
        self.spool = os.path.join(root, "spool")
        self.workspace = os.path.join(root, "workspace")
        self.prefix = "autoload/v1/ndt"
        self.tables = "autoload/v1/tables/ndt"
        for folder in (self.lake, self.spool, self.workspace):
            os.makedirs(folder)
        self.ledger = []

    def put(self, key, data, lake=None):
        path = os.path.join(lake or self.lake, key)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(data)
        return path

    def table(self, tree=None, datatype="foo1", text=None):
        text = json.dumps(tree or schema(), indent=1, sort_keys=True) if text is None else text
        return self.put("%s/%s.table.json" % (self.tables, datatype), text.encode())

    def claim(self, name, content, datatype="foo1", date=DATE, **more):
        line = {"datatype": datatype, "filename": "%s/%s" % (date, name), "sha256": sha(content), "size": len(content), "good": True}
        line.update(more)
        self.ledger.append(line)

    def data_key(self, stamp=STAMP, datatype="foo1", date=DATE, node="mlab1-lga01"):
        return "%s/%s/%s/%s-%s-%s-ndt-data.jsonl.gz" % (self.prefix, datatype, date, stamp, datatype, node)

    def index_key(self, stamp=STAMP, datatype="foo1", date=DATE, node="mlab1-lga01"):
        return "%s/index1/%s/%s-%s-%s-ndt-index1.jsonl.gz" % (self.prefix, date, stamp, datatype, node)

    def head(self, key, name, date=DATE, **change):
        fields = {"date": date.replace("/", "-"), "Version": "cannery@1.2.3", "GitCommit": COMMIT,
                  "ArchiveURL": "gs://bucket/" + key, "Filename": "%s/%s" % (date, name)}
        fields.update(change)
        quoted = {k: json.dumps(v, ensure_ascii=False) for k, v in fields.items()}
        return ('{"date":%(date)s,"archiver":{"Version":%(Version)s,"GitCommit":%(GitCommit)s,"ArchiveURL":%(ArchiveURL)s,'
                '"Filename":%(Filename)s},"raw":' % quoted).encode()

    def data_line(self, name, raw, key=None, **change):
        return self.head(key or self.data_key(), name, **change) + raw + b"}\n"

    def index_line(self, name, content, date=DATE, added=ADDED, **change):
        fields = {"Filename": "%s/%s" % (date, name), "Size": len(content), "SHA256": sha(content), "TimeAdded": added}
        fields.update(change)
        return (json.dumps(fields, separators=(",", ":"), ensure_ascii=False) + "\n").encode()

    def bundle(self, files, data_lines=None, index_lines=None, pack=gzip.compress, **where):
        """files: [(name, content)]; content is single-line and embedded as it is, without its newline."""
        key, date = self.data_key(**where), where.get("date", DATE)
        if data_lines is None:
            data_lines = [self.data_line(name, content.rstrip(b"\n"), key, date=date) for name, content in files]
        if index_lines is None:
            index_lines = [self.index_line(name, content, date) for name, content in files]
        self.put(key, pack(b"".join(data_lines)))
        self.put(self.index_key(**where), pack(b"".join(index_lines)))

    def audit(self, *options, lakes=()):
        path = os.path.join(self.root, "ledger.ndjson")
        with open(path, "w") as stream:
            stream.writelines(json.dumps(line) + "\n" for line in self.ledger)
        arguments = ["--ledger", path, "--lake", self.lake, "--spool", self.spool, "--experiment", "ndt", "--json"]
        for lake in lakes:
            arguments += ["--lake", lake]
        out = io.StringIO()
        with redirect_stdout(out):
            code = spool_audit.main(arguments + list(options))
        report = json.loads(out.getvalue())
        found = {check["name"]: check["count"] for check in report["checks"] if check["count"]}
        assert code == (1 if found else 0), (code, found)
        return found, report


A = b'{"UUID":"a","Count":9007199254740993,"Rate":1e999,"Ok":true,"At":"2026-11-15T18:24:03.123456789Z","Day":"2026-11-15","Tags":["x"],"Hops":[{"A":1}]}'
B = b'{"UUID":"\\u00e9 {\\"raw\\":1}", "Count":1,"Count":2 }\n'


class Case(unittest.TestCase):
    def setUp(self):
        self.world = World(tempfile.mkdtemp(prefix="spool-audit-"))
        self.addCleanup(shutil.rmtree, self.world.root)

    def good(self):
        w = self.world
        w.table()
        w.claim("a.json", A)
        w.claim("b.json", B)
        w.bundle([("a.json", A), ("b.json", B)])
        return w

    def rebundle(self, data_lines=None, index_lines=None, **more):
        """The good world with its one bundle written anew."""
        w = self.good()
        w.bundle([("a.json", A), ("b.json", B)], data_lines, index_lines, **more)
        return w

    def only(self, found, *names):
        self.assertEqual(sorted(found), sorted(names), found)


class GoodLakes(Case):
    def test_plain(self):
        found, report = self.good().audit("--node", "mlab1-lga01", "--expect-drained", "--workspace", self.world.workspace)
        self.only(found)
        self.assertEqual(report["totals"]["data_lines"], 2)
        self.assertTrue(report["clean"])

    def test_several_gzip_members_splitting_lines(self):
        def pack(data):
            return b"".join(gzip.compress(data[i : i + 37]) for i in range(0, len(data), 37))
        found, report = self.rebundle(pack=pack).audit()
        self.only(found)
        self.assertGreater(report["totals"]["gzip_members"], 4)

    def test_line_longer_than_every_buffer(self):
        w = self.good()
        big = b'{"UUID":"' + b"x" * 5_000_000 + b'"}'
        w.claim("big.json", big)
        w.bundle([("big.json", big)], stamp="20261115T190000.000000Z",
                 index_lines=[w.index_line("big.json", big, added="2026-11-15T19:00:00.000000Z")])
        self.only(w.audit()[0])

    def test_multi_line_original_with_raw_sha256(self):
        w = self.good()
        pretty, compact = b'{\n "UUID": "c",\n "Count": 1\n}\n', b'{"UUID":"c","Count":1}'
        w.claim("c.json", pretty, raw_sha256=sha(compact))
        w.bundle([("a.json", A), ("b.json", B), ("c.json", pretty)],
                 [w.data_line("a.json", A), w.data_line("b.json", B[:-1]), w.data_line("c.json", compact)])
        self.only(w.audit()[0])

    def test_multi_line_original_without_proof(self):
        w = self.good()
        pretty, compact = b'{\n "UUID": "c"\n}\n', b'{"UUID":"c"}'
        w.bundle([("a.json", A), ("b.json", B), ("c.json", pretty)],
                 [w.data_line("a.json", A), w.data_line("b.json", B[:-1]), w.data_line("c.json", compact)])
        w.claim("c.json", pretty)
        self.only(w.audit()[0], "raw_unproved")
        w.ledger[-1]["single_line"] = False
        self.only(w.audit()[0])
        w.ledger[-1]["single_line"] = True
        self.only(w.audit()[0], "raw_bytes")

    def test_organization_in_v2(self):
        w = self.world
        w.prefix, w.tables = "autoload/v2/acme/ndt", "autoload/v2/tables/ndt"
        self.good()
        self.only(w.audit("--object-home", "autoload/v2", "--organization", "acme")[0])

    def test_id_column_in_every_place(self):
        w = self.world
        w.claim("a.json", A)
        w.table(schema(extra=[{"name": "id", "type": "STRING"}]))
        plain = w.data_line("a.json", A)
        lines = {
            "first": plain.replace(b'{"date"', b'{"id":"a","date"', 1),
            "after date": plain.replace(b'"archiver"', b'"id":"a","archiver"', 1),
            "before raw": plain.replace(b'"raw":', b'"id":"a","raw":', 1),
            "last": plain[:-2] + b',"id":"a"}\n',
        }
        for place, line in lines.items():
            w.bundle([("a.json", A)], [line])
            found, report = w.audit("--id-column")
            self.only(found)
            self.assertEqual(report["information"]["id_position"], {place: 1})
            self.only(w.audit()[0], "id_column", "table_schema")
        w.bundle([("a.json", A)], [plain])
        self.only(w.audit("--id-column")[0], "id_column")

    def index_loadable(self, table=True):
        w = self.good()
        lines = [w.data_line(n, w.index_line(n, c)[:-1], w.index_key()) for n, c in (("a.json", A), ("b.json", B))]
        w.bundle([("a.json", A), ("b.json", B)], index_lines=lines)
        if table:
            w.table(schema(INDEX_FIELDS), "index1")
        return w

    def test_index_loadable(self):
        w = self.index_loadable()
        self.only(w.audit("--index-loadable")[0])
        self.only(w.audit()[0], "index_shape", "table_schema")

    def test_index_loadable_without_table_or_wrapping(self):
        self.only(self.index_loadable(table=False).audit("--index-loadable")[0], "table_schema")

    def test_bare_index_with_index_loadable(self):
        w = self.good()
        w.table(schema(INDEX_FIELDS), "index1")
        self.only(w.audit("--index-loadable")[0], "index_shape")

    def test_rewritten_file(self):
        w = self.good()
        one, two, three = (b'{"UUID":"%d"}' % n for n in (1, 2, 3))
        w.claim("r.json", one)
        w.claim("r.json", two)
        w.claim("r.json", three, must_ship=True)
        added = "2026-11-15T19:00:01.000000Z"
        w.bundle([("r.json", one)], stamp="20261115T190000.000000Z", index_lines=[w.index_line("r.json", one, added=added)])
        w.bundle([("r.json", three)], stamp="20261115T190001.000000Z", index_lines=[w.index_line("r.json", three, added=added)])
        self.only(w.audit()[0])
        w.ledger[-2]["must_ship"] = True
        found, report = w.audit()
        self.only(found, "missing", "lost")
        self.assertEqual(found["missing"], 1)

    def test_two_nodes_two_datatypes_two_dates(self):
        w = self.good()
        w.table(datatype="bar1")
        w.claim("a.json", A, datatype="bar1", date="2026/11/14")
        w.bundle([("a.json", A)], datatype="bar1", date="2026/11/14", node="mlab2-lga01")
        self.only(w.audit()[0])
        self.only(w.audit("--node", "mlab1-lga01", "--node", "mlab2-lga01")[0])
        self.only(w.audit("--node", "mlab1-lga01")[0], "object_names", "missing", "lost")

    def test_text_report(self):
        w = self.good()
        w.audit()
        out = io.StringIO()
        with redirect_stdout(out):
            code = spool_audit.main(["--ledger", os.path.join(w.root, "ledger.ndjson"), "--lake", w.lake, "--spool", w.spool,
                                     "--experiment", "ndt"])
        self.assertEqual((code, out.getvalue().rstrip().splitlines()[-1]), (0, "CLEAN"))


class Names(Case):
    def rename(self, old, new):
        w = self.good()
        path = os.path.join(w.lake, new)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.rename(os.path.join(w.lake, old), path)
        return w.audit()[0]

    def test_wrong_names(self):
        key = self.world.data_key()
        for old, new in [
            (".850914Z", ".850Z"), (".850914Z", "Z"), ("20261115T18", "20261315T18"), ("mlab1-lga01", "mlab1"),
            ("-ndt-data", "-nd7-data"), ("-ndt-data", "-ndt"), (".jsonl.gz", ".jsonl"), ("-foo1-mlab1", "-bar1-mlab1"),
            ("/2026/11/15/", "/2026/11/31/"), ("/2026/11/15/", "/2026/11/"), ("/foo1/", "/Foo1/"), ("/foo1/", "/index1/"),
        ]:
            with self.subTest(new=new):
                found = self.rename(key, key.replace(old, new, 1))
                self.assertIn("object_names", found)
                self.assertIn("index_pairs", found)
                shutil.rmtree(self.world.lake)
                self.world.ledger = []

    def test_stray_objects(self):
        w = self.good()
        w.put("autoload/v1/ndt/foo1/2026/11/15/notes.txt", b"x")
        w.put("autoload/v1/ndt/foo1/2026/11/15/.tmp", b"x")
        w.put("autoload/v1/ndt/foo1/README", b"x")
        w.put("autoload/v1/tables/ndt/foo1-table.json", b"[]")
        w.put("autoload/v1/other/foo1/2026/11/15/notes.txt", b"another experiment is none of our business")
        found, _ = w.audit()
        self.assertEqual(found, {"object_names": 4})

    def test_symlink_as_object(self):
        w = self.good()
        path = os.path.join(w.lake, w.data_key())
        os.rename(path, path + ".real")
        os.symlink(path + ".real", path)
        self.assertEqual(w.audit()[0]["object_names"], 2)


class Objects(Case):
    def change(self, key, function):
        w = self.good()
        path = os.path.join(w.lake, key)
        with open(path, "rb") as stream:
            data = stream.read()
        with open(path, "wb") as stream:
            stream.write(function(data))
        return w.audit()[0]

    def test_damaged_gzip(self):
        for name, function in [
            ("truncated", lambda d: d[:-3]), ("half", lambda d: d[: len(d) // 2]), ("trailing", lambda d: d + b"junk"),
            ("padding", lambda d: d + b"\0" * 9), ("crc", lambda d: d[:-8] + b"\0\0\0\0" + d[-4:]), ("empty", lambda d: b""),
            ("plain", gzip.decompress), ("second member cut", lambda d: d + gzip.compress(b"x")[:-5]),
        ]:
            with self.subTest(name):
                self.assertEqual(self.change(self.world.data_key(), function)["gzip"], 1)
                self.world.ledger = []

    def test_blank_line_and_missing_newline(self):
        self.only(self.change(self.world.data_key(), lambda d: gzip.compress(gzip.decompress(d) + b"\n")), "jsonl_lines")
        self.world.ledger = []
        self.only(self.change(self.world.index_key(), lambda d: gzip.compress(gzip.decompress(d)[:-1])), "jsonl_lines")

    def test_empty_bundle(self):
        w = self.good()
        w.bundle([], stamp="20261115T190000.000000Z")
        self.assertEqual(w.audit()[0], {"empty_bundles": 2})

    def test_data_without_index(self):
        w = self.good()
        os.remove(os.path.join(w.lake, w.index_key()))
        self.assertEqual(w.audit()[0], {"index_pairs": 1, "missing": 2})

    def test_index_without_data(self):
        w = self.good()
        os.remove(os.path.join(w.lake, w.data_key()))
        self.assertEqual(w.audit()[0], {"index_pairs": 1, "missing": 2, "lost": 2})


class DataLines(Case):
    def with_first_line(self, line):
        w = self.rebundle([line, self.world.data_line("b.json", B[:-1])])
        found = w.audit()[0]
        w.ledger = []
        return found

    def test_shape(self):
        plain = self.world.data_line("a.json", A)
        tree = json.loads(plain)
        for name, line in {
            "spaces": json.dumps(tree).encode() + b"\n",
            "key order": json.dumps({k: tree[k] for k in ("archiver", "date", "raw")}, separators=(",", ":")).encode() + b"\n",
            "archiver order": plain.replace(b'"Version":"cannery@1.2.3",', b"").replace(b'"},"raw"', b'","Version":"cannery@1.2.3"},"raw"'),
            "extra key": plain[:-2] + b',"parser":{}}\n',
            "raw twice": plain[:-2] + b',"raw":{}}\n',
            "extra archiver key": plain.replace(b'"},"raw"', b'","Node":"x"},"raw"'),
            "missing key": plain.replace(b'"GitCommit":"%s",' % COMMIT.encode(), b""),
            "number as Version": plain.replace(b'"cannery@1.2.3"', b"1"),
        }.items():
            with self.subTest(name):
                self.only(self.with_first_line(line), "data_shape")

    def test_line_that_is_not_json(self):
        self.assertIn("data_shape", self.with_first_line(b"hello\n"))

    def test_date(self):
        for date in ("2026/11/15", "2026-11-16", "20261115"):
            with self.subTest(date):
                line = self.world.data_line("a.json", A).replace(b'"date":"2026-11-15"', b'"date":"%s"' % date.encode())
                self.only(self.with_first_line(line), "date_folder")

    def test_filename(self):
        for name in ("2026/11/14/a.json", "a.json", "2026/11/15/x/a.json", "2026/11/15/..", "2026/11/15/a\n.json",
                     "2026/11/15/" + "a" * 256):
            with self.subTest(name):
                found = self.with_first_line(self.world.data_line("a.json", A, Filename=name))
                self.assertEqual(found["filename_folder"], 1)
                self.assertEqual(found["foreign"], 1)
                self.assertEqual(found["missing"], 1)

    def test_archive_url(self):
        key = self.world.data_key()
        for url in ("gs://bucket/x" + key, "http://bucket/" + key, "gs://bucket/" + key[:-3], self.world.index_key(), "s3://b/" + key):
            with self.subTest(url):  # the last is fine by itself, but not what the other line says
                self.only(self.with_first_line(self.world.data_line("a.json", A, ArchiveURL=url)), "archive_url")

    def test_other_url_schemes(self):
        key = self.world.data_key()
        for root in ("s3://bucket/deep/", "file:///lake/", "file:/lake/"):
            lines = [self.world.data_line(n, c, ArchiveURL=root + key) for n, c in (("a.json", A), ("b.json", B[:-1]))]
            self.only(self.rebundle(lines).audit()[0])
            self.world.ledger = []

    def test_commit_and_version(self):
        for commit in (COMMIT[:7], COMMIT.upper(), "unknown", ""):
            self.only(self.with_first_line(self.world.data_line("a.json", A, GitCommit=commit)), "git_commit")
        for version in ("1.2.3", "cannery@1.2", "cannery@v1.2.3", "jostler@0.1.7", "cannery@1.2.3-", "cannery@01.2.3"):
            self.only(self.with_first_line(self.world.data_line("a.json", A, Version=version)), "version")
        for version in ("cannery@0.1.0-rc.1+build.5",):
            self.only(self.with_first_line(self.world.data_line("a.json", A, Version=version)))

    def test_raw_is_not_json(self):
        for raw in (b'{"UUID":"a"', b'{"UUID":"a","Rate":NaN}', b'{"UUID":"\xff"}', b"{'UUID':1}", b'{"UUID":"a\tb"}', b'{"UUID":"a"} {}',
                    b"", b'{"Count":01}'):
            with self.subTest(raw):
                self.assertEqual(self.with_first_line(self.world.data_line("a.json", raw))["raw_json"], 1)

    def test_raw_bytes_changed(self):
        for name, raw in {
            "rounded number": A.replace(b"9007199254740993", b"9007199254740992"),
            "respelled number": A.replace(b"1e999", b"1E999"),
            "longer": A.replace(b'"x"', b'"x" '),
        }.items():
            with self.subTest(name):
                self.only(self.with_first_line(self.world.data_line("a.json", raw)), "raw_bytes")
        self.only(self.with_first_line(self.world.data_line("a.json", A.replace(b',"Rate":1e999', b""))), "raw_unproved")

    def test_dropped_duplicate_key(self):
        w = self.rebundle([self.world.data_line("a.json", A), self.world.data_line("b.json", B[:-1].replace(b'"Count":1,', b""))])
        self.only(w.audit()[0], "raw_unproved")


class IndexLines(Case):
    def with_first_line(self, *lines):
        w = self.rebundle(None, list(lines) + [self.world.index_line("b.json", B)])
        found = w.audit()[0]
        w.ledger = []
        return found

    def test_shape(self):
        plain = self.world.index_line("a.json", A)
        tree = json.loads(plain)
        for name, line in {
            "spaces": json.dumps(tree).encode() + b"\n",
            "order": json.dumps(dict(reversed(tree.items())), separators=(",", ":")).encode() + b"\n",
            "upper case hash": plain.replace(sha(A).encode(), sha(A).upper().encode()),
            "size as string": plain.replace(b'"Size":%d' % len(A), b'"Size":"%d"' % len(A)),
            "extra key": plain[:-2] + b',"Node":"x"}\n',
        }.items():
            with self.subTest(name):
                self.only(self.with_first_line(line), "index_shape")

    def test_size_and_hash(self):
        self.only(self.with_first_line(self.world.index_line("a.json", A, Size=1)), "index_ledger")
        self.only(self.with_first_line(self.world.index_line("a.json", A, SHA256=sha(b"x"))), "index_ledger")

    def test_time_added(self):
        for text in ("2026-11-15T18:24:03.850913Z", "2026-11-15T18:24:03Z", "2026-11-15T18:24:03.851236+00:00",
                     "2026-11-15 18:24:03.851236Z", "2026-13-15T18:24:03.851236Z", "2026-11-15T18:24:03.851236123Z"):
            with self.subTest(text):
                self.only(self.with_first_line(self.world.index_line("a.json", A, added=text)), "time_added")
        self.only(self.with_first_line(self.world.index_line("a.json", A, added="2026-11-15T18:24:03.850914Z")))

    def test_order(self):
        lines = [self.world.index_line("b.json", B), self.world.index_line("a.json", A)]
        self.only(self.rebundle(None, lines).audit()[0], "index_lines")

    def test_number_of_lines(self):
        self.only(self.with_first_line(), "index_lines", "missing")
        line = self.world.index_line("a.json", A)
        self.only(self.with_first_line(line, line), "index_lines", "doubled")


class Ledger(Case):
    def test_missing_and_lost(self):
        w = self.good()
        w.claim("c.json", b'{"UUID":"c"}')
        found, report = w.audit()
        self.assertEqual(found, {"missing": 1, "lost": 1})

    def test_missing_but_still_in_the_spool(self):
        w = self.good()
        w.claim("c.json", b'{"UUID":"c"}')
        w.put("ndt/foo1/2026/11/15/c.json", b'{"UUID":"c"}', w.spool)
        self.assertEqual(w.audit()[0], {"missing": 1})
        w.put("ndt/foo1/2026/11/15/c.json", b'{"UUID":"other"}', w.spool)
        self.assertEqual(w.audit()[0], {"missing": 1, "lost": 1})
        w.put("ndt/foo1/.sent/1/c.json", b'{"UUID":"c"}', w.spool)
        self.assertEqual(w.audit()[0], {"missing": 1})

    def test_doubled_across_bundles_and_within_one(self):
        w = self.good()
        w.bundle([("a.json", A)], stamp="20261115T182403.850915Z")
        self.assertEqual(w.audit()[0], {"doubled": 1})
        w.bundle([("a.json", A), ("b.json", B), ("b.json", B)])
        self.assertEqual(w.audit()[0], {"doubled": 2})

    def test_foreign(self):
        w = self.good()
        w.bundle([("z.json", A)], stamp="20261115T182403.850915Z")
        self.assertEqual(w.audit()[0], {"foreign": 1})

    def test_wrong_datatype(self):
        w = self.good()
        w.table(datatype="bar1")
        w.claim("c.json", A)
        w.bundle([("c.json", A)], datatype="bar1")
        self.only(w.audit()[0], "foreign", "missing", "lost")

    def test_bad_file_in_lake(self):
        w = self.good()
        w.claim("bad.json", A, good=False)
        self.only(w.audit()[0])
        w.bundle([("bad.json", A)], stamp="20261115T182403.850915Z")
        self.assertEqual(w.audit()[0], {"bad_in_lake": 1})

    def test_bad_file_only_in_index(self):
        w = self.good()
        w.ledger.append({"datatype": "foo1", "filename": DATE + "/link.json", "sha256": None, "size": None, "good": False})
        w.bundle([("a.json", A), ("b.json", B)],
                 index_lines=[w.index_line("a.json", A), w.index_line("b.json", B), w.index_line("link.json", A)])
        self.only(w.audit()[0], "bad_in_lake", "index_lines")

    def test_bad_version_of_a_good_name(self):
        w = self.good()
        w.claim("r.json", b'{"UUID":1}', good=False)
        w.claim("r.json", b'{"UUID":"1"}', must_ship=True)
        w.bundle([("r.json", b'{"UUID":1}')], stamp="20261115T182403.850915Z")
        self.only(w.audit()[0], "bad_in_lake", "row_schema", "missing", "lost")

    def test_version_the_producer_never_wrote(self):
        w = self.good()
        w.claim("r.json", b'{"UUID":"1"}')
        w.claim("r.json", b'{"UUID":"2"}')
        w.bundle([("r.json", b'{"UUID":"3"}')], stamp="20261115T182403.850915Z")
        self.only(w.audit()[0], "foreign", "index_ledger")

    def test_data_of_one_version_index_of_the_other(self):
        w = self.good()
        one, two = b'{"UUID":"1"}', b'{"UUID":"2"}'
        w.claim("r.json", one)
        w.claim("r.json", two)
        w.bundle([("r.json", one)], stamp="20261115T182403.850915Z", index_lines=[w.index_line("r.json", two)])
        self.only(w.audit()[0], "index_ledger", "missing")

    def test_optional_version_twice(self):
        w = self.good()
        one, two = b'{"UUID":"1"}', b'{"UUID":"2"}'
        w.claim("r.json", one)
        w.claim("r.json", two, must_ship=True)
        w.bundle([("r.json", one), ("r.json", two), ("r.json", one)], stamp="20261115T182403.850915Z")
        self.assertEqual(w.audit()[0], {"doubled": 1})


class Tables(Case):
    def found(self, tree=None, text=None):
        w = self.good()
        w.table(tree, text=text)
        found = w.audit()[0]
        w.ledger = []
        return found

    def test_missing(self):
        w = self.good()
        os.remove(os.path.join(w.lake, w.tables, "foo1.table.json"))
        self.only(w.audit()[0], "table_schema")

    def test_format(self):
        text = json.dumps(schema(), indent=1, sort_keys=True)
        self.only(self.found(text=text + "\n"))
        for name, bad in {
            "two spaces": json.dumps(schema(), indent=2, sort_keys=True),
            "compact": json.dumps(schema(), sort_keys=True),
            "unsorted": json.dumps([dict(reversed(sorted(f.items()))) for f in schema()], indent=1),
            "two newlines": text + "\n\n",
        }.items():
            with self.subTest(name):
                self.only(self.found(text=bad), "table_format")
        nullable = schema()
        nullable[2] = dict(nullable[2], mode="NULLABLE")
        self.only(self.found(nullable), "table_format")

    def test_escapes_are_not_layout(self):
        tree = schema(RAW_FIELDS + [{"description": "a<b & ü", "name": "x", "type": "STRING"}])
        for text in (json.dumps(tree, indent=1, sort_keys=True, ensure_ascii=False),
                     json.dumps(tree, indent=1, sort_keys=True).replace("<", "\\u003c")):
            self.only(self.found(text=text))

    def test_invalid_schemas(self):
        def raw_with(field):
            return schema(RAW_FIELDS + [field])
        deep = {"name": "leaf", "type": "STRING"}
        for _ in range(16):
            deep = {"fields": [deep], "name": "r", "type": "RECORD"}
        for name, tree in {
            "unknown type": raw_with({"name": "x", "type": "TEXT"}),
            "unknown mode": raw_with({"mode": "MAYBE", "name": "x", "type": "STRING"}),
            "record without fields": raw_with({"name": "x", "type": "RECORD"}),
            "fields of a string": raw_with({"fields": [{"name": "y", "type": "STRING"}], "name": "x", "type": "STRING"}),
            "invalid name": raw_with({"name": "x-y", "type": "STRING"}),
            "names differ in case": raw_with({"name": "uuid", "type": "STRING"}),
            "unknown key": raw_with({"name": "x", "nullable": True, "type": "STRING"}),
            "too deep": raw_with(deep),
            "reserved name": raw_with({"name": "_TABLE_x", "type": "STRING"}),
            "extra column": schema(extra=[{"name": "parser", "type": "STRING"}]),
        }.items():
            with self.subTest(name):
                self.only(self.found(tree), "table_schema")
        for text in ("{}", "[]", "nonsense", "[NaN]", '[\n {\n  "name": "a",\n  "name": "b"\n }\n]'):
            self.assertIn("table_schema", self.found(text=text))

    def test_standard_columns(self):
        def changed(function):
            tree = copy.deepcopy(schema())
            function(tree)
            return tree
        for name, function in {
            "no date": lambda t: t.pop(0),
            "date nullable": lambda t: t[0].pop("mode"),
            "date as string": lambda t: t[0].update(type="STRING"),
            "no Filename": lambda t: t[1]["fields"].pop(),
            "archiver repeated": lambda t: t[1].update(mode="REPEATED"),
            "extra archiver field": lambda t: t[1]["fields"].append({"name": "x", "type": "STRING"}),
            "raw is JSON": lambda t: (t[2].update(type="JSON"), t[2].pop("fields")),
            "raw repeated": lambda t: t[2].update(mode="REPEATED"),
        }.items():
            with self.subTest(name):
                self.only(self.found(changed(function)), "table_schema")


class Rows(Case):
    def fits(self, field, text):
        notes = []
        compiled = spool_audit.compile_field(
            {"fields": [field], "name": "raw", "type": "RECORD"}, "", 1, self.fail, lambda *a: notes.append(a))
        return spool_audit.row_fault(compiled, spool_audit.parse_verbatim(text.encode()), "raw", lambda *a: notes.append(a)) is None

    def test_types(self):
        table = {
            "STRING": (['"x"', '""', "null"], ["1", "true", "[]", "{}"]),
            "INTEGER": (["1", "-9223372036854775808", "9223372036854775807", "null", '"12"', "1.0"],
                        ["9223372036854775808", "1.5", '"x"', "true", "{}", "1" * 5000]),
            "INT64": (["1"], ['"one"']),
            "FLOAT": (["1", "1.5", "1e999", '"NaN"', '"-Infinity"', "1" * 5000], ['"x"', "true", "[1]"]),
            "BOOLEAN": (["true", "false", '"true"'], ["1", '"yes"', "{}"]),
            "TIMESTAMP": (['"2026-11-15T18:24:03Z"', '"2026-11-15 18:24:03.123456 UTC"', '"2026-11-15T18:24:03.1+02:00"', "1700000000",
                           '"2026-11-15"'], ['"2026-13-15T18:24:03Z"', '"18:24"', '"2026-11-15T25:00:00Z"', "true", '"x"']),
            "DATE": (['"2026-11-15"'], ['"2026/11/15"', '"2026-02-30"', '"2026-11-15T00:00:00Z"', "20261115"]),
            "TIME": (['"18:24:03.5"'], ['"24:00:00"', "1"]),
            "DATETIME": (['"2026-11-15T18:24:03"'], ['"2026-11-15T18:24:03Z"', '"2026-11-15T18:24:03+01:00"', "1"]),
            "NUMERIC": (["1.5", '"1.123456789"', "1e28"], ["1e29", '"1.1234567891"', '"x"', "true", "1e999999999"]),
            "BYTES": (['"aGk="'], ['"***"', "1"]),
            "JSON": (["1", "{}", '[{"a":null}]'], []),
            "GEOGRAPHY": (['"POINT(1 2)"'], ["1"]),
        }
        for kind, (good, bad) in table.items():
            for texts, expected in ((good, True), (bad, False)):
                for text in texts:
                    with self.subTest(kind=kind, text=text[:40]):
                        self.assertEqual(self.fits({"name": "f", "type": kind}, '{"f":%s}' % text), expected)

    def test_modes(self):
        required = {"mode": "REQUIRED", "name": "f", "type": "STRING"}
        repeated = {"mode": "REPEATED", "name": "f", "type": "INTEGER"}
        record = {"fields": [required], "mode": "REPEATED", "name": "r", "type": "STRUCT"}
        for field, text, expected in [
            (required, '{"f":"x"}', True), (required, '{"f":null}', False), (required, "{}", False),
            (repeated, '{"f":[1,2]}', True), (repeated, '{"f":[]}', True), (repeated, "{}", True), (repeated, '{"f":null}', True),
            (repeated, '{"f":1}', False), (repeated, '{"f":[1,null]}', False), (repeated, '{"f":[[1]]}', False),
            (repeated, '{"f":{}}', False), (record, '{"r":[{"f":"x"}]}', True), (record, '{"r":[{}]}', False),
            (record, '{"r":[{"f":"x","g":1}]}', False), (record, '{"r":[1]}', False), (record, "[]", False), (required, '{"F":"x"}', True),
            (required, '{"f":"x","f":1}', False),
        ]:
            with self.subTest(text=text, field=field):
                self.assertEqual(self.fits(field, text), expected)

    def test_row_that_does_not_fit(self):
        w = self.good()
        for number, raw in enumerate([b'{"UUID":"c","Unknown":1}', b"{}", b"[]", b'"x"', b'{"UUID":"c","Hops":[{}]}']):
            w.claim("c%d.json" % number, raw)
            w.bundle([("c%d.json" % number, raw)], stamp="20261115T182400.00000%dZ" % number)
        self.assertEqual(w.audit()[0], {"row_schema": 5})


class Mirrors(Case):
    def test_mirrors(self):
        w = self.good()
        mirror = os.path.join(w.root, "mirror")
        shutil.copytree(w.lake, mirror)
        self.only(w.audit(lakes=[mirror])[0])
        with open(os.path.join(mirror, w.data_key()), "ab") as stream:
            stream.write(gzip.compress(b""))
        os.remove(os.path.join(mirror, w.index_key()))
        w.put(w.prefix + "/extra", b"", mirror)
        os.remove(os.path.join(mirror, w.tables, "foo1.table.json"))
        self.assertEqual(w.audit(lakes=[mirror])[0], {"mirrors": 4})


class Spool(Case):
    def test_files_left(self):
        w = self.good()
        w.put("ndt/foo1/2026/11/15/a.json", A, w.spool)
        w.put("ndt/foo1/stray", b"", w.spool)
        w.put("ndt/foo1/.sent/1/b.json", B, w.spool)
        w.put("ndt/other1/2026/11/15/x.json", A, w.spool)
        w.put("datatypes/foo1.json", b"[]", w.spool)
        self.only(w.audit()[0])
        self.assertEqual(w.audit("--expect-drained")[0], {"drained": 4})

    def test_empty_folders_are_fine_and_filled_bookkeeping_is_not(self):
        w = self.good()
        os.makedirs(os.path.join(w.spool, "ndt/foo1/2026/11/15"))
        os.makedirs(os.path.join(w.spool, "ndt/foo1/.sent"))
        os.makedirs(os.path.join(w.workspace, "outbox"))
        self.only(w.audit("--expect-drained", "--workspace", w.workspace)[0])
        os.makedirs(os.path.join(w.spool, "ndt/foo1/.sent/7"))
        os.makedirs(os.path.join(w.spool, ".sent/8"))
        self.assertEqual(w.audit("--expect-drained")[0], {"drained": 2})

    def test_outbox(self):
        w = self.good()
        w.put("outbox/1/shipped", b"", w.workspace)
        self.only(w.audit("--expect-drained", "--workspace", w.workspace)[0], "outbox")

    def test_quarantine(self):
        w = self.good()
        w.claim("bad.json", b"{", good=False)
        w.put(".quarantine/ndt/bad.json", b"{", w.spool)
        self.only(w.audit()[0], "quarantine_reason")
        w.put(".quarantine/ndt/bad.json.reason", b"invalid-json: unexpected end\n", w.spool)
        self.only(w.audit()[0])
        self.only(w.audit("--quarantine-allowed", "schema_mismatch,invalid_json")[0])
        self.only(w.audit("--quarantine-allowed", "schema_mismatch")[0], "quarantine_reason")
        w.put(".quarantine/ndt/bad.json.reason", b'{"reason":"schema mismatch","detail":"invalid json"}', w.spool)
        self.only(w.audit("--quarantine-allowed", "invalid_json")[0], "quarantine_reason")

    def test_good_file_in_quarantine(self):
        w = self.good()
        w.claim("c.json", b'{"UUID":"c"}')
        w.put(".quarantine/1/c.json", b'{"UUID":"c"}', w.spool)
        w.put(".quarantine/1/reason.json", b'{"reason":"empty"}', w.spool)
        self.only(w.audit()[0], "missing", "quarantined_good")


class Inventory(Case):
    def lines(self, keys, day="2026-11-15", before="0" * 64, **change):
        """Lines as the product writes them, and the digest of the last."""
        text = b""
        for number, key in enumerate(keys):
            try:
                with open(os.path.join(self.world.lake, key), "rb") as stream:
                    content = stream.read()
            except FileNotFoundError:
                content = b""
            line = {"Key": key, "Size": len(content), "SHA256": sha(content),
                    "Confirmed": "%sT18:30:%02d.000000Z" % (day, number), "Prev": before}
            line.update(change)
            line = json.dumps(line, separators=(",", ":")).encode()
            before = sha(line)
            text += line + b"\n"
        return text, before

    def write(self, text, day="2026-11-15", node="mlab1-lga01", lake=None):
        return self.world.put(".cannery/inventory/%s/ndt/%s.jsonl.gz" % (node, day), gzip.compress(text), lake)

    def inventory(self, keys, **more):
        text, last = self.lines(keys, **more)
        self.write(text, more.get("day", "2026-11-15"))
        return last

    def both(self):
        w = self.good()
        return w, [w.data_key(), w.index_key()]

    def test_complete_over_two_days(self):
        w, keys = self.both()
        last = self.inventory(keys[:1])
        self.inventory(keys[1:], day="2026-11-18", before=last)
        for options in ((), ("--inventory",), ("--inventory", "--node", "mlab1-lga01")):
            found, report = w.audit(*options)
            self.only(found)
            self.assertEqual(report["information"]["inventory of mlab1-lga01"], {"days": 2, "lines": 2})

    def test_absent(self):
        w, _ = self.both()
        self.only(w.audit()[0])
        self.assertEqual(w.audit("--inventory")[0], {"inventory": 3})
        # That of another node says nothing of this one.
        self.write(self.lines([w.data_key()])[0], node="mlab2-lga01")
        self.only(w.audit()[0])
        self.assertEqual(w.audit("--inventory")[0], {"inventory": 3})

    def test_object_without_a_line_and_with_two(self):
        w, keys = self.both()
        self.inventory(keys[:1])
        self.assertEqual(w.audit()[0], {"inventory": 1})
        self.only(w.audit("--inventory-partial")[0])
        self.inventory(keys + keys[:1])
        self.assertEqual(w.audit("--inventory-partial")[0], {"inventory": 1})

    def test_listed_object_is_gone(self):
        w, keys = self.both()
        self.inventory(keys + [w.data_key(stamp="20261115T190000.000000Z")])
        self.assertEqual(w.audit()[0], {"inventory_dangling": 1})

    def test_wrong_bytes(self):
        w, keys = self.both()
        self.inventory(keys, Size=7)
        self.assertEqual(w.audit()[0], {"inventory_bytes": 2})
        self.inventory(keys, SHA256=sha(b"else"))
        self.assertEqual(w.audit()[0], {"inventory_bytes": 2})

    def test_chain(self):
        w, keys = self.both()
        good, _ = self.lines(keys)
        first, second = good.splitlines(keepends=True)
        cases = {
            "beginning": (self.lines(keys, before="1" * 64)[0], {"inventory_chain": 1}),
            "first line changed": (first.replace(b"18:30:00", b"18:30:01") + second, {"inventory_chain": 1}),
            "spelled otherwise": (first.replace(b'"Size":', b'"Size": ') + second, {"inventory_chain": 1}),
            "first line removed": (second, {"inventory_chain": 1, "inventory": 1}),
            "moved": (second + first, {"inventory_chain": 2, "inventory_shape": 1}),
        }
        for name, (text, expected) in cases.items():
            with self.subTest(name):
                self.write(text)
                self.assertEqual(w.audit()[0], expected)
        self.inventory(keys[:1])
        self.inventory(keys[1:], day="2026-11-16")
        self.assertEqual(w.audit()[0], {"inventory_chain": 1})

    def test_shape(self):
        w, keys = self.both()
        good, _ = self.lines(keys)
        for name, text in {
            "no end": good[:-1],
            "other day": self.lines(keys[:1], Confirmed="2026-11-16T00:00:00.000000Z")[0] + b"",
            "no microseconds": self.lines(keys[:1], Confirmed="2026-11-15T00:00:00Z")[0],
            "upper case": self.lines(keys[:1], SHA256=sha(b"x").upper())[0],
            "nonsense": b"nonsense\n",
            "list": b"[]\n",
            "size is text": self.lines(keys[:1], Size="7")[0],
            "leads elsewhere": self.lines(keys[:1], Key="../x")[0],
        }.items():
            with self.subTest(name):
                self.write(text)
                self.assertEqual(w.audit()[0].get("inventory_shape"), 1)
        self.write(good)
        w.put(".cannery/inventory/mlab1-lga01/ndt/notes.txt", b"")
        self.assertEqual(w.audit()[0], {"inventory_shape": 1})

    def test_damaged(self):
        w, keys = self.both()
        self.inventory(keys)
        w.put(".cannery/inventory/mlab1-lga01/ndt/2026-11-16.jsonl.gz", gzip.compress(b"")[:-2])
        self.assertEqual(w.audit()[0], {"inventory_shape": 1})

    def test_mirrors(self):
        w, keys = self.both()
        text, last = self.lines(keys)
        self.write(text)
        mirror = os.path.join(w.root, "mirror")
        shutil.copytree(w.lake, mirror)
        # The same lines in other wrapping are the same.
        w.put(".cannery/inventory/mlab1-lga01/ndt/2026-11-15.jsonl.gz", gzip.compress(text, 1), mirror)
        self.only(w.audit(lakes=[mirror])[0])
        self.write(text[: text.index(b"\n") + 1], lake=mirror)
        self.assertEqual(w.audit(lakes=[mirror])[0], {"inventory_mirrors": 1})


class Usage(Case):
    def code(self, *arguments):
        with redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
            try:
                return spool_audit.main(list(arguments))
            except SystemExit as exit:
                return exit.code

    def test_usage(self):
        w = self.good()
        w.audit()
        ledger = os.path.join(w.root, "ledger.ndjson")
        base = ["--lake", w.lake, "--spool", w.spool]
        full = ["--ledger", ledger, "--experiment", "ndt"] + base
        self.assertEqual(self.code(*full), 0)
        self.assertEqual(self.code(), 2)
        self.assertEqual(self.code("--ledger", ledger + ".absent", "--experiment", "ndt", *base), 2)
        self.assertEqual(self.code("--ledger", ledger, "--experiment", "N-D-T", *base), 2)
        self.assertEqual(self.code(*full, "--lake", w.lake + ".absent"), 2)
        self.assertEqual(self.code(*full, "--organization", "acme"), 2)
        self.assertEqual(self.code(*full, "--object-home", "autoload/v2"), 2)
        self.assertEqual(self.code(*full, "--object-home", "autoload/v2", "--organization", "Acme"), 2)

    def test_broken_ledgers(self):
        w = self.good()
        line = w.ledger[0]
        for bad in ("nonsense", "[]", json.dumps(dict(line, sha256="x")), json.dumps(dict(line, size=None)), json.dumps(dict(line, good=1)),
                    json.dumps(dict(line, must_ship="yes")), json.dumps(line) + "\n" + json.dumps(dict(line, good=False))):
            path = w.put("ledger", bad.encode(), w.root)
            self.assertEqual(self.code("--ledger", path, "--experiment", "ndt", "--lake", w.lake, "--spool", w.spool), 2, bad)


class Speed(Case):
    def test_fifty_thousand_files(self):
        w = self.world
        w.table()
        for bundle in range(10):
            files = []
            for number in range(5000):
                content = A.replace(b'"UUID":"a"', b'"UUID":"%d-%d"' % (bundle, number))
                name = "%d-%d.json" % (bundle, number)
                files.append((name, content))
                w.claim(name, content)
            w.bundle(files, stamp="20261115T18230%d.000000Z" % bundle)
        found, report = w.audit()
        self.only(found)
        self.assertEqual(report["totals"]["data_lines"], 50_000)


if __name__ == "__main__":
    unittest.main()
