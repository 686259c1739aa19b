#!/usr/bin/env python3
"""Independent auditor of the cans and archives of a bucket in a lake (a local folder).

Recomputes every size and checksum that the indexes state, private ones too, decodes every frame by itself, and looks at the
shapes of records and at where slices and frames end. Every file of the bucket must be named by an index. It shares no code with
the product and was written from docs/formats.md alone. It needs the package `lz4`.

    archive_audit.py LAKE DATE [--can-bytes N] [--frame-bytes N] [--generation rXXXXXXXX]

Prints findings, then a line of JSON with counts. Exit code: 0 clean, 1 findings, 2 usage.
"""

import argparse
import base64
import gzip
import hashlib
import io
import json
import os
import re
import sys
import tarfile
import zlib

import lz4.frame

FILE = ["file_crc32", "file_sha1", "file_size"]
TEXT = ["text_crc32", "text_sha1", "text_size", "textname"]
SHAPES = {
    "file": ["filename", "type"],
    "/file": ["file_crc32", "file_sha1", "file_size", "type"],
    "frame": ["file_off", "file_size", "text_off", "text_size", "type"],
    "/frame": ["type"],
    "report": ["src_size", "textname", "type"],
    "/report": ["type"],
    "datum": ["id", "text_off", "text_size", "type"],
    "badblob": ["info", "src_off", "src_size", "type"],
    "rules": ["lookups", "rules_sha256", "rules_version", "text_crc32", "text_sha1", "text_size", "type"],
}

PRIVATE = {
    "file": ["filename", "type"],
    "/file": ["type"],
    "report": ["orig_sha1", "src_size", "textname", "type"],
    "/report": ["type"],
    "datum": ["id", "orig_sha1", "src_off", "src_size", "type"],
    "badblob": ["orig_sha1", "src_off", "src_size", "type"],
}
OPEN_INDEX = re.compile(r"^(.+)\.(\d{4,})\.index\.json\.gz$")
# The index with this number closes the bucket, the one before it says what is sealed.
DECISIONS = (4294967294, 4294967295)


def sums(data):
    crc = zlib.crc32(data)
    return {
        "crc32": crc - (1 << 32) if crc >> 31 else crc,
        "sha1": base64.b64encode(hashlib.sha1(data).digest()).decode(),
        "size": len(data),
    }


def frames(data):
    """The text of each frame of a file, in order. A reader that stops behind the first one would not see the others."""
    while data:
        decoder = lz4.frame.LZ4FrameDecompressor()
        text = decoder.decompress(data)
        if not decoder.eof:
            raise ValueError("a frame is cut off")
        yield text
        data = decoder.unused_data or b""


def lines(path, findings):
    with gzip.open(path, "rb") as file:
        for line in file.read().decode().splitlines():
            record = json.loads(line)
            if line != json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False):
                findings.append(f"{path}: keys are not sorted, or there is space: {line[:120]}")
            yield record


class Audit:
    def __init__(self, lake, date, can_bytes, frame_bytes):
        self.lake, self.date = lake, date
        self.can_bytes, self.frame_bytes = can_bytes, frame_bytes
        self.findings = []
        self.counts = dict.fromkeys(["cans", "reports", "archives", "frames", "measurements", "badblobs", "private", "open"], 0)
        self.sizes = {}
        self.raw = {}
        self.named = set()

    def find(self, where, what):
        self.findings.append(f"{where}: {what}")

    def same(self, where, what, stated, found):
        if stated != found:
            self.find(where, f"{what} is stated as {stated!r}, but is {found!r}")

    def guarded(self, where, work, *arguments):
        """What cannot even be read is a finding too."""
        try:
            work(*arguments)
        except (OSError, EOFError, RuntimeError, ValueError, KeyError, IndexError, tarfile.TarError, zlib.error) as error:
            self.find(where, f"it cannot be read: {error!r}")

    def shape(self, where, record, keys):
        self.same(where, "the keys of a record", sorted(record), keys)

    def members(self, where, data):
        tar = tarfile.open(fileobj=io.BytesIO(data), mode="r:")
        for member in tar:
            if not member.isfile():
                self.find(where, f"`{member.name}` is no file")
            yield member.name, tar.extractfile(member).read(), member.offset_data

    def path(self, *parts):
        """A file that may be there: an index names it, or is it."""
        path = os.path.join(self.lake, *parts)
        self.named.add(path)
        return path

    def cans(self):
        names = []
        for record in lines(self.path("canned", self.date, "index.json.gz"), self.findings):
            self.guarded(record["filename"], self.can, record)
            names.append(record["filename"])
        self.same("the index", "the files", sorted(set(names)), sorted(names))
        self.slices()
        return names

    def open_cans(self):
        """Cans of the time before the seal that are still there; an index whose can is gone is that of a feed."""
        names, folder = [], os.path.join(self.lake, "canned", self.date)
        for index in sorted(os.listdir(folder)):
            match = OPEN_INDEX.match(index)
            if not match:
                continue
            path = self.path("canned", self.date, index)
            if int(match[2]) in DECISIONS:
                continue
            can, inputs = list(lines(path, self.findings))
            self.shape(index, inputs, ["inputs"])
            for one in inputs["inputs"]:
                self.shape(index, one, ["key", "size", "version"])
            if os.path.exists(os.path.join(self.lake, "canned", can["filename"])):
                before = dict(self.counts)
                self.guarded(can["filename"], self.can, can, True)
                self.counts = dict(before, open=before["open"] + 1)
                names.append(can["filename"])
            elif not match[1].startswith("feed-"):
                self.find(index, "its can is gone")
        return names

    def can(self, record, is_open=False):
        where = record["filename"]
        with open(self.path("canned", where), "rb") as file:
            data = file.read()
        is_tar = "canned" in record
        self.shape(where, record, sorted(FILE + ["filename"] + (["canned", "text_size"] if is_tar else TEXT)))
        for name, value in sums(data).items():
            self.same(where, f"file_{name}", record[f"file_{name}"], value)
        text = b"".join(frames(data))
        if is_tar:
            self.same(where, "text_size", record["text_size"], len(text))
            found = [(name, body) for name, body, _ in self.members(where, text)]
            stated = record["canned"]
        else:
            found, stated = [(record["textname"], text)], [record]
        self.same(where, "the reports", [text["textname"] for text in stated], [name for name, _ in found])
        self.same(where, "the order of reports", [name for name, _ in found], sorted(name for name, _ in found))
        for about, (name, body) in zip(stated, found):
            if is_tar:
                self.shape(where, about, TEXT)
            for what, value in sums(body).items():
                self.same(f"{where}: {name}", f"text_{what}", about[f"text_{what}"], value)
            kind = where.split("/", 1)[1].rsplit(".", 3)[0] if is_tar else None
            if not is_open:
                self.sizes.setdefault(kind, []).append((where, name, len(body)))
        self.raw[where] = self.private(where, dict(found))
        self.counts["cans"] += 1
        self.counts["reports"] += len(found)

    def private(self, where, reports):
        """What the private index says of a can, next to the raw reports: what is to be found in its archives."""
        date, name = where.split("/", 1)
        path = self.path("canned", date, "private", name + ".index.json.gz")
        # A can without an archive has none yet: an archive without one is noticed there.
        if not os.path.exists(path):
            return None
        records, report, content = list(lines(path, self.findings)), None, []
        for record in records:
            kind = record["type"]
            self.shape(path, record, PRIVATE.get(kind, ["a type that is known"]))
            if kind == "report":
                report = reports.get(record["textname"], b"")
                self.same(path, "src_size of a report", record["src_size"], len(report))
                self.same(path, "orig_sha1 of a report", record["orig_sha1"], sums(report)["sha1"])
                content.append((kind, record["textname"]))
            elif kind in ("datum", "badblob"):
                begin, size = record["src_off"], record["src_size"]
                if report is None or begin + size > len(report):
                    self.find(path, f"a {kind} at {begin} does not lie in its report")
                    continue
                sha1 = sums(report[begin:begin + size])["sha1"]
                self.same(path, f"orig_sha1 of the {kind} at {begin}", record["orig_sha1"], sha1)
                content.append((kind, record["id"] if kind == "datum" else (begin, size)))
        self.same(path, "filename", records[0]["filename"], where)
        self.same(path, "the reports", [name for kind, name in content if kind == "report"], list(reports))
        self.same(path, "the end", records[-1]["type"], "/file")
        self.counts["private"] += 1
        return content

    def slices(self):
        """No tar is larger than it may be, and none was closed too early: the first report of the next did not fit."""
        for kind, reports in self.sizes.items():
            if kind is None:
                continue
            by_can = {}
            for where, _, size in reports:
                by_can.setdefault(where, []).append(size)
            cans = sorted(by_can.items())
            for (where, sizes), following in zip(cans, cans[1:] + [None]):
                if len(sizes) > 1 and sum(sizes) >= self.can_bytes:
                    self.find(where, "it is too large")
                if len(sizes) < 2:
                    self.find(where, "a report alone is no tar")
                if following and sum(sizes) + following[1][0] < self.can_bytes and not self.lone_between(kind):
                    self.find(where, "the next report would have fitted")

    def lone_between(self, kind):
        """Reports that are alone in their slice end the slice before them as well."""
        lone = [name.rsplit("/", 1)[1] for _, name, _ in self.sizes.get(None, [])]
        return any(f"-{kind}-" in name for name in lone)

    def archives(self, generation, names, open_names):
        for name in names:
            self.guarded(f"{generation}/{name}", self.archive, generation, name)
        for name in open_names:
            before = dict(self.counts)
            self.guarded(f"{generation}/{name}", self.archive, generation, name)
            self.counts = before

    def archive(self, generation, name):
        path = self.path("autoclaved", generation, name)
        with open(path, "rb") as file:
            data = file.read()
        index = self.path("autoclaved", generation, name + ".index.json.gz")
        where, records = f"{generation}/{name}", list(lines(index, self.findings))
        if b"orig_sha1" in gzip.open(index).read():
            self.find(where, "its public index tells of the raw text")
        for record in records:
            self.shape(where, record, SHAPES.get(record["type"], ["type"]))
        first, last = records[0], records[-1]
        self.same(where, "filename", first["filename"], name)
        for what, value in sums(data).items():
            self.same(where, f"file_{what}", last[f"file_{what}"], value)
        text = self.frames_of(where, data, [record for record in records if record["type"] == "frame"])
        rules = [record for record in records if record["type"] == "rules"]
        self.same(where, "the number of records of rules", len(rules), 1)
        for what, value in sums(text).items():
            self.same(where, f"text_{what} of the rules", rules[0][f"text_{what}"], value)
        self.content(where, records, text)
        self.same_content(where, records, self.raw.get(name))
        if name.endswith(".tar.lz4"):
            stated = [record["textname"] for record in records if record["type"] == "report"]
            self.same(where, "the reports", stated, [member for member, _, _ in self.members(where, text)])
        self.counts["archives"] += 1

    def same_content(self, where, records, private):
        """The private index has the same reports, measurements and bad parts, in the same order."""
        if private is None:
            self.find(where, "it has no private index")
            return
        content = []
        for record in records:
            if record["type"] == "report":
                content.append(("report", record["textname"]))
            elif record["type"] == "datum":
                content.append(("datum", record["id"]))
            elif record["type"] == "badblob":
                content.append(("badblob", (record["src_off"], record["src_size"])))
        if content != private:
            self.find(where, "its private index has other content")

    def whole(self, path, parts):
        """An index of the whole bucket, if it is there: those of its files, in the order of their names."""
        if not os.path.exists(path):
            return
        self.named.add(path)
        together = b"".join(gzip.open(part).read() for part in parts)
        if gzip.open(path).read() != together:
            self.find(path, "it is not the indexes of its files, one after the other in the order of their names")

    def strays(self, *folders):
        for folder in folders:
            for root, _, files in os.walk(os.path.join(self.lake, folder)):
                for file in files:
                    path = os.path.join(root, file)
                    if path not in self.named:
                        self.find(path, "no index names it")

    def frames_of(self, where, data, records):
        file_off, texts = 0, []
        for record in records:
            self.same(where, "file_off", record["file_off"], file_off)
            self.same(where, "text_off", record["text_off"], sum(map(len, texts)))
            frame = data[file_off:file_off + record["file_size"]]
            info = lz4.frame.get_frame_info(frame)
            if not (info["content_checksum"] and not info["block_linked"]):
                self.find(where, f"the frame at {file_off} has no checksum, or linked blocks")
            decoded = list(frames(frame))
            self.same(where, "the number of frames in a frame", len(decoded), 1)
            self.same(where, "content size", info["content_size"], len(decoded[0]))
            self.same(where, "text_size of a frame", record["text_size"], len(decoded[0]))
            texts.append(decoded[0])
            file_off += record["file_size"]
        self.same(where, "the end of the last frame", file_off, len(data))
        self.counts["frames"] += len(records)
        return b"".join(texts)

    def content(self, where, records, text):
        frame, last_end = None, None
        for record in records:
            kind = record["type"]
            if kind == "frame":
                frame, last_end = record, None
            elif kind == "/frame":
                frame = None
            elif kind == "datum":
                self.datum(where, record, frame, last_end, text)
                last_end = record["text_off"] + record["text_size"] + 1
                self.counts["measurements"] += 1
            elif kind == "badblob":
                self.counts["badblobs"] += 1

    def datum(self, where, record, frame, last_end, text):
        begin, size = record["text_off"], record["text_size"]
        if frame is None or begin < frame["text_off"] or begin + size > frame["text_off"] + frame["text_size"]:
            self.find(where, f"measurement {record['id']} does not lie in its frame")
            return
        if last_end is not None and last_end - frame["text_off"] >= self.frame_bytes:
            self.find(where, f"measurement {record['id']} lies in a frame that should have been closed before it")
        raw = text[begin:begin + size]
        if text[begin + size:begin + size + 1] != b"\n" or b"\n" in raw:
            self.find(where, f"measurement {record['id']} is no line")
        try:
            self.same(where, "id", record["id"], json.loads(raw).get("id"))
        except ValueError as error:
            self.find(where, f"measurement {record['id']} is no JSON: {error}")


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lake")
    parser.add_argument("date")
    parser.add_argument("--can-bytes", type=int, default=64 << 20)
    parser.add_argument("--frame-bytes", type=int, default=256 << 10)
    parser.add_argument("--generation")
    args = parser.parse_args(words)
    audit = Audit(args.lake, args.date, args.can_bytes, args.frame_bytes)
    names, open_names = audit.cans(), audit.open_cans()
    root = os.path.join(args.lake, "autoclaved")
    generations = [args.generation] if args.generation else sorted(
        name for name in os.listdir(root) if os.path.isdir(os.path.join(root, name)))
    canned = os.path.join(args.lake, "canned")
    audit.whole(os.path.join(canned, args.date, "private-index.json.gz"),
                [os.path.join(canned, args.date, "private", name.split("/", 1)[1] + ".index.json.gz") for name in sorted(names)])
    for generation in generations:
        audit.archives(generation, names, open_names)
        folder = os.path.join(root, generation)
        audit.whole(os.path.join(folder, args.date, "index.json.gz"),
                    [os.path.join(folder, name + ".index.json.gz") for name in sorted(names)])
        audit.strays(os.path.join("autoclaved", generation, args.date))
    audit.strays(os.path.join("canned", args.date))
    for finding in audit.findings:
        print(finding)
    print(json.dumps(audit.counts))
    return 1 if audit.findings else 0


if __name__ == "__main__":
    sys.exit(main())
