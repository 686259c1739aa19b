"""Shows that feed_audit.py passes good lakes and finds each violation. Run: python3 -m unittest -v test_feed_audit"""

import base64
import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import shutil
import sys
import tarfile
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import feed_audit  # noqa: E402

FEED, HOUR, FOLDER = "f1", "20261115T18Z", "f1/2026/11/15/18"
BEGIN = 1794765600
PACKERS = {"gz": lambda data: gzip.compress(data, mtime=0), "xz": lzma.compress, "bz2": bz2.compress}


def short(data):
    return base64.b32encode(hashlib.sha256(data).digest()).decode().lower()[:26]


def download(body, second=3, millis=850):
    return "%s_20261115T1800%02d.%03dZ_%s.json" % (FEED, second, millis, short(body))


def coverage(replica="r1", offset=3850, state="stored", hour=HOUR):
    spans = [{"offset_ms": offset, "period_ms": 1000, "runs": [{"state": state, "count": 1}]}]
    content = json.dumps({"format": 1, "feed": FEED, "hour": hour, "replica": replica, "spans": spans}).encode()
    return ".coverage/%s-%s.json" % (replica, short(content)), content


class Member:
    """One member of an archive; its fields can be made wrong."""

    def __init__(self, name, content, path=None, mtime=None):
        self.name, self.content, self.path = name, content, path or name
        self.mtime = mtime
        if mtime is None:
            found = feed_audit.download_time(FEED, name)
            self.mtime = found[0] // 1000 if found else BEGIN
        self.mode = 0o644

    def order(self):
        return self.name.encode(), len(self.content), hashlib.sha256(self.content).hexdigest()


def manifest_of(members, **other):
    entries = []
    for member in members:
        entry = {"name": member.name, "size": len(member.content), "sha256": member.order()[2]}
        if member.path != member.name:
            entry["path"] = member.path
        entries.append(entry)
    manifest = dict({"format": 1, "feed": FEED, "hour": HOUR, "entries": entries}, **other)
    return Member(".manifest.json", json.dumps(manifest).encode(), mtime=BEGIN)


def tar_of(members):
    out = io.BytesIO()
    for member in members:
        info = tarfile.TarInfo(member.path)
        info.size, info.mtime, info.mode = len(member.content), member.mtime, member.mode
        out.write(info.tobuf(tarfile.USTAR_FORMAT))
        out.write(member.content + bytes(-len(member.content) % 512))
    return out.getvalue() + bytes(1024)


def set_hash(members):
    lines = "".join("%s %d %s\n" % (member.order()[2], len(member.content), member.name) for member in members)
    return short(lines.encode())


class Case(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        self.body, self.other = b"one", b"another"
        self.members = [Member(*coverage()), Member(download(self.body), self.body)]
        self.ledger = [self.line(self.body)]
        for lake in ("hashed", "primary"):
            os.makedirs(os.path.join(self.root, lake, FOLDER))

    def line(self, body, **other):
        line = {"feed": FEED, "hour": HOUR, "name": download(body), "sha256": hashlib.sha256(body).hexdigest(),
                "size": len(body), "replicas": ["r1"]}
        return dict(line, **other)

    def put(self, key, content):
        path = os.path.join(self.root, key)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(content)

    def put_hour(self, members=None, ending="gz", manifest=None, named=None, lakes=("hashed", "primary")):
        members = sorted(self.members if members is None else members, key=Member.order)
        tar = tar_of([manifest or manifest_of(members)] + members)
        stem = "%s/%s_%s" % (FOLDER, FEED, HOUR)
        if "hashed" in lakes:
            self.put("hashed/%s_%s.tar.%s" % (stem, named or set_hash(members), ending), PACKERS[ending](tar))
        if "primary" in lakes:
            self.put("primary/%s.tar.gz" % stem, PACKERS["gz"](tar))

    def run_audit(self, *more, lakes=("hashed", "primary")):
        with open(os.path.join(self.root, "ledger"), "w") as stream:
            stream.writelines(json.dumps(line) + "\n" for line in self.ledger)
        arguments = ["--ledger", os.path.join(self.root, "ledger"), "--json", *more]
        for lake in lakes:
            folder = "primary" if lake == "projected" else lake
            arguments += ["--lake", "%s=%s" % (lake, os.path.join(self.root, folder))]
        out = io.StringIO()
        with redirect_stdout(out):
            code = feed_audit.main(arguments)
        report = json.loads(out.getvalue())
        self.assertEqual(code, 1 if report["findings"] else 0)
        return {check["name"] for check in report["checks"] if check["count"]}

    def expect(self, *checks, more=(), lakes=("hashed", "primary")):
        self.assertEqual(self.run_audit(*more, lakes=lakes), set(checks))


class Good(Case):
    def test_an_hour_in_every_codec(self):
        for ending in PACKERS:
            with self.subTest(ending):
                shutil.rmtree(os.path.join(self.root, "hashed"))
                self.put_hour(ending=ending)
                self.expect(more=["--only-known"])

    def test_twins_have_two_paths(self):
        twin = Member("twin", b"other", path="twin.~" + short(b"other"))
        self.put_hour(self.members + [Member("twin", b"one"), twin])
        self.expect("download_names")

    def test_the_lakes_own_objects_and_an_hour_that_is_not_over(self):
        self.put_hour()
        for key in ("hashed/cannery.json", "hashed/.cannery/probe/x", "primary/.store/lock/01"):
            self.put(key, b"")
        self.put("hashed/f1/2026/11/15/19/f1_20261115T19Z_%s.tar.gz" % ("a" * 26), b"")
        self.expect(more=["--except-hour", "20261115T19Z"])

    def test_what_is_not_required_may_be_missing_and_a_name_may_be_unknown(self):
        self.put_hour()
        self.ledger.append(self.line(self.other, required=False, replicas=[]))
        self.ledger.append(self.line(self.body, name=None))
        self.expect(more=["--only-known"])

    def test_the_union_of_an_hour_that_is_not_merged(self):
        self.put_hour()
        self.put_hour([Member(*coverage("r2")), Member(download(self.other), self.other)], lakes=["hashed"])
        self.ledger.append(self.line(self.other, replicas=["r2"]))
        self.expect(more=["--unmerged"], lakes=["hashed"])

    def test_a_projection(self):
        self.put_hour()
        name = "%s_%s_%s.tar.gz" % (FEED, HOUR, set_hash(self.members))
        shutil.copy(os.path.join(self.root, "hashed", FOLDER, name), os.path.join(self.root, "primary", FOLDER, name))
        self.expect(lakes=["projected"])


class Bad(Case):
    def test_nothing_is_there(self):
        self.expect("one_archive", "lost", "coverage_missing")

    def test_a_body_is_lost(self):
        self.put_hour()
        self.ledger.append(self.line(self.other))
        self.expect("lost")

    def test_a_body_that_was_only_seen_is_lost(self):
        self.put_hour()
        self.ledger.append(self.line(self.other, name=None, replicas=[]))
        self.expect("lost")

    def test_a_body_under_another_time_is_lost(self):
        self.put_hour()
        self.ledger[0]["name"] = download(self.body, second=4)
        self.expect("lost")

    def test_two_archives(self):
        self.put_hour()
        self.put_hour([Member(*coverage("r2"))], lakes=["hashed"])
        self.expect("one_archive")

    def test_a_secondary_beside_the_primary(self):
        self.put_hour()
        os.rename(os.path.join(self.root, "hashed"), os.path.join(self.root, "hashed2"))
        os.makedirs(os.path.join(self.root, "hashed"))
        shutil.copytree(os.path.join(self.root, "hashed2"), os.path.join(self.root, "primary"), dirs_exist_ok=True)
        self.expect("one_archive", lakes=["primary"])

    def test_a_projection_that_is_no_copy(self):
        self.put_hour()
        more = self.members + [Member(download(self.other), self.other)]
        shutil.rmtree(os.path.join(self.root, "hashed"))
        self.put_hour(more, lakes=["hashed"])
        shutil.copytree(os.path.join(self.root, "hashed"), os.path.join(self.root, "primary"), dirs_exist_ok=True)
        self.expect("one_archive", lakes=["projected"])

    def test_names(self):
        self.put_hour()
        for key in ("notes.txt", FOLDER + "/notes.txt", FOLDER + "/f1_20261115T17Z.tar.gz", FOLDER + "/f1_20261115T18Z.tar.xz"):
            with self.subTest(key):
                self.put("hashed/" + key, b"")
                self.expect("object_names")
                os.remove(os.path.join(self.root, "hashed", key))

    def test_a_tombstone(self):
        self.put_hour()
        self.put("hashed/%s/.deleted.json" % FOLDER, b"{}")
        self.expect("deleted")

    def test_a_name_that_is_not_the_content(self):
        self.put_hour(named="a" * 26)
        self.expect("set_hash")

    def test_damaged_streams(self):
        key = "hashed/%s/%s_%s_%s.tar.gz" % (FOLDER, FEED, HOUR, set_hash(self.members))
        self.put_hour()
        with open(os.path.join(self.root, key), "rb") as stream:
            good = stream.read()
        for bad in (good[:-9], good + b"x", good + good, b"\x28\xb5\x2f\xfd" + good, good[:40] + bytes(4) + good[44:], b""):
            self.put(key, bad)
            self.assertIn("compression", self.run_audit(lakes=["hashed"]))

    def test_tars(self):
        def packed(change):
            tar = bytearray(tar_of([manifest_of(self.members)] + self.members))
            self.put("primary/%s/%s_%s.tar.gz" % (FOLDER, FEED, HOUR), PACKERS["gz"](bytes(change(tar))))
            return self.run_audit(lakes=["primary"])
        self.assertEqual(packed(lambda tar: tar), set())
        self.assertEqual(packed(lambda tar: tar + bytes(512)), {"tar"})
        self.assertEqual(packed(lambda tar: tar[:-512]), {"tar"})
        self.assertIn("tar", packed(lambda tar: tar[:700]))
        self.assertIn("tar", packed(lambda tar: tar[:100] + b"7" + tar[101:]))
        self.members[1].mode = 0o600
        self.assertEqual(packed(lambda tar: tar), {"tar"})

    def test_a_path_twice(self):
        twice = Member(self.members[1].name, b"else", mtime=self.members[1].mtime)
        self.put_hour(self.members + [twice])
        self.assertLessEqual({"member_twice", "manifest", "download_names"}, self.run_audit())

    def test_manifests_that_are_not_true(self):
        members = sorted(self.members, key=Member.order)
        lies = [
            manifest_of(members[:1]),
            manifest_of(members[::-1]),
            manifest_of(members, hour="20261115T17Z"),
            manifest_of(members, feed="f2"),
            manifest_of(members, format=2),
            Member(".manifest.json", b"{", mtime=BEGIN),
            Member("manifest.json", b"{}", mtime=BEGIN),
        ]
        for lie in lies:
            self.put_hour(manifest=lie)
            self.assertIn("manifest", self.run_audit())

    def test_names_of_bodies(self):
        for name in (download(self.other), download(self.body).replace("T18", "T19"), "x.json"):
            self.put_hour([self.members[0], Member(name, self.body)], lakes=["primary"])
            self.assertIn("download_names", self.run_audit(lakes=["primary"]))

    def test_times(self):
        self.members[1].mtime += 1
        self.put_hour()
        self.expect("member_time")

    def test_coverage(self):
        body = self.members[1]
        name, content = coverage()
        for wrong in ((name, b"{}"), (name.replace("r1-", "r9-"), content), (name, content + b" "), coverage(hour="20261115T17Z")):
            self.put_hour([Member(*wrong), body], lakes=["primary"])
            self.assertIn("coverage", self.run_audit(lakes=["primary"]))
        self.put_hour([Member(*coverage("r2")), body], lakes=["primary"])
        self.expect("coverage_missing", lakes=["primary"])
        for wrong in (coverage(state="not_collected"), coverage(offset=9000)):
            self.put_hour([Member(*wrong), body], lakes=["primary"])
            self.expect("uncovered", lakes=["primary"])

    def test_a_body_that_nobody_knows(self):
        self.put_hour(self.members + [Member(download(self.other, second=9), self.other)])
        self.expect("unknown", more=["--only-known"])


class Usage(Case):
    def test_what_cannot_be_audited(self):
        with redirect_stderr(io.StringIO()):
            for line in ("x", "[]", "{}", json.dumps(self.line(self.body, hour="18")), json.dumps(self.line(self.body, sha256="0"))):
                self.put("ledger", line.encode())
                arguments = ["--ledger", os.path.join(self.root, "ledger"), "--lake", "hashed=" + os.path.join(self.root, "hashed")]
                self.assertEqual(feed_audit.main(arguments), 2)
            self.assertEqual(feed_audit.main(["--ledger", os.path.join(self.root, "none"), "--lake", "hashed=" + self.root]), 2)
            for lake in ("hashed", "other=" + self.root, "hashed=" + os.path.join(self.root, "none")):
                with self.assertRaises(SystemExit):
                    feed_audit.main(["--ledger", "x", "--lake", lake])


if __name__ == "__main__":
    unittest.main()
