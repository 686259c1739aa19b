#!/usr/bin/env python3
"""Independent auditor of the hours of feeds in a lake.

Compares lakes (local folders; download an S3 lake first) with a ledger of what replicas stored and saw. It shares no code
with the product and was written from docs/formats.md alone, so that a misreading in one of the two shows up as a finding
instead of being confirmed by the other.

    feed_audit.py --ledger LEDGER.ndjson --lake ALGORITHM=DIR [--lake ...] [--except-hour HOUR ...] [--unmerged]
        [--only-known] [--examples N] [--json]

ALGORITHM says what must be left of an hour:
    hashed      one archive, named for its content
    primary     the primary and nothing else
    projected   the primary and one archive of the same set, named for its content

Ledger, one JSON object a line:
    feed, hour, sha256, size   `f1`, `20261115T18Z`, of a body
    name                       what it was called in the folder of its hour; without it any name of the hour will do
    replicas                   who had it, whose coverage must therefore be there
    required                   false: may be there, need not

--except-hour leaves out an hour that is not over; --unmerged lets an hour have any number of archives, and judges their union;
--only-known says that the ledger knows every body there is, if not its hour.

Exit code: 0 clean, 1 findings, 2 usage (also an unreadable ledger).
"""

import argparse
import base64
import bz2
import calendar
import datetime
import hashlib
import json
import lzma
import os
import re
import sys
import tarfile
import time
import zlib

CHECKS = [
    ("object_names", "every object is an archive in the folder of its own feed and hour, or one of the lake's own"),
    ("one_archive", "an hour has exactly the archives that its algorithm leaves"),
    ("deleted", "no hour was deleted"),
    ("compression", "an archive is one whole compressed stream of the kind its name says, nothing after it"),
    ("tar", "the tar has plain USTAR headers and ends with exactly two blocks of zeros"),
    ("member_twice", "no path is twice in an archive"),
    ("manifest", "the manifest comes first, and lists exactly what is there, in order"),
    ("set_hash", "the name of an archive is that of its content"),
    ("download_names", "the name of a body has its feed, a time within the hour, and the hash of its content"),
    ("member_time", "the time of a member is that in its name, else the begin of the hour"),
    ("coverage", "coverage can be read, is of its hour and named for its content"),
    ("coverage_missing", "who stored something in an hour has its coverage there"),
    ("uncovered", "when a replica stored a body, its coverage knows a poll"),
    ("lost", "every required body of the ledger is in its hour"),
    ("unknown", "every body is one of its feed in the ledger (with --only-known)"),
]
NAMES = [name for name, _ in CHECKS]

ENDINGS = {"gz": b"\x1f\x8b", "xz": b"\xfd7zXZ\0", "bz2": b"BZh", "zst": b"\x28\xb5\x2f\xfd"}
FEED = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}"
BLOCK = 512


class UsageError(Exception):
    """The audit cannot be made: exit code 2."""


class Report:
    """Counts per check with the first few examples."""

    def __init__(self, examples_max):
        self.examples_max = examples_max
        self.counts = {name: 0 for name in NAMES}
        self.examples = {name: [] for name in NAMES}
        self.totals = {}

    def find(self, check, message):
        self.counts[check] += 1
        if len(self.examples[check]) < self.examples_max:
            self.examples[check].append(message)

    def count(self, what, by=1):
        self.totals[what] = self.totals.get(what, 0) + by

    def findings(self):
        return sum(self.counts.values())

    def as_json(self):
        checks = [{"name": name, "about": about, "count": self.counts[name], "examples": self.examples[name]}
                  for name, about in CHECKS]
        return {"clean": not self.findings(), "findings": self.findings(), "checks": checks, "totals": self.totals}

    def as_text(self):
        lines = []
        for name, about in CHECKS:
            count = self.counts[name]
            lines.append("%-5s %-18s %6d  %s" % ("FAIL" if count else "ok", name, count, about))
            lines.extend("        " + example for example in self.examples[name])
            if count > len(self.examples[name]):
                lines.append("        and %d more" % (count - len(self.examples[name])))
        lines.append("totals " + json.dumps(self.totals, sort_keys=True))
        lines.append("CLEAN" if not self.findings() else "%d findings" % self.findings())
        return "\n".join(lines)


def short_hash(digest):
    """26 characters of lower-case base32."""
    return base64.b32encode(digest).decode("ascii").lower()[:26]


# Ledger


class Body:
    """One body of the ledger."""

    def __init__(self, entry, where):
        self.feed, self.hour = entry.get("feed"), entry.get("hour")
        self.sha256, self.size = entry.get("sha256"), entry.get("size")
        self.name, self.replicas = entry.get("name"), entry.get("replicas", [])
        self.required = entry.get("required", True)
        if not (isinstance(self.feed, str) and re.fullmatch(FEED, self.feed)):
            raise UsageError("%s: `feed` is no id of a feed" % where)
        if not (isinstance(self.hour, str) and re.fullmatch(r"\d{8}T\d{2}Z", self.hour)):
            raise UsageError("%s: `hour` is not such as 20261115T18Z" % where)
        if not (isinstance(self.sha256, str) and re.fullmatch("[0-9a-f]{64}", self.sha256)):
            raise UsageError("%s: `sha256` is not a SHA-256 in hexadecimal" % where)
        if type(self.size) is not int or type(self.required) is not bool or not isinstance(self.replicas, list):
            raise UsageError("%s: `size`, `required` or `replicas` is of another type" % where)

    def is_in(self, hour):
        if self.name is None:
            return (self.sha256, self.size) in hour.contents
        return (self.name, self.size, self.sha256) in hour.members


def read_ledger(paths):
    """{(feed, hour): [Body, ...]}"""
    ledger = {}
    for path in paths:
        try:
            with open(path, "rb") as stream:
                lines = stream.read().splitlines()
        except OSError as error:
            raise UsageError("cannot read ledger `%s`: %s" % (path, error.strerror)) from None
        for number, line in enumerate(lines, 1):
            where = "ledger `%s` line %d" % (path, number)
            try:
                entry = json.loads(line)
            except ValueError as error:
                raise UsageError("%s: not JSON: %s" % (where, error)) from None
            if not isinstance(entry, dict):
                raise UsageError("%s: not a JSON object" % where)
            body = Body(entry, where)
            ledger.setdefault((body.feed, body.hour), []).append(body)
    return ledger


# Archives


class Damaged(Exception):
    """What is wrong with an archive: (check, message)."""


def unpack(content, ending):
    """The one stream in the object, unpacked."""
    if not content.startswith(ENDINGS[ending]):
        raise Damaged("compression", "does not begin as .tar.%s does" % ending)
    try:
        if ending == "gz":
            decoder = zlib.decompressobj(31)
        elif ending == "xz":
            decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ)
        elif ending == "bz2":
            decoder = bz2.BZ2Decompressor()
        else:
            raise Damaged("compression", "zstd cannot be judged by this program")
        data = decoder.decompress(content)
    except (zlib.error, lzma.LZMAError, OSError, EOFError) as error:
        raise Damaged("compression", str(error)) from None
    if not decoder.eof:
        raise Damaged("compression", "cut short")
    if decoder.unused_data:
        raise Damaged("compression", "%d bytes follow the stream" % len(decoder.unused_data))
    return data


class Archive:
    """One archive, read whole: `entries` are (path, content, time) in the order of the tar."""

    def __init__(self, path, ending):
        with open(path, "rb") as stream:
            data = unpack(stream.read(), ending)
        self.faults = []
        self.entries = []
        end = self.read_tar(data)
        if data[end:] != bytes(2 * BLOCK):
            self.faults.append(("tar", "it does not end with two blocks of zeros and nothing else"))

    def read_tar(self, data):
        end, path = 0, None
        while data[end:end + 1] not in (b"", b"\0"):
            header = data[end:end + BLOCK]
            try:
                found = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
            except (tarfile.HeaderError, UnicodeDecodeError) as error:
                raise Damaged("tar", "header at %d: %s" % (end, error)) from None
            content = data[end + BLOCK:end + BLOCK + found.size]
            if len(content) != found.size:
                raise Damaged("tar", "cut short in `%s`" % found.name)
            padding = -found.size % BLOCK
            end += BLOCK + found.size + padding
            if data[end - padding:end] != bytes(padding):
                self.faults.append(("tar", "`%s` is filled up with something" % found.name))
            if header[257:265] != b"ustar\x0000":
                self.faults.append(("tar", "`%s` is not USTAR" % found.name))
            if found.type == tarfile.XHDTYPE and path is None:
                match = re.fullmatch(rb"\d+ path=([^\n]*)\n", content)
                if not match:
                    raise Damaged("tar", "an extended header that is not one path")
                path = match.group(1).decode("utf-8")
                continue
            if found.type != tarfile.REGTYPE or (found.mode, found.uid, found.gid, found.uname, found.gname) != (0o644, 0, 0, "", ""):
                self.faults.append(("tar", "`%s` is no plain file of nobody" % found.name))
            self.entries.append((path or found.name, content, found.mtime))
            path = None
        return end


class Hour:
    """What the archives of an hour hold together."""

    def __init__(self):
        self.members = set()
        self.contents = set()
        self.coverage = {}

    def take(self, other):
        self.members |= other.members
        self.contents |= other.contents
        for replica, spans in other.coverage.items():
            self.coverage.setdefault(replica, []).extend(spans)


class Audit:
    def __init__(self, options, report):
        self.options = options
        self.report = report
        self.ledger = read_ledger(options.ledger)
        self.known = {}
        for (feed, _), bodies in self.ledger.items():
            self.known.setdefault(feed, set()).update((body.sha256, body.size) for body in bodies)

    def run(self):
        for algorithm, root in self.options.lake:
            self.audit_lake(algorithm, root)
        self.report.totals["ledger"] = sum(len(bodies) for bodies in self.ledger.values())

    def audit_lake(self, algorithm, root):
        hours = self.find_hours(root)
        for place in sorted(set(hours) | set(self.ledger)):
            feed, hour = place
            if hour in self.options.except_hour:
                continue
            archives = hours.get(place, {})
            required = [body for body in self.ledger.get(place, []) if body.required]
            if archives or required:
                self.check_count(algorithm, root, place, archives)
            self.audit_hour(algorithm, root, place, archives)

    def find_hours(self, root):
        """{(feed, hour): {key: (hash or None, ending)}}"""
        hours = {}
        for key in walk(root):
            top = key.split("/")[0]
            if top in (".cannery", ".store") or key == "cannery.json":
                continue
            match = re.fullmatch(r"(%s)/(\d{4})/(\d{2})/(\d{2})/(\d{2})/([^/]+)" % FEED, key)
            if not match:
                self.report.find("object_names", "%s: %s" % (root, key))
                continue
            feed, hour, name = match[1], "%s%s%sT%sZ" % match.group(2, 3, 4, 5), match[6]
            if name == ".deleted.json":
                self.report.find("deleted", "%s: %s" % (root, key))
                continue
            stem = re.escape("%s_%s" % (feed, hour))
            named = re.fullmatch(stem + r"(?:_([a-z2-7]{26}))?\.tar\.(gz|xz|bz2|zst)", name)
            if not named or (named[1] is None and named[2] != "gz"):
                self.report.find("object_names", "%s: %s" % (root, key))
                continue
            hours.setdefault((feed, hour), {})[key] = (named[1], named[2])
        return hours

    def check_count(self, algorithm, root, place, archives):
        primaries = sum(1 for found in archives.values() if found[0] is None)
        others = len(archives) - primaries
        wanted = {"hashed": (0, 1), "primary": (1, 0), "projected": (1, 1)}[algorithm]
        if not self.options.unmerged and (primaries, others) != wanted:
            self.report.find("one_archive", "%s: %s %s has %d primaries and %d others: %s" % (
                root, place[0], place[1], primaries, others, ", ".join(sorted(archives)) or "nothing"))

    def audit_hour(self, algorithm, root, place, archives):
        union, sets = Hour(), []
        for key, (named, ending) in sorted(archives.items()):
            self.report.count("archives")
            try:
                hour = self.audit_archive(os.path.join(root, key), "%s: %s" % (root, key), place, named, ending)
            except Damaged as damage:
                self.report.find(damage.args[0], "%s: %s: %s" % (root, key, damage.args[1]))
                continue
            union.take(hour)
            sets.append(hour.members)
        if algorithm == "projected" and len(sets) == 2 and sets[0] != sets[1]:
            self.report.find("one_archive", "%s: %s %s: the primary is no copy of the other" % (root, *place))
        self.compare(root, place, union)

    def audit_archive(self, path, where, place, named, ending):
        archive = Archive(path, ending)
        for check, message in archive.faults:
            self.report.find(check, "%s: %s" % (where, message))
        paths = [entry[0] for entry in archive.entries]
        for twice in sorted({path for path in paths if paths.count(path) > 1} if len(set(paths)) != len(paths) else ()):
            self.report.find("member_twice", "%s: %s" % (where, twice))
        entries = self.manifest(archive, where, place)
        hour, lines = Hour(), []
        for (name, size, digest, _), (_, content, mtime) in zip(entries, archive.entries[1:]):
            self.report.count("members")
            lines.append("%s %d %s\n" % (digest, size, name))
            self.take_member(hour, where, place, (name, content, digest, mtime))
        expected = short_hash(hashlib.sha256("".join(lines).encode("utf-8")).digest())
        if named is not None and named != expected:
            self.report.find("set_hash", "%s: its set has %s" % (where, expected))
        return hour

    def manifest(self, archive, where, place):
        """(name, size, sha256, path) of each member, as the manifest says and the content proves."""
        if not archive.entries or archive.entries[0][0] != ".manifest.json":
            raise Damaged("manifest", "it is not the first member")
        text = archive.entries[0][1]
        try:
            manifest = json.loads(text)
            listed = [(entry["name"], entry["size"], entry["sha256"], entry.get("path", entry["name"])) for entry in manifest["entries"]]
        except (ValueError, KeyError, TypeError) as error:
            raise Damaged("manifest", "cannot be read: %r" % error) from None
        if (manifest.get("format"), manifest.get("feed"), manifest.get("hour")) != (1, *place):
            raise Damaged("manifest", "it is of another format, feed or hour")
        there = [(len(content), hashlib.sha256(content).hexdigest(), path) for path, content, _ in archive.entries[1:]]
        if [entry[1:] for entry in listed] != there:
            raise Damaged("manifest", "it lists %d members, and there are %d, or not the same ones in the same order" % (len(listed), len(there)))
        order = [(name.encode("utf-8"), size, digest) for name, size, digest, _ in listed]
        if order != sorted(set(order)):
            self.report.find("manifest", "%s: not in order, or one twice" % where)
        for before, (name, _, digest, path) in zip([None] + listed, listed):
            twin = before is not None and before[0] == name
            if path.rstrip("~") != ("%s.~%s" % (name, short_hash(bytes.fromhex(digest))) if twin else name.rstrip("~")):
                self.report.find("manifest", "%s: `%s` has the path `%s`" % (where, name, path))
        return listed

    def take_member(self, hour, where, place, member):
        name, content, digest, mtime = member
        begin = hour_begin(place[1])
        hour.members.add((name, len(content), digest))
        if name.startswith(".coverage/"):
            self.take_coverage(hour, where, place, name, content)
        else:
            hour.contents.add((digest, len(content)))
            begin = self.download_second(where, place, name, digest, begin)
        if mtime != begin:
            self.report.find("member_time", "%s: %s has %d, not %d" % (where, name, mtime, begin))

    def download_second(self, where, place, name, digest, begin):
        time_of = download_time(place[0], name)
        if time_of is None:
            self.report.find("download_names", "%s: %s" % (where, name))
            return begin
        millis, hashed = time_of
        if hashed != short_hash(bytes.fromhex(digest)):
            self.report.find("download_names", "%s: %s is of another body" % (where, name))
        if not begin * 1000 <= millis < (begin + 3600) * 1000:
            self.report.find("download_names", "%s: %s is of another hour" % (where, name))
        return millis // 1000

    def take_coverage(self, hour, where, place, name, content):
        match = re.fullmatch(r"\.coverage/([A-Za-z0-9._-]{1,60})-([a-z2-7]{26})\.json", name)
        try:
            found = json.loads(content)
            spans = [(span["offset_ms"], span["period_ms"], [(run["state"], run["count"]) for run in span["runs"]])
                     for span in found["spans"]]
        except (ValueError, KeyError, TypeError) as error:
            self.report.find("coverage", "%s: %s: %r" % (where, name, error))
            return
        if not match or match[2] != short_hash(hashlib.sha256(content).digest()):
            self.report.find("coverage", "%s: %s is not named for its content" % (where, name))
            return
        if (found.get("format"), found.get("feed"), found.get("hour")) != (1, *place) or found.get("replica") != match[1]:
            self.report.find("coverage", "%s: %s is of another hour or replica" % (where, name))
        hour.coverage.setdefault(match[1], []).extend(spans)

    def compare(self, root, place, hour):
        bodies = self.ledger.get(place, [])
        replicas = set()
        for body in bodies:
            if not body.required:
                continue
            replicas.update(body.replicas)
            if not body.is_in(hour):
                self.report.find("lost", "%s: %s %s: %s, of %s" % (
                    root, *place, body.name or body.sha256, ", ".join(body.replicas) or "somebody"))
            elif body.name is not None and body.replicas:
                self.check_covered(root, place, hour, body)
        for replica in sorted(replicas - set(hour.coverage)):
            self.report.find("coverage_missing", "%s: %s %s has none of %s" % (root, *place, replica))
        if self.options.only_known:
            known = self.known.get(place[0], set())
            for digest, _ in sorted(hour.contents - known):
                self.report.find("unknown", "%s: %s %s: %s" % (root, *place, digest))

    def check_covered(self, root, place, hour, body):
        found = download_time(place[0], body.name)
        after = found[0] - hour_begin(place[1]) * 1000 if found else -1
        for replica in body.replicas:
            if replica in hour.coverage and not any(has_poll(span, after) for span in hour.coverage[replica]):
                self.report.find("uncovered", "%s: %s %s: %s by %s" % (root, *place, body.name, replica))


def has_poll(span, after):
    """Whether a span has a poll at about that many milliseconds after the hour began. It need not be `stored`: of two polls in one
    millisecond, as a clock has them that stands still, the span knows one."""
    offset, period, runs = span
    number = 0
    for state, count in runs:
        first, last = offset + number * period, offset + (number + count - 1) * period
        if state != "not_collected" and first - period <= after <= last + period:
            return True
        number += count
    return False


def hour_begin(hour):
    return calendar.timegm(time.strptime(hour, "%Y%m%dT%HZ"))


def download_time(feed, name):
    """(milliseconds, hash) of the name of a download, or None."""
    match = re.fullmatch(re.escape(feed) + r"_(\d{8}T\d{6})\.(\d{3})Z_([a-z2-7]{26})[A-Za-z0-9._+~=,@-]*", name)
    if not match:
        return None
    try:
        moment = datetime.datetime.strptime(match[1], "%Y%m%dT%H%M%S")
    except ValueError:
        return None
    return calendar.timegm(moment.timetuple()) * 1000 + int(match[2]), match[3]


def walk(root):
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            yield os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")


def a_lake(text):
    algorithm, found, root = text.partition("=")
    if not found or algorithm not in ("hashed", "primary", "projected"):
        raise argparse.ArgumentTypeError("`%s` is not hashed=DIR, primary=DIR or projected=DIR" % text)
    if not os.path.isdir(root):
        raise argparse.ArgumentTypeError("`%s` is not a folder" % root)
    return algorithm, root


def parse_options(arguments):
    parser = argparse.ArgumentParser(prog="feed_audit.py", description=__doc__.split("\n\n")[0])
    parser.add_argument("--ledger", required=True, action="append", metavar="LEDGER.ndjson")
    parser.add_argument("--lake", required=True, action="append", type=a_lake, metavar="ALGORITHM=DIR", help="repeat for mirrors")
    parser.add_argument("--except-hour", action="append", default=[], metavar="HOUR")
    parser.add_argument("--unmerged", action="store_true")
    parser.add_argument("--only-known", action="store_true")
    parser.add_argument("--examples", type=int, default=5, metavar="N", help="examples per check")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = parse_options(arguments)
    report = Report(options.examples)
    try:
        Audit(options, report).run()
    except UsageError as error:
        print("feed_audit: %s" % error, file=sys.stderr)
        return 2
    print(json.dumps(report.as_json(), indent=1) if options.json else report.as_text())
    return 1 if report.findings() else 0


if __name__ == "__main__":
    sys.exit(main())
