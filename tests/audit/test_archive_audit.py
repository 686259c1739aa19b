"""Shows that archive_audit.py passes a good bucket and finds each violation. Run: python3 -m unittest -v test_archive_audit"""

import base64
import gzip
import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
import unittest
import zlib
from contextlib import redirect_stdout

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import archive_audit  # noqa: E402
import lz4.frame  # noqa: E402

DATE, GENERATION, FRAME_BYTES, CAN_BYTES = "2017-01-01", "r0123abcd", 200, 3000


def sha1(data):
    return base64.b64encode(hashlib.sha1(data).digest()).decode()


def sums(prefix, data):
    crc = zlib.crc32(data)
    return {f"{prefix}_crc32": crc - (1 << 32) if crc >> 31 else crc, f"{prefix}_sha1": sha1(data), f"{prefix}_size": len(data)}


def frame(text, **other):
    how = dict(compression_level=5, block_linked=False, content_checksum=True, store_size=True)
    return lz4.frame.compress(text, **dict(how, **other))


def index_of(records):
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as file:
        for record in records:
            line = record if isinstance(record, str) else json.dumps(record, sort_keys=True, separators=(",", ":"))
            file.write(line.encode() + b"\n")
    return out.getvalue()


def tar(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, body in members:
            member = tarfile.TarInfo(name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    return out.getvalue()


class Report:
    """A report of some lines, the second of which is bad."""

    def __init__(self, test, number, count=6, filler=0):
        self.name = f"{DATE}/20170101T0000{number:02}Z-US-AS1-{test}-r{number}-0.2.0-probe.json"
        self.raw, self.clean, self.parts = b"", [], []
        for line in range(count):
            text = b"{bad\n" if line == 1 else json.dumps({"test": test, "n": number, "line": line}).encode() + b"\n"
            begin = len(self.raw)
            self.raw += text
            if line == 1:
                self.parts.append(("badblob", begin, len(text), None))
                continue
            uid = base64.b32encode(hashlib.sha256(text).digest()[:20]).decode().lower()
            self.clean.append((uid, json.dumps({"id": uid, "n": number, "line": line, "x": "x" * filler}).encode()))
            self.parts.append(("datum", begin, len(text) - 1, uid))

    def body(self):
        return b"".join(line + b"\n" for _, line in self.clean)

    def private(self):
        yield {"type": "report", "textname": self.name, "src_size": len(self.raw), "orig_sha1": sha1(self.raw)}
        for kind, begin, size, uid in self.parts:
            record = {"type": kind, "src_off": begin, "src_size": size, "orig_sha1": sha1(self.raw[begin:begin + size])}
            yield dict(record, id=uid) if uid else record
        yield {"type": "/report"}


class Can:
    """A can and its archive, to be made wrong before they are written."""

    def __init__(self, name, reports):
        self.name, self.reports, self.is_tar = f"{DATE}/{name}", reports, ".tar." in name
        self.text = tar([(report.name, report.raw) for report in reports]) if self.is_tar else reports[0].raw
        self.data = frame(self.text)
        texts = [dict(sums("text", report.raw), textname=report.name) for report in reports]
        about = {"canned": texts, "text_size": len(self.text)} if self.is_tar else texts[0]
        self.record = dict(about, filename=self.name, **sums("file", self.data))
        ends = {"type": "file", "filename": self.name}, {"type": "/file"}
        self.private = [ends[0]] + [record for report in reports for record in report.private()] + [ends[1]]
        self.archive, self.index = self.autoclaved()

    def autoclaved(self, **how):
        """Frames that end behind the measurement at which they are long enough."""
        members = [(report.name, report.body()) for report in self.reports]
        text = tar(members) if self.is_tar else members[0][1]
        out, records, begin, inner = b"", [{"type": "file", "filename": self.name}], 0, []

        def close(end):
            nonlocal out, begin, inner
            data = frame(text[begin:end], **how)
            records.append({"type": "frame", "file_off": len(out), "file_size": len(data), "text_off": begin, "text_size": end - begin})
            records.extend(inner + [{"type": "/frame"}])
            out, begin, inner = out + data, end, []

        at = 0
        for report in self.reports:
            inner.append({"type": "report", "textname": report.name, "src_size": len(report.raw)})
            clean = iter(report.clean)
            for kind, src_off, src_size, _ in report.parts:
                if kind == "badblob":
                    inner.append({"type": kind, "info": "bad", "src_off": src_off, "src_size": src_size})
                    continue
                uid, line = next(clean)
                at = text.index(line, at)
                inner.append({"type": "datum", "id": uid, "text_off": at, "text_size": len(line)})
                at += len(line) + 1
                if at - begin >= FRAME_BYTES:
                    close(at)
            inner.append({"type": "/report"})
        if begin < len(text) or inner:
            close(len(text))
        rules = {"type": "rules", "rules_version": "1", "rules_sha256": "0" * 64, "lookups": {}}
        return out, records + [dict(rules, **sums("text", text)), dict(sums("file", out), type="/file")]

    def first(self, kind, records=None):
        return next(record for record in (self.index if records is None else records) if record["type"] == kind)


class Case(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        ndt = [Report("ndt", number) for number in range(4)]
        self.tar = Can("ndt.0.tar.lz4", ndt)
        alone = Report("dash", 9)
        self.plain = Can(alone.name.split("/", 1)[1] + ".lz4", [alone])
        self.cans = [self.plain, self.tar]

    def put(self, key, content):
        path = os.path.join(self.root, key)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(content)

    def write(self, can):
        name = can.name.split("/", 1)[1]
        self.put(f"canned/{can.name}", can.data)
        self.put(f"canned/{DATE}/private/{name}.index.json.gz", index_of(can.private))
        self.put(f"autoclaved/{GENERATION}/{can.name}", can.archive)
        self.put(f"autoclaved/{GENERATION}/{can.name}.index.json.gz", index_of(can.index))

    def write_all(self):
        for can in self.cans:
            self.write(can)
        self.put(f"canned/{DATE}/index.json.gz", index_of(can.record for can in self.cans))
        self.put("autoclaved/current.json", b"{}")

    def audit(self, write=True):
        if write:
            self.write_all()
        out = io.StringIO()
        with redirect_stdout(out):
            words = [self.root, DATE, "--can-bytes", str(CAN_BYTES), "--frame-bytes", str(FRAME_BYTES)]
            code = archive_audit.main(words)
        *findings, counts = out.getvalue().splitlines()
        self.assertEqual(code, 1 if findings else 0)
        return findings, json.loads(counts)

    def expect(self, *words, write=True):
        """There is a finding with all the words."""
        findings, _ = self.audit(write)
        for word in words:
            self.assertTrue(any(word in finding for finding in findings), f"no {word!r} in {findings}")


class Good(Case):
    def test_a_bucket(self):
        findings, counts = self.audit()
        self.assertEqual(findings, [])
        expected = {"cans": 2, "reports": 5, "archives": 2, "measurements": 25, "badblobs": 5, "private": 2, "open": 0}
        self.assertEqual({name: counts[name] for name in expected}, expected)
        self.assertGreater(counts["frames"], 5)

    def test_indexes_of_the_whole_bucket(self):
        self.write_all()
        self.put(f"canned/{DATE}/private-index.json.gz", b"".join(index_of(can.private) for can in self.cans))
        self.put(f"autoclaved/{GENERATION}/{DATE}/index.json.gz", b"".join(index_of(can.index) for can in self.cans))
        self.assertEqual(self.audit(write=False)[0], [])

    def test_open_cans_that_wait_for_the_sweep(self):
        self.write_all()
        before = Can("ndt.0123456789abcdef.tar.lz4", self.tar.reports[:2])
        self.write(before)
        inputs = {"inputs": [{"key": "reports-raw/x", "size": 1, "version": "v"}]}
        self.put(f"canned/{DATE}/ndt.0000.index.json.gz", index_of([before.record, inputs]))
        self.put(f"canned/{DATE}/unknown.4294967295.index.json.gz", index_of([]))
        gone = dict(before.record, filename=f"{DATE}/feed-f.0123456789abcdef.tar.lz4")
        self.put(f"canned/{DATE}/feed-f.0000.index.json.gz", index_of([gone, inputs]))
        findings, counts = self.audit(write=False)
        self.assertEqual((findings, counts["open"], counts["cans"], counts["measurements"]), ([], 1, 2, 25))
        os.remove(os.path.join(self.root, "canned", before.name))
        self.expect("its can is gone", "no index names it", write=False)


class Cans(Case):
    def test_sums(self):
        for field in ("file_crc32", "file_sha1", "file_size", "text_size"):
            for can in self.cans:
                was = can.record[field]
                can.record[field] = "x" if field.endswith("sha1") else was + 1
                with self.subTest(field):
                    self.expect(f"{field} is stated as")
                can.record[field] = was
        for field in ("text_crc32", "text_sha1", "text_size"):
            text = self.tar.record["canned"][1]
            was, text[field] = text[field], 0
            with self.subTest(field):
                self.expect(f"{field} is stated as")
            text[field] = was

    def test_shapes(self):
        self.plain.record["more"] = 1
        del self.tar.record["canned"][0]["text_crc32"]
        self.expect("'more'", "KeyError('text_crc32')")

    def test_keys_out_of_order(self):
        self.write_all()
        record = self.plain.record
        line = json.dumps({key: record[key] for key in sorted(record, reverse=True)})
        self.put(f"canned/{DATE}/index.json.gz", index_of([line, self.tar.record]))
        self.expect("keys are not sorted", write=False)

    def test_reports(self):
        self.tar.record["canned"] = self.tar.record["canned"][::-1]
        self.expect("the reports is stated as")

    def test_an_order_that_is_none(self):
        self.cans[1] = Can("ndt.0.tar.lz4", self.tar.reports[::-1])
        self.expect("the order of reports")

    def test_slices(self):
        few = [Report("ndt", number, 3) for number in range(4)]
        self.cans = [self.plain, Can("ndt.0.tar.lz4", few[:2]), Can("ndt.1.tar.lz4", few[2:])]
        self.expect("the next report would have fitted")
        self.cans = [self.plain, Can("ndt.0.tar.lz4", [Report("ndt", number, 30) for number in range(4)])]
        self.expect("it is too large")
        self.cans = [self.plain, Can("ndt.0.tar.lz4", few[:1])]
        self.expect("a report alone is no tar")

    def test_a_can_twice(self):
        self.cans.append(self.tar)
        self.expect("the index: the files")

    def test_damage(self):
        good = self.tar.data
        for bad in (good[:-1], good[:40] + bytes([good[40] ^ 1]) + good[41:], good + good[:9], b"", b"not a can"):
            self.tar.data = bad
            self.tar.record.update(sums("file", bad))
            with self.subTest(bad[:10]):
                self.expect("ndt.0.tar.lz4: ")

    def test_what_is_gone_and_what_nobody_names(self):
        self.write_all()
        self.put(f"canned/{DATE}/stray.tar.lz4", b"")
        self.put(f"autoclaved/{GENERATION}/{DATE}/stray.tar.lz4", b"")
        os.remove(os.path.join(self.root, "canned", self.plain.name))
        os.remove(os.path.join(self.root, "autoclaved", GENERATION, self.tar.name))
        findings, _ = self.audit(write=False)
        self.assertEqual(sum("no index names it" in finding for finding in findings), 4, findings)
        self.assertEqual(sum("FileNotFoundError" in finding for finding in findings), 2, findings)


class Private(Case):
    def test_records(self):
        for kind, field in (("report", "orig_sha1"), ("report", "src_size"), ("datum", "orig_sha1"), ("datum", "src_off"),
                            ("badblob", "orig_sha1"), ("badblob", "src_size")):
            record = self.tar.first(kind, self.tar.private)
            was, record[field] = record[field], "x" if field == "orig_sha1" else record[field] + 1
            with self.subTest(kind=kind, field=field):
                self.expect("orig_sha1" if kind != "report" else f"{field} of a report")
            record[field] = was

    def test_a_measurement_beyond_its_report(self):
        self.tar.first("datum", self.tar.private)["src_off"] = 10_000
        self.expect("does not lie in its report", "its private index has other content")

    def test_other_content(self):
        self.tar.private.remove(self.tar.first("badblob", self.tar.private))
        self.plain.first("datum", self.plain.private)["id"] = "other"
        findings, _ = self.audit()
        self.assertEqual(sum("its private index has other content" in finding for finding in findings), 2, findings)

    def test_none(self):
        self.write_all()
        shutil.rmtree(os.path.join(self.root, "canned", DATE, "private"))
        self.expect("it has no private index", write=False)

    def test_what_does_not_belong_there(self):
        self.tar.first("datum", self.tar.private)["text_off"] = 1
        self.tar.private.insert(1, {"type": "frame"})
        self.expect("'text_off'", "a type that is known")

    def test_a_public_index_that_tells(self):
        self.tar.first("datum")["orig_sha1"] = "x"
        self.expect("its public index tells of the raw text")

    def test_indexes_of_the_whole_bucket(self):
        self.write_all()
        self.put(f"canned/{DATE}/private-index.json.gz", index_of(self.tar.private))
        self.put(f"autoclaved/{GENERATION}/{DATE}/index.json.gz", index_of(self.plain.index))
        findings, _ = self.audit(write=False)
        self.assertEqual(sum("one after the other" in finding for finding in findings), 2, findings)


class Archives(Case):
    def test_numbers(self):
        for kind, field in (("frame", "file_off"), ("frame", "file_size"), ("frame", "text_off"), ("frame", "text_size"),
                            ("datum", "text_off"), ("datum", "text_size"), ("rules", "text_crc32"), ("rules", "text_size"),
                            ("/file", "file_size"), ("/file", "file_crc32")):
            record = self.tar.first(kind)
            was, record[field] = record[field], record[field] + 1
            with self.subTest(kind=kind, field=field):
                self.expect(f"{GENERATION}/{self.tar.name}: ")
            record[field] = was
        self.assertEqual(self.audit()[0], [])

    def test_ids(self):
        self.tar.first("datum")["id"] = "other"
        self.expect("id is stated as")

    def test_frames(self):
        for how, word in (({"content_checksum": False}, "has no checksum, or linked blocks"),
                          ({"store_size": False}, "content size is stated as")):
            self.tar.archive, self.tar.index = self.tar.autoclaved(**how)
            with self.subTest(word):
                self.expect(word)

    def test_linked_blocks(self):
        self.cans[0] = long = Can(self.plain.name.split("/", 1)[1], [Report("dash", 9, filler=200_000)])
        self.assertEqual(self.audit()[0], [])
        long.archive, long.index = long.autoclaved(block_linked=True)
        self.expect("has no checksum, or linked blocks")

    def test_a_frame_that_is_closed_too_late(self):
        global FRAME_BYTES
        FRAME_BYTES, usual = 400, FRAME_BYTES
        self.tar.archive, self.tar.index = self.tar.autoclaved()
        FRAME_BYTES = usual
        self.expect("should have been closed before it")

    def test_two_frames_that_say_they_are_one(self):
        first = self.tar.first("frame")
        second = self.tar.index[self.tar.index.index(first) + 1:]
        second = next(record for record in second if record["type"] == "frame")
        self.tar.index.remove(second)
        first["file_size"] += second["file_size"]
        first["text_size"] += second["text_size"]
        self.expect("the number of frames in a frame")

    def test_reports_and_rules(self):
        self.tar.first("report")["textname"] = "other"
        self.plain.index.remove(self.plain.first("rules"))
        self.expect("the reports is stated as", "the number of records of rules")

    def test_damage(self):
        good = self.tar.archive
        middle = len(good) // 2
        for bad in (good[:-1], good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1:], good + b"x", b""):
            self.tar.archive = bad
            self.tar.index[-1].update(sums("file", bad))
            with self.subTest(len(bad)):
                self.expect(f"{GENERATION}/{self.tar.name}: ")


if __name__ == "__main__":
    unittest.main()
