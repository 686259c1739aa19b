#!/usr/bin/env python3
"""Independent auditor of spool collection.

Compares a lake (a local folder; download an S3 or GCS lake first) with a ledger of what the producers claim to have
written. It shares no code with the product and was written from shared/specs/spool.md alone, so that a misreading in
one of the two shows up as a finding instead of being confirmed by the other.

    spool_audit.py --ledger LEDGER.ndjson --lake DIR [--lake MIRROR ...] --spool HOME --experiment ndt
        [--object-home autoload/v1] [--organization ORG] [--workspace DIR] [--node machine-site]
        [--expect-drained] [--quarantine-allowed REASON,...] [--id-column] [--index-loadable] [--inventory]
        [--inventory-partial] [--examples N] [--json]

--ledger and --node may be repeated (several producers, several nodes in one lake). The first --lake is audited in
depth; every further one must hold the same objects with the same bytes.

An inventory below `.cannery/inventory/<node>/<experiment>/` is verified wherever there is one; --inventory says that every node must
have one, --inventory-partial that a node has lost its workspace, so that objects without a line are no finding.

Ledger, one JSON object a line:
    datatype, filename     `foo1`, `2026/11/15/a.json`
    sha256, size           of the file's bytes (may be null where good is false)
    good                   false: must never be in the lake
    must_ship              only of a name with several versions: this one must be there exactly once, the others at
                           most once. An explicit false makes a single version optional, too
    raw_sha256             of the text expected as `raw`. Needed for a multi-line original, whose compaction this
                           program deliberately does not imitate
    single_line            optional. true: `raw` must be the file's bytes. false: a multi-line original without
                           raw_sha256 is counted as information instead of as the finding `raw_unproved`

Exit code: 0 clean, 1 findings, 2 usage (also an unreadable or contradictory ledger).
"""

import argparse
import base64
import binascii
import datetime
import hashlib
import json
import os
import re
import stat
import sys
import time
import zlib
from itertools import zip_longest

CHUNK_BYTES = 64 * 1024
INFLATE_BYTES_MAX = 1024 * 1024
LINE_BYTES_MAX = 512 * 1024 * 1024

CHECKS = [
    ("object_names", "every object below <experiment>/ and tables/<experiment>/ is named as specified, nothing else is there"),
    ("gzip", "every object is one or more complete gzip members, nothing after them"),
    ("jsonl_lines", "every line ends with a newline, none is blank"),
    ("empty_bundles", "no object without lines"),
    ("index_pairs", "every data object has its index object and the other way round"),
    ("index_lines", "data and index have the same files in the same order"),
    ("data_shape", "a data line has exactly the specified keys in the specified order"),
    ("date_folder", "`date` is the folder's date"),
    ("filename_folder", "`Filename` is one plain name in the folder's date"),
    ("archive_url", "ArchiveURL is gs://, s3:// or file:, ends with the object's key, one per object"),
    ("git_commit", "GitCommit is 40 hexadecimal digits"),
    ("version", "Version is cannery@<semver>"),
    ("id_column", "`id` is the file name without extension with --id-column, absent without"),
    ("raw_json", "`raw` is one strict JSON value in UTF-8"),
    ("raw_bytes", "`raw` is byte for byte what the ledger expects"),
    ("raw_unproved", "`raw` is shorter than the file and the ledger has no raw_sha256 to prove that it was only compacted"),
    ("index_shape", "an index line has exactly the specified keys in the specified order"),
    ("index_ledger", "Size and SHA256 of an index line are the ledger's"),
    ("time_added", "TimeAdded is UTC with microseconds and not before the bundle was opened"),
    ("missing", "every required ledger file is in one data line and one index line"),
    ("lost", "a missing file is at least still in the spool (or set aside below it)"),
    ("doubled", "no ledger file is in more than one data line or index line"),
    ("foreign", "nothing in the lake that the ledger does not know"),
    ("bad_in_lake", "no file with good=false is in the lake"),
    ("table_schema", "tables/<experiment>/<datatype>.table.json is a BigQuery schema with the standard columns"),
    ("table_format", "table schema text: 1-space indent, sorted keys, NULLABLE omitted"),
    ("row_schema", "every row fits its table schema"),
    ("mirrors", "all lakes hold the same objects with the same bytes"),
    ("drained", "no file left in the spool, bookkeeping folders are empty (with --expect-drained)"),
    ("outbox", "the workspace's outbox is empty (with --expect-drained)"),
    ("quarantined_good", "no good file was quarantined"),
    ("quarantine_reason", "a quarantined file has a reason beside it, one of --quarantine-allowed if given"),
    ("inventory", "every data and index object of a node with an inventory has exactly one line in it"),
    ("inventory_dangling", "what the inventory lists is in the lake"),
    ("inventory_bytes", "Size and SHA256 of a line are those of the object as stored"),
    ("inventory_chain", "Prev of a line is the SHA-256 of the line before it, over all days, beginning with zeros"),
    ("inventory_shape", "a line has Key, Size, SHA256, Confirmed and Prev; Confirmed is of the file's day and never goes back"),
    ("inventory_mirrors", "all lakes hold the same lines"),
]


class UsageError(Exception):
    """The audit cannot be made: exit code 2."""


class Report:
    """Counts per check with the first few examples, and information that is no finding."""

    def __init__(self, examples_max):
        self.examples_max = examples_max
        self.counts = {name: 0 for name, _ in CHECKS}
        self.examples = {name: [] for name, _ in CHECKS}
        self.information = {}
        self.notes_seen = {}
        self.totals = {}

    def find(self, check, message):
        self.counts[check] += 1
        if len(self.examples[check]) < self.examples_max:
            self.examples[check].append(message)

    def note(self, what, example=None):
        """Counts an observation that is not a finding."""
        entry = self.notes_seen.setdefault(what, {"count": 0, "examples": []})
        entry["count"] += 1
        if example is not None and len(entry["examples"]) < self.examples_max:
            entry["examples"].append(example)

    def findings(self):
        return sum(self.counts.values())

    def as_json(self):
        return {
            "clean": self.findings() == 0,
            "findings": self.findings(),
            "checks": [
                {"name": name, "about": about, "count": self.counts[name], "examples": self.examples[name]}
                for name, about in CHECKS
            ],
            "information": dict(self.information, observations=self.notes_seen),
            "totals": self.totals,
        }

    def as_text(self):
        lines = []
        for name, about in CHECKS:
            count = self.counts[name]
            lines.append("%-5s %-18s %6d  %s" % ("FAIL" if count else "ok", name, count, about))
            lines.extend("        " + example for example in self.examples[name])
            if count > len(self.examples[name]):
                lines.append("        and %d more" % (count - len(self.examples[name])))
        for what, entry in sorted(self.notes_seen.items()):
            lines.append("info  %s: %d%s" % (what, entry["count"], "".join("; " + e for e in entry["examples"])))
        for what, value in self.information.items():
            lines.append("info  %s: %s" % (what, json.dumps(value, sort_keys=True)))
        lines.append("totals " + json.dumps(self.totals, sort_keys=True))
        lines.append("CLEAN" if self.findings() == 0 else "%d findings" % self.findings())
        return "\n".join(lines)


# Strict JSON that keeps what a Python value would lose: number literals stay text, duplicate keys stay pairs.


class Obj(list):
    """A JSON object as its list of (key, value) pairs."""


class IntLit(str):
    """An integer literal, verbatim."""


class FloatLit(str):
    """A literal with fraction or exponent, verbatim."""


def _refuse_constant(text):
    raise ValueError("`%s` is not JSON" % text)


_decode_verbatim = json.JSONDecoder(
    object_pairs_hook=Obj, parse_int=IntLit, parse_float=FloatLit, parse_constant=_refuse_constant
).decode


def parse_verbatim(raw):
    """Parses bytes as one JSON value; raises ValueError."""
    try:
        return _decode_verbatim(raw.decode("utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply to be checked") from None


def _refuse_duplicates(pairs):
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return result


def unquote(body):
    """The text of a JSON string given without its quotes, as bytes."""
    if b"\\" in body:
        return json.loads(b'"' + body + b'"')
    return body.decode("utf-8")


# Ledger


class Version:
    """One content a producer wrote under one name."""

    __slots__ = ("sha256", "raw_sha256", "size", "good", "must_ship", "single_line", "in_data", "in_index")

    def __init__(self, sha256, raw_sha256, size, good, must_ship, single_line):
        self.sha256 = sha256
        self.raw_sha256 = raw_sha256
        self.size = size
        self.good = good
        self.must_ship = must_ship
        self.single_line = single_line
        self.in_data = 0
        self.in_index = 0


def _digest(entry, key, where, required):
    value = entry.get(key)
    if value is None and not required:
        return None
    if not isinstance(value, str) or not re.fullmatch("[0-9a-fA-F]{64}", value):
        raise UsageError("%s: `%s` is not a SHA-256 in hexadecimal" % (where, key))
    return bytes.fromhex(value)


def _optional_bool(entry, key, where):
    value = entry.get(key)
    if value is not None and not isinstance(value, bool):
        raise UsageError("%s: `%s` is neither true nor false" % (where, key))
    return value


def read_ledger(paths, report):
    """{(datatype, filename): [Version, ...]}"""
    ledger = {}
    interned = {}
    for path in paths:
        try:
            stream = open(path, "rb")
        except OSError as error:
            raise UsageError("cannot read ledger `%s`: %s" % (path, error.strerror)) from None
        with stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    _ledger_line(ledger, interned, line, "ledger `%s` line %d" % (path, number), report)
    return ledger


def _ledger_line(ledger, interned, line, where, report):
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError("%s: not JSON: %s" % (where, error)) from None
    if not isinstance(entry, dict):
        raise UsageError("%s: not a JSON object" % where)
    datatype, filename = entry.get("datatype"), entry.get("filename")
    if not isinstance(datatype, str) or not isinstance(filename, str):
        raise UsageError("%s: `datatype` and `filename` must be strings" % where)
    good = entry.get("good", True)
    if not isinstance(good, bool):
        raise UsageError("%s: `good` is neither true nor false" % where)
    size = entry.get("size")
    if not (isinstance(size, int) and not isinstance(size, bool) and size >= 0) and (good or size is not None):
        raise UsageError("%s: `size` is not a number of bytes" % where)
    new = Version(
        _digest(entry, "sha256", where, good),
        _digest(entry, "raw_sha256", where, False),
        size,
        good,
        _optional_bool(entry, "must_ship", where),
        _optional_bool(entry, "single_line", where),
    )
    datatype = interned.setdefault(datatype, datatype)
    versions = ledger.setdefault((datatype, filename), [])
    for old in versions:
        if old.sha256 == new.sha256:
            if old.good != new.good or old.size != new.size:
                raise UsageError("%s: contradicts an earlier line of the same name and SHA-256" % where)
            old.must_ship = old.must_ship or new.must_ship
            old.raw_sha256 = old.raw_sha256 or new.raw_sha256
            report.note("ledger lines that repeat an earlier one (same name, same bytes: expected once)", filename)
            return
    versions.append(new)


def is_required(version, versions):
    if not version.good:
        return False
    if version.must_ship is not None:
        return version.must_ship
    return len(versions) == 1


# Objects


class GzipLines:
    """Streams the lines of a gzip object; `fault` is set when it is damaged, after the lines before the damage."""

    def __init__(self, path):
        self.path = path
        self.fault = None
        self.members = 0
        self.count = 0
        self.blank = 0
        self.unterminated = False
        self.bytes = 0

    def _inflate(self):
        member = None
        buffer = b""
        with open(self.path, "rb") as stream:
            while True:
                if not buffer:
                    buffer = stream.read(CHUNK_BYTES)
                    if not buffer:
                        break
                if member is None:
                    member = zlib.decompressobj(31)
                    self.members += 1
                try:
                    out = member.decompress(buffer, INFLATE_BYTES_MAX)
                except zlib.error as error:
                    self.fault = "gzip member %d: %s" % (self.members, error)
                    return
                if out:
                    yield out
                if member.eof:
                    buffer, member = member.unused_data, None
                else:
                    buffer = member.unconsumed_tail
            if member is not None:
                out = member.flush()
                if out:
                    yield out
                if not member.eof:
                    self.fault = "gzip member %d is cut short" % self.members
            elif self.members == 0:
                self.fault = "no gzip member: the object is empty"

    def _inflate_or_fault(self):
        try:
            yield from self._inflate()
        except OSError as error:
            self.fault = "cannot be read: %s" % error.strerror

    def __iter__(self):
        pending, pending_bytes = [], 0
        for out in self._inflate_or_fault():
            self.bytes += len(out)
            start = 0
            while True:
                end = out.find(b"\n", start)
                if end < 0:
                    break
                pending.append(out[start:end])
                line = b"".join(pending)
                pending, pending_bytes = [], 0
                start = end + 1
                yield from self._emit(line)
            if start < len(out):
                pending.append(out[start:])
                pending_bytes += len(out) - start
                if pending_bytes > LINE_BYTES_MAX:
                    self.fault = "a line is longer than %d bytes" % LINE_BYTES_MAX
                    return
        if pending:
            if self.fault is None:
                self.unterminated = True
                yield from self._emit(b"".join(pending))

    def _emit(self, line):
        if line.strip():
            self.count += 1
            yield line
        else:
            self.blank += 1


def list_files(root, prefix):
    """Keys of everything below root/prefix that is not a folder, sorted."""
    stack = [prefix]
    keys = []
    while stack:
        folder = stack.pop()
        try:
            entries = list(os.scandir(os.path.join(root, *folder.split("/"))))
        except FileNotFoundError:
            continue
        except NotADirectoryError:
            keys.append(folder)
            continue
        for entry in entries:
            key = folder + "/" + entry.name
            if entry.is_dir(follow_symlinks=False):
                stack.append(key)
            else:
                keys.append(key)
    keys.sort()
    return keys


def local(root, key):
    return os.path.join(root, *key.split("/"))


def hash_file(path):
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        for chunk in iter(lambda: stream.read(INFLATE_BYTES_MAX), b""):
            digest.update(chunk)
    return digest.digest()


def is_date(year, month, day):
    try:
        datetime.date(int(year), int(month), int(day))
    except ValueError:
        return False
    return True


# Table schemas. A BigQuery field is judged twice: as text (table_format) and as meaning (table_schema, row_schema).

TYPE_ALIASES = {
    "INT64": "INTEGER",
    "FLOAT64": "FLOAT",
    "BOOL": "BOOLEAN",
    "STRUCT": "RECORD",
    "DECIMAL": "NUMERIC",
    "BIGDECIMAL": "BIGNUMERIC",
}
TYPES = set(
    "STRING BYTES INTEGER FLOAT BOOLEAN TIMESTAMP RECORD DATE TIME DATETIME NUMERIC BIGNUMERIC GEOGRAPHY INTERVAL"
    " JSON RANGE".split()
)
FIELD_KEYS = set(
    "name type mode description fields policyTags dataPolicies categories maxLength precision scale collation"
    " defaultValueExpression roundingMode rangeElementType timestampPrecision foreignTypeDefinition".split()
)
FORBIDDEN_PREFIXES = ("_table_", "_file_", "_partition", "_row_timestamp", "__root__", "_colidentifier", "_change_")
DEPTH_MAX = 15
ARCHIVER_FIELDS = ["Version", "GitCommit", "ArchiveURL", "Filename"]


class Field:
    __slots__ = ("name", "type", "mode", "children", "folded", "required")

    def __init__(self, name, kind, mode, children):
        self.name = name
        self.type = kind
        self.mode = mode
        self.children = {child.name: child for child in children}
        self.folded = {child.name.lower(): child for child in children}
        self.required = [child.name.lower() for child in children if child.mode == "REQUIRED"]


def compile_field(node, path, depth, problem, note):
    """A Field, or None after problem() was told why not."""
    if not isinstance(node, dict):
        problem("`%s` is not an object" % path)
        return None
    name = node.get("name")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,299}", name):
        problem("`%s` has a field with the invalid name %s" % (path, json.dumps(name)))
        return None
    path = path + "." + name if path else name
    if name.lower().startswith(FORBIDDEN_PREFIXES):
        problem("`%s` has a name that BigQuery reserves" % path)
    for key in node:
        if key not in FIELD_KEYS:
            problem("`%s` has the unknown key `%s`" % (path, key))
    if "description" in node and not isinstance(node["description"], str):
        problem("`%s`: description is not a string" % path)
    kind = node.get("type")
    if isinstance(kind, str) and kind != kind.upper():
        note("table schema types in lower case", path)
        kind = kind.upper()
    kind = TYPE_ALIASES.get(kind, kind) if isinstance(kind, str) else kind
    if not isinstance(kind, str) or kind not in TYPES:
        problem("`%s` has the unknown type %s" % (path, json.dumps(node.get("type"))))
        return None
    mode = node.get("mode", "NULLABLE")
    if mode not in ("NULLABLE", "REQUIRED", "REPEATED"):
        problem("`%s` has the unknown mode %s" % (path, json.dumps(mode)))
        return None
    if kind != "RECORD":
        if node.get("fields"):
            problem("`%s` is %s but has fields" % (path, kind))
        return Field(name, kind, mode, [])
    children = compile_fields(node.get("fields"), path, depth + 1, problem, note)
    return None if children is None else Field(name, kind, mode, children)


def compile_fields(nodes, path, depth, problem, note):
    if not isinstance(nodes, list) or not nodes:
        problem("`%s` has no fields" % (path or "the schema"))
        return None
    if depth > DEPTH_MAX:
        problem("`%s` is nested deeper than %d levels" % (path, DEPTH_MAX))
        return None
    fields = [compile_field(node, path, depth, problem, note) for node in nodes]
    if any(field is None for field in fields):
        return None
    if len({field.name.lower() for field in fields}) != len(fields):
        problem("`%s` has two fields whose names differ at most in case" % (path or "the schema"))
        return None
    return fields


def canonical_schema_text(tree):
    return json.dumps(tree, indent=1, sort_keys=True)


def normalized_schema_text(text):
    """The text with every string escaped in one way, so that only layout and key order are compared."""
    return re.sub(r'"(?:[^"\\]|\\.)*"', lambda match: json.dumps(json.loads(match.group())), text)


def explicit_nullables(node, path=""):
    if isinstance(node, list):
        for child in node:
            yield from explicit_nullables(child, path)
    elif isinstance(node, dict):
        path = "%s.%s" % (path, node.get("name")) if path else str(node.get("name"))
        if "mode" in node and node["mode"] in ("NULLABLE", "", None):
            yield path
        yield from explicit_nullables(node.get("fields"), path)


def load_table(path, key, datatype, options, report):
    """Audits one table object; returns its top-level fields by name, or None if rows cannot be compared with it."""

    def problem(message):
        report.find("table_schema", "%s: %s" % (key, message))

    with open(path, "rb") as stream:
        data = stream.read()
    try:
        text = data.decode("utf-8")
        tree = json.loads(text, object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        problem("not strict JSON: %s" % error)
        return None
    if not isinstance(tree, list):
        problem("not a JSON array")
        return None
    for field in explicit_nullables(tree):
        report.find("table_format", "%s: `%s` spells out the mode NULLABLE" % (key, field))
    if normalized_schema_text(text[:-1] if text.endswith("\n") else text) != canonical_schema_text(tree):
        report.find("table_format", "%s: not 1-space indent with sorted keys" % key)
    fields = compile_fields(tree, "", 1, problem, report.note)
    if fields is None:
        return None
    return standard_columns({field.name: field for field in fields}, datatype, options, problem, report, key)


def standard_columns(columns, datatype, options, problem, report, key):
    usable = True

    def expect(field, path, kind, mode):
        nonlocal usable
        if field is None:
            problem("no column `%s`" % path)
        elif field.type != kind or (mode and field.mode != mode):
            problem("`%s` is %s %s, not %s %s" % (path, field.type, field.mode, kind, mode or ""))
        else:
            return True
        usable = False
        return False

    expect(columns.get("date"), "date", "DATE", "REQUIRED")
    archiver = columns.get("archiver")
    if expect(archiver, "archiver", "RECORD", "REQUIRED"):
        for name in ARCHIVER_FIELDS:
            expect(archiver.children.get(name), "archiver." + name, "STRING", "REQUIRED")
        for name in archiver.children:
            if name not in ARCHIVER_FIELDS:
                problem("unexpected column `archiver.%s`" % name)
    raw = columns.get("raw")
    if expect(raw, "raw", "RECORD", None) and raw.mode == "REPEATED":
        problem("`raw` is REPEATED")
        usable = False
    allowed = {"date", "archiver", "raw"}
    if options.id_column:
        allowed.add("id")
        if datatype != "index1" or "id" in columns:
            expect(columns.get("id"), "id", "STRING", None)
    for name in columns:
        if name not in allowed:
            problem("unexpected column `%s`" % name)
    if [name for name in columns if name in ("date", "archiver", "raw")] != ["date", "archiver", "raw"]:
        report.note("table schemas whose columns are not in the order date, archiver, raw", key)
    return columns if usable else None


# Rows against a table schema, as BigQuery's JSON loader reads them.

_TIMESTAMP = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:(?:[Tt]| +)(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.\d{1,9})?)?)?"
    r"(?: ?(?:[Zz]|UTC|[+-]\d{1,2}(?::?\d{2})?))?"
)
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_TIME = re.compile(r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.\d{1,6})?")
_DECIMAL = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+))?")


def _clock_ok(hour, minute, second):
    return int(hour or 0) < 24 and int(minute or 0) < 60 and int(second or 0) <= 60


def _timestamp_ok(text):
    match = _TIMESTAMP.fullmatch(text)
    return bool(match) and is_date(*match.group(1, 2, 3)) and _clock_ok(*match.group(4, 5, 6))


def _decimal_ok(text, integer_digits_max, fraction_digits_max):
    match = _DECIMAL.fullmatch(text)
    if not match or not (match.group(2) or match.group(3)):
        return False
    exponent = match.group(4) or "0"
    if len(exponent) > 6:
        return False
    digits = (match.group(2) or "") + (match.group(3) or "")
    point = len(match.group(2) or "") + int(exponent)
    stripped = digits.lstrip("0")
    if not stripped:
        return True
    integer_digits = point - (len(digits) - len(stripped))
    fraction_digits = len(digits.rstrip("0")) - point
    return integer_digits <= integer_digits_max and fraction_digits <= fraction_digits_max


def _int64_ok(text):
    return len(text) <= 20 and -(2**63) <= int(text) < 2**63


def _is_text(value):
    return type(value) is str


def _is_number(value):
    return type(value) in (IntLit, FloatLit)


def scalar_fault(kind, value, note):
    """None if the value fits; otherwise what is wrong. Values that fit only by coercion are noted."""
    if kind == "STRING":
        return None if _is_text(value) else "is not a string"
    if kind == "INTEGER":
        if type(value) is IntLit:
            return None if _int64_ok(value) else "is outside the range of INT64"
        if type(value) is FloatLit and len(value) < 40 and float(value).is_integer() and abs(float(value)) < 2**63:
            note("rows that fit only by coercion", "INTEGER as %s" % value)
            return None
        if _is_text(value) and re.fullmatch(r"[+-]?[0-9]{1,19}", value) and _int64_ok(value):
            note("rows that fit only by coercion", "INTEGER as a string")
            return None
        return "is not an integer"
    if kind == "FLOAT":
        if _is_number(value):
            if float(value) in (float("inf"), float("-inf")):
                note("FLOAT literals beyond a double", value[:40])
            return None
        if _is_text(value) and re.fullmatch(r"(?i)nan|[+-]?inf(inity)?", value):
            note("rows that fit only by coercion", "FLOAT as %s" % value)
            return None
        return "is not a number"
    if kind == "BOOLEAN":
        if value is True or value is False:
            return None
        if _is_text(value) and value.lower() in ("true", "false"):
            note("rows that fit only by coercion", "BOOLEAN as a string")
            return None
        return "is not true or false"
    if kind == "TIMESTAMP":
        if _is_number(value):
            note("rows that fit only by coercion", "TIMESTAMP as a number")
            return None
        return None if _is_text(value) and _timestamp_ok(value) else "is not a timestamp"
    if kind == "DATE":
        match = _DATE.fullmatch(value) if _is_text(value) else None
        return None if match and is_date(*match.groups()) else "is not a date"
    if kind == "TIME":
        match = _TIME.fullmatch(value) if _is_text(value) else None
        return None if match and _clock_ok(*match.groups()) else "is not a time"
    if kind == "DATETIME":
        ok = _is_text(value) and not re.search(r"([Zz]|UTC|[+-]\d{1,2}(:?\d{2})?)$", value[10:]) and _timestamp_ok(value)
        return None if ok else "is not a datetime"
    if kind in ("NUMERIC", "BIGNUMERIC"):
        digits = (29, 9) if kind == "NUMERIC" else (39, 38)
        ok = (_is_number(value) or _is_text(value)) and _decimal_ok(value, *digits)
        return None if ok else "is not a %s" % kind
    if kind == "BYTES":
        try:
            base64.b64decode(value if _is_text(value) else None, validate=True)
        except (binascii.Error, TypeError, ValueError):
            return "is not base64"
        return None
    if kind == "JSON":
        return None
    if kind == "RANGE":
        return None if isinstance(value, Obj) or _is_text(value) else "is not a range"
    return None if _is_text(value) else "is not a string"  # GEOGRAPHY, INTERVAL


def row_fault(field, value, path, note):
    """None if the value fits the field, otherwise the first thing that does not."""
    if field.mode == "REPEATED":
        if value is None:
            note("rows that fit only by coercion", "`%s`: null for REPEATED" % path)
            return None
        if type(value) is not list:
            return "`%s` is REPEATED and the value is no array" % path
        for element in value:
            fault = "`%s` has a null element" % path if element is None else value_fault(field, element, path, note)
            if fault:
                return fault
        return None
    if value is None:
        return "`%s` is REQUIRED and null" % path if field.mode == "REQUIRED" else None
    return value_fault(field, value, path, note)


def value_fault(field, value, path, note):
    if field.type != "RECORD":
        fault = scalar_fault(field.type, value, note)
        return "`%s` %s" % (path, fault) if fault else None
    if not isinstance(value, Obj):
        return "`%s` is a RECORD and the value is no object" % path
    seen = set()
    for key, child_value in value:
        child = field.children.get(key)
        if child is None:
            child = field.folded.get(key.lower())
            if child is None:
                return "`%s.%s` is not in the table" % (path, key)
            note("row keys that match a column only case-insensitively", "%s.%s" % (path, key))
        folded = child.name.lower()
        if folded in seen:
            note("rows with a key twice in one object", "%s.%s" % (path, key))
        seen.add(folded)
        fault = row_fault(child, child_value, path + "." + child.name, note)
        if fault:
            return fault
    for name in field.required:
        if name not in seen:
            return "`%s.%s` is REQUIRED and missing" % (path, field.folded[name].name)
    return None


# Lines

_STRING = rb'"((?:[^"\\\x00-\x1f]|\\.)*)"'
_ID = rb'(?:"id":' + _STRING + rb",)?"
_DATA_HEAD = re.compile(
    rb"\{" + _ID + rb'"date":' + _STRING + rb"," + _ID
    + rb'"archiver":\{"Version":' + _STRING + rb',"GitCommit":' + _STRING + rb',"ArchiveURL":' + _STRING
    + rb',"Filename":' + _STRING + rb"\}," + _ID + rb'"raw":'
)
_ID_TAIL = re.compile(rb',"id":' + _STRING + rb"\}\Z")
_INDEX = re.compile(
    rb'\{"Filename":' + _STRING + rb',"Size":(0|[1-9][0-9]*),"SHA256":"([0-9a-f]{64})","TimeAdded":' + _STRING + rb"\}"
)
_TIME_ADDED = re.compile(r"(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})\.\d{6}Z", re.ASCII)
_SEMVER = re.compile(
    r"cannery@(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
_URL = re.compile(r"(gs://[^/]+/|s3://[^/]+/|file:)")
_LINE_ENDS = {0: [b""], 1: [b"\n", b" ", b"\r", b"\t"], 2: [b"\r\n", b"\n\n", b" \n"]}


class Wrapped:
    """A line of the form {"date":…,"archiver":{…},"raw":…}; `fault` says what is wrong with its shape."""

    __slots__ = ("date", "version", "git_commit", "url", "filename", "id", "id_place", "raw", "value", "fault", "raw_fault")

    def __init__(self, line):
        self.date = self.version = self.git_commit = self.url = self.filename = None
        self.id = self.id_place = self.raw = self.value = self.fault = self.raw_fault = None
        match = _DATA_HEAD.match(line)
        if not match:
            self._salvage(line)
            return
        try:
            fields = [None if body is None else unquote(body) for body in match.groups()]
        except ValueError as error:
            self.fault = "not JSON: %s" % error
            return
        first, self.date, second, self.version, self.git_commit, self.url, self.filename, third = fields
        ids = [(place, text) for place, text in
               (("first", first), ("after date", second), ("before raw", third)) if text is not None]
        self._take_raw(line, match.end(), ids)
        if len(ids) > 1:
            self.fault = "`id` occurs more than once"
        elif ids:
            self.id_place, self.id = ids[0]

    def _take_raw(self, line, start, ids):
        if not line.endswith(b"}"):
            self.fault = "does not end with the object"
            return
        self.raw = line[start:-1]
        try:
            self.value = parse_verbatim(self.raw)
            return
        except ValueError as error:
            fault = str(error)
        tail = _ID_TAIL.search(line, start)
        if tail:
            try:
                self.value = parse_verbatim(line[start : tail.start()])
                self.raw = line[start : tail.start()]
                ids.append(("last", unquote(tail.group(1))))
                return
            except ValueError:
                pass
        try:
            keys = [key for key, _ in parse_verbatim(line)]
        except (ValueError, TypeError):
            self.raw_fault = fault
        else:
            self.raw = None
            self.fault = "top-level keys are %s" % ",".join(keys)

    def _salvage(self, line):
        """Names the file of a line of the wrong shape, so that one mistake is not also reported as a missing file."""
        try:
            tree = json.loads(line)
        except (ValueError, RecursionError) as error:
            self.fault = "not JSON: %s" % error
            return
        archiver = tree.get("archiver") if isinstance(tree, dict) else None
        keys = ",".join(tree) if isinstance(tree, dict) else "none"
        inner = ",".join(archiver) if isinstance(archiver, dict) else "none"
        self.fault = "keys, order or spacing differ (keys: %s; archiver: %s)" % (keys, inner)
        if isinstance(archiver, dict) and isinstance(archiver.get("Filename"), str):
            self.filename = archiver["Filename"]


class IndexLine:
    __slots__ = ("filename", "size", "sha256", "time_added", "fault")

    def __init__(self, text):
        self.filename = self.size = self.sha256 = self.time_added = self.fault = None
        match = _INDEX.fullmatch(text)
        if match:
            try:
                self.filename, self.time_added = unquote(match.group(1)), unquote(match.group(4))
                self.size = int(match.group(2)) if len(match.group(2)) < 20 else -1
                self.sha256 = bytes.fromhex(match.group(3).decode())
            except ValueError as error:
                self.fault = "not JSON: %s" % error
            return
        try:
            tree = json.loads(text)
        except (ValueError, RecursionError) as error:
            self.fault = "not JSON: %s" % error
            return
        self.fault = "keys, order, spacing or types differ: %s" % text[:200].decode("utf-8", "replace")
        if isinstance(tree, dict) and isinstance(tree.get("raw"), dict):
            tree = tree["raw"]
        if isinstance(tree, dict) and isinstance(tree.get("Filename"), str):
            self.filename = tree["Filename"]
            digest = tree.get("SHA256")
            if isinstance(digest, str) and re.fullmatch("[0-9a-fA-F]{64}", digest):
                self.sha256 = bytes.fromhex(digest)


class Bundle:
    """A data object and its index object, either of which may be absent."""

    __slots__ = ("date", "datatype", "stamp", "node", "data_key", "index_key")

    def __init__(self, date, datatype, stamp, node):
        self.date, self.datatype, self.stamp, self.node = date, datatype, stamp, node
        self.data_key = self.index_key = None

    def opened(self):
        s = self.stamp
        return "%s-%s-%sT%s:%s:%s" % (s[0:4], s[4:6], s[6:8], s[9:11], s[11:13], s[13:])


class Audit:
    def __init__(self, options):
        self.options = options
        self.report = Report(options.examples)
        self.lake = options.lake[0]
        home = options.object_home.strip("/")
        self.base = "/".join(part for part in (home, options.organization, options.experiment) if part)
        self.tables_prefix = "%s/tables/%s" % (home, options.experiment)
        self.ledger = read_ledger(options.ledger, self.report)
        self.tables = {}
        self.bundles = {}
        self.url_roots = {}
        self.id_places = {}
        self.totals = dict.fromkeys(
            ("data_objects", "index_objects", "data_lines", "index_lines", "gzip_members", "bytes_uncompressed"), 0
        )

    def run(self):
        started = time.monotonic()
        self.list_objects()
        self.audit_tables()
        for name in sorted(self.bundles):
            self.audit_bundle(self.bundles[name])
        self.compare_ledger()
        self.compare_mirrors()
        self.audit_quarantine()
        if self.options.expect_drained:
            self.audit_drained()
        self.audit_inventory()
        versions = [version for versions in self.ledger.values() for version in versions]
        self.totals["ledger_versions"] = len(versions)
        self.totals["ledger_good"] = sum(version.good for version in versions)
        self.totals["seconds"] = round(time.monotonic() - started, 3)
        self.report.totals = self.totals
        self.report.information["archive_url_roots"] = self.url_roots
        if self.id_places:
            self.report.information["id_position"] = self.id_places
        return self.report

    # Listing and names

    def list_objects(self):
        nodes = "|".join(re.escape(node) for node in self.options.node) or "[a-z0-9]+-[a-z0-9]+"
        name = re.compile(
            r"(\d{8}T\d{6}\.\d{6}Z)-([a-z][a-z0-9]*)-(%s)-%s-(data|index1)\.jsonl\.gz"
            % (nodes, re.escape(self.options.experiment)),
            re.ASCII,
        )
        for key in list_files(self.lake, self.base):
            fault = self.take_object(key, name)
            if fault:
                self.report.find("object_names", "%s: %s" % (key, fault))

    def take_object(self, key, name_pattern):
        parts = key[len(self.base) + 1 :].split("/")
        if len(parts) != 5:
            return "not at <datatype>/<yyyy>/<mm>/<dd>/<object>"
        datatype, year, month, day, name = parts
        if not re.fullmatch("[a-z][a-z0-9]*", datatype):
            return "invalid datatype name"
        if not (re.fullmatch("[0-9]{4}", year) and re.fullmatch("[0-9]{2}", month) and re.fullmatch("[0-9]{2}", day)
                and is_date(year, month, day)):
            return "not a date folder"
        match = name_pattern.fullmatch(name)
        if not match:
            return "not the name of a bundle of this experiment%s" % (" and node" if self.options.node else "")
        stamp, named, node, role = match.groups()
        try:
            datetime.datetime.strptime(stamp, "%Y%m%dT%H%M%S.%fZ")
        except ValueError:
            return "the timestamp is no instant"
        if role != ("index1" if datatype == "index1" else "data"):
            return "`%s` object in a folder of `%s`" % (role, datatype)
        if role == "data" and named != datatype or named == "index1":
            return "names the datatype `%s`" % named
        if not stat.S_ISREG(os.lstat(local(self.lake, key)).st_mode):
            return "not a regular file"
        identity = ("/".join(parts[1:4]), named, stamp, node)
        bundle = self.bundles.setdefault(identity, Bundle(*identity))
        if role == "data":
            bundle.data_key = key
            self.totals["data_objects"] += 1
        else:
            bundle.index_key = key
            self.totals["index_objects"] += 1
        return None

    # Tables

    def audit_tables(self):
        for key in list_files(self.lake, self.tables_prefix):
            match = re.fullmatch(r"([a-z][a-z0-9]*)\.table\.json", key[len(self.tables_prefix) + 1 :])
            if not match or not stat.S_ISREG(os.lstat(local(self.lake, key)).st_mode):
                self.report.find("object_names", "%s: not <datatype>.table.json" % key)
                continue
            datatype = match.group(1)
            if datatype == "index1" and not self.options.index_loadable:
                self.report.find("table_schema", "%s: exists without --index-loadable, so the loader would load bare index lines" % key)
                continue
            self.tables[datatype] = load_table(local(self.lake, key), key, datatype, self.options, self.report)
        wanted = {bundle.datatype for bundle in self.bundles.values()}
        wanted.update(datatype for (datatype, _), versions in self.ledger.items() if any(v.good for v in versions))
        if self.options.index_loadable and self.bundles:
            wanted.add("index1")
        for datatype in sorted(wanted - set(self.tables)):
            self.report.find("table_schema", "%s/%s.table.json: missing" % (self.tables_prefix, datatype))
            self.tables[datatype] = None

    # Bundles

    def audit_bundle(self, bundle):
        if bundle.data_key is None:
            self.report.find("index_pairs", "%s: no data object" % bundle.index_key)
        if bundle.index_key is None:
            self.report.find("index_pairs", "%s: no index object" % bundle.data_key)
        data = GzipLines(local(self.lake, bundle.data_key)) if bundle.data_key else None
        index = GzipLines(local(self.lake, bundle.index_key)) if bundle.index_key else None
        urls = {bundle.data_key: None, bundle.index_key: None}
        out_of_order = 0
        first_out_of_order = ""
        for number, (data_line, index_line) in enumerate(zip_longest(data or (), index or ()), 1):
            row = self.read_data_line(bundle, number, data_line, urls) if data_line is not None else None
            entry = self.read_index_line(bundle, number, index_line, urls) if index_line is not None else None
            self.tally(bundle, number, row, entry)
            if row and entry and row.filename != entry.filename:
                out_of_order += 1
                first_out_of_order = first_out_of_order or "line %d: data has `%s`, index has `%s`" % (
                    number, row.filename, entry.filename)
        if out_of_order:
            self.report.find("index_lines", "%s: %d lines name other files than the index; %s"
                             % (bundle.data_key, out_of_order, first_out_of_order))
        if data and index and data.count != index.count:
            self.report.find("index_lines", "%s: %d data lines, %d index lines" % (bundle.data_key, data.count, index.count))
        self.close_object(bundle.data_key, data, "data_lines")
        self.close_object(bundle.index_key, index, "index_lines")

    def close_object(self, key, lines, total):
        if lines is None:
            return
        if lines.fault:
            self.report.find("gzip", "%s: %s" % (key, lines.fault))
        elif lines.count == 0:
            self.report.find("empty_bundles", "%s: no lines" % key)
        if lines.blank:
            self.report.find("jsonl_lines", "%s: %d blank lines" % (key, lines.blank))
        if lines.unterminated:
            self.report.find("jsonl_lines", "%s: the last line has no newline" % key)
        self.totals[total] += lines.count
        self.totals["gzip_members"] += lines.members
        self.totals["bytes_uncompressed"] += lines.bytes

    def read_data_line(self, bundle, number, line, urls):
        where = "%s line %d" % (bundle.data_key, number)
        row = Wrapped(line)
        if row.fault:
            self.report.find("data_shape", "%s: %s" % (where, row.fault))
        if row.date is not None:
            self.audit_wrapping(bundle, where, bundle.data_key, row, urls, self.options.id_column)
        if row.raw_fault:
            self.report.find("raw_json", "%s: %s" % (where, row.raw_fault))
        elif row.raw is not None and row.fault is None:
            self.audit_row(where, bundle.datatype, row)
        return row

    def audit_wrapping(self, bundle, where, key, row, urls, id_wanted):
        find = self.report.find
        if row.date != bundle.date.replace("/", "-"):
            find("date_folder", "%s: date `%s`" % (where, row.date))
        self.audit_filename(bundle, where, row.filename)
        if urls[key] is None:
            urls[key] = row.url
        if not _URL.match(row.url) or not row.url.endswith("/" + key):
            find("archive_url", "%s: `%s`" % (where, row.url))
        elif row.url != urls[key]:
            find("archive_url", "%s: `%s`, but an earlier line has `%s`" % (where, row.url, urls[key]))
        else:
            root = row.url[: -len(key)]
            self.url_roots[root] = self.url_roots.get(root, 0) + 1
        if not re.fullmatch("[0-9a-f]{40}", row.git_commit):
            find("git_commit", "%s: `%s`" % (where, row.git_commit))
        if not _SEMVER.fullmatch(row.version):
            find("version", "%s: `%s`" % (where, row.version))
        if row.id is not None:
            self.id_places[row.id_place] = self.id_places.get(row.id_place, 0) + 1
        if id_wanted or row.id is not None:
            expected = os.path.splitext(row.filename.rsplit("/", 1)[-1])[0]
            if not self.options.id_column:
                find("id_column", "%s: has `id` without --id-column" % where)
            elif row.id != expected:
                find("id_column", "%s: id is %s, expected `%s`" % (where, json.dumps(row.id), expected))

    def audit_filename(self, bundle, where, filename):
        folder, _, name = filename.rpartition("/")
        plain = name not in ("", ".", "..") and not re.search("[\x00-\x1f\x7f]", name)
        if folder != bundle.date or not plain or len(name.encode("utf-8", "surrogatepass")) > 255:
            self.report.find("filename_folder", "%s: %s" % (where, json.dumps(filename)))

    def audit_row(self, where, datatype, row):
        columns = self.tables.get(datatype)
        if columns is None:
            self.report.note("rows not compared with a table schema, because it is missing or invalid")
            return
        fault = row_fault(columns["raw"], row.value, "raw", self.report.note)
        if fault is None and row.id is None and "id" in columns and columns["id"].mode == "REQUIRED":
            fault = "`id` is REQUIRED and missing"
        if fault is None and row.id is not None and "id" not in columns:
            fault = "`id` is not in the table"
        if fault:
            self.report.find("row_schema", "%s (`%s`): %s" % (where, row.filename, fault))

    def read_index_line(self, bundle, number, line, urls):
        where = "%s line %d" % (bundle.index_key, number)
        if self.options.index_loadable:
            wrapped = Wrapped(line)
            if wrapped.fault or wrapped.raw_fault:
                self.report.find("index_shape", "%s: %s" % (where, wrapped.fault or wrapped.raw_fault))
                return IndexLine(line)
            self.audit_wrapping(bundle, where, bundle.index_key, wrapped, urls, False)
            self.audit_row(where, "index1", wrapped)
            line = wrapped.raw
        entry = IndexLine(line)
        if entry.fault:
            self.report.find("index_shape", "%s: %s" % (where, entry.fault))
        if entry.filename is not None:
            self.audit_filename(bundle, where, entry.filename)
        if entry.time_added is not None:
            self.audit_time_added(bundle, where, entry.time_added)
        return entry

    def audit_time_added(self, bundle, where, text):
        match = _TIME_ADDED.fullmatch(text)
        if not match or not is_date(*match.group(1, 2, 3)) or not _clock_ok(*match.group(4, 5, 6)):
            self.report.find("time_added", "%s: `%s` is not UTC with microseconds" % (where, text))
        elif text < bundle.opened():
            self.report.find("time_added", "%s: `%s` is before the bundle's %s" % (where, text, bundle.stamp))

    # Ledger

    def tally(self, bundle, number, row, entry):
        """Counts a pair of lines for the ledger version each of them is about."""
        row_version = None
        if row is not None and row.filename is not None:
            row_version = self.tally_row(bundle, number, row, entry)
        if entry is not None and entry.filename is not None:
            same_file = row is not None and row.filename == entry.filename
            self.tally_entry(bundle, number, entry, row_version if same_file else None, same_file)

    def tally_row(self, bundle, number, row, entry):
        where = "%s line %d" % (bundle.data_key, number)
        versions = self.ledger.get((bundle.datatype, row.filename))
        if versions is None:
            self.report.find("foreign", "%s: `%s` is not in the ledger" % (where, row.filename))
            return None
        if not any(version.good for version in versions):
            self.report.find("bad_in_lake", "%s: `%s`" % (where, row.filename))
            versions[0].in_data += 1
            return versions[0]
        indexed = None
        if entry is not None and entry.filename == row.filename and entry.sha256 is not None:
            indexed = next((version for version in versions if version.sha256 == entry.sha256), None)
        proved = row.raw is not None and RawProof(row.raw)
        version = None
        if proved:
            candidates = ([indexed] if indexed else []) + [v for v in versions if v is not indexed]
            version = next((v for v in candidates if proved.of(v)), None)
        if version is None:
            version = indexed or (versions[0] if len(versions) == 1 else None)
            if version is None:
                self.report.find("foreign", "%s: `%s` has bytes of no ledger version" % (where, row.filename))
                return None
            if proved:
                self.report_unproved(where, row, version)
        if not version.good:
            self.report.find("bad_in_lake", "%s: `%s` (the version that is bad)" % (where, row.filename))
        version.in_data += 1
        return version

    def report_unproved(self, where, row, version):
        detail = "%s: `%s`: raw of %d bytes, file of %s bytes" % (where, row.filename, len(row.raw), version.size)
        compacted = version.size is not None and version.size > len(row.raw)
        if version.raw_sha256 is not None or version.single_line or not compacted:
            self.report.find("raw_bytes", detail)
        elif version.single_line is False:
            self.report.note("multi-line originals without raw_sha256: raw not compared", row.filename)
        else:
            self.report.find("raw_unproved", detail)

    def tally_entry(self, bundle, number, entry, row_version, row_reported):
        where = "%s line %d" % (bundle.index_key, number)
        versions = self.ledger.get((bundle.datatype, entry.filename))
        if versions is None:
            if not row_reported:
                self.report.find("foreign", "%s: `%s` is not in the ledger" % (where, entry.filename))
            return
        version = next((v for v in versions if v.sha256 is not None and v.sha256 == entry.sha256), None)
        if version is None:
            if any(v.good for v in versions) and entry.sha256 is not None:
                self.report.find("index_ledger", "%s: `%s`: SHA256 %s is of no ledger version"
                                 % (where, entry.filename, entry.sha256.hex()))
            version = row_version or (versions[0] if len(versions) == 1 else None)
        elif row_version is not None and row_version is not version:
            self.report.find("index_ledger", "%s: `%s`: SHA256 is of another version than the data line's raw"
                             % (where, entry.filename))
        if version is None:
            return
        if entry.size is not None and version.size is not None and entry.size != version.size:
            self.report.find("index_ledger", "%s: `%s`: Size %d, ledger has %d"
                             % (where, entry.filename, entry.size, version.size))
        if not version.good and not row_reported:
            self.report.find("bad_in_lake", "%s: `%s`" % (where, entry.filename))
        version.in_index += 1

    def compare_ledger(self):
        aside = None
        for (datatype, filename), versions in self.ledger.items():
            for version in versions:
                if not version.good:
                    continue
                required = is_required(version, versions)
                wanted = 1 if required or version.in_data or version.in_index else 0
                what = "%s/%s %s: in %d data lines, %d index lines" % (
                    datatype, filename, version.sha256.hex()[:12], version.in_data, version.in_index)
                if version.in_data > 1 or version.in_index > 1:
                    self.report.find("doubled", what)
                if version.in_data >= wanted and version.in_index >= wanted:
                    continue
                if version.in_data or not required:
                    self.report.find("missing", what)
                    continue
                aside = self.files_aside() if aside is None else aside
                place = self.place_of(datatype, filename, version, aside)
                self.report.find("missing", "%s; %s" % (what, place or "and nowhere in the spool"))
                if place is None:
                    self.report.find("lost", "%s/%s %s" % (datatype, filename, version.sha256.hex()[:12]))
                else:
                    self.report.note("missing files that are " + place.split("`")[0].strip(), filename)

    def place_of(self, datatype, filename, version, aside):
        path = os.path.join(self.options.spool, self.options.experiment, datatype, filename)
        try:
            if stat.S_ISREG(os.lstat(path).st_mode) and hash_file(path) == version.sha256:
                return "still in the spool"
        except (OSError, ValueError):
            pass
        return "set aside as `%s`" % aside[version.sha256] if version.sha256 in aside else None

    def files_aside(self):
        """SHA-256 of files in hidden folders of the spool (.sent, .quarantine), to tell lost from misplaced."""
        aside = {}
        roots = [self.options.spool, os.path.join(self.options.spool, self.options.experiment)]
        hidden = [os.path.join(root, name) for root in roots for name in _names(root) if name.startswith(".")]
        for datatype in self.datatypes():
            folder = os.path.join(self.options.spool, self.options.experiment, datatype)
            for path, _, _ in os.walk(folder):
                if "/." in path[len(folder) :]:
                    hidden.append(path)
        for root in hidden:
            for path, kind in _walk_files(root):
                if stat.S_ISREG(kind):
                    try:
                        aside[hash_file(path)] = path
                    except OSError:
                        self.report.note("files set aside in the spool that cannot be read", path)
        return aside

    def datatypes(self):
        names = {datatype for datatype, _ in self.ledger} | {bundle.datatype for bundle in self.bundles.values()}
        return sorted(name for name in names if re.fullmatch("[a-z][a-z0-9]*", name))

    # Mirrors

    def compare_mirrors(self):
        first = self.all_keys(self.lake)
        for mirror in self.options.lake[1:]:
            there = self.all_keys(mirror)
            for key in sorted(first - there):
                self.report.find("mirrors", "%s: missing in `%s`" % (key, mirror))
            for key in sorted(there - first):
                self.report.find("mirrors", "%s: only in `%s`" % (key, mirror))
            for key in sorted(first & there):
                if not same_bytes(local(self.lake, key), local(mirror, key)):
                    self.report.find("mirrors", "%s: other bytes in `%s`" % (key, mirror))

    def all_keys(self, lake):
        return set(list_files(lake, self.base)) | set(list_files(lake, self.tables_prefix))

    # Spool and workspace

    def audit_drained(self):
        experiment = os.path.join(self.options.spool, self.options.experiment)
        for datatype in self.datatypes():
            root = os.path.join(experiment, datatype)
            for folder, folders, files in os.walk(root):
                hidden = "/." in folder[len(root) :]
                for name in files:
                    path = os.path.join(folder, name)
                    if hidden or stat.S_ISREG(os.lstat(path).st_mode):
                        self.report.find("drained", "%s: left behind" % path)
                    else:
                        self.report.note("links and special files left in the spool", path)
                if hidden and folders and not files:
                    self.report.find("drained", "%s: bookkeeping folder is not empty" % folder)
        for folder in (os.path.join(self.options.spool, ".sent"), os.path.join(experiment, ".sent")):
            for name in _names(folder):
                self.report.find("drained", "%s: bookkeeping folder is not empty" % os.path.join(folder, name))
        if self.options.workspace:
            outbox = os.path.join(self.options.workspace, "outbox")
            for name in _names(outbox):
                path = os.path.join(outbox, name)
                # An empty hidden file is bookkeeping that holds nothing of anybody.
                if name.startswith(".") and os.path.isfile(path) and os.path.getsize(path) == 0:
                    continue
                self.report.find("outbox", "%s: left behind" % path)

    def audit_quarantine(self):
        root = os.path.join(self.options.spool, ".quarantine")
        good, bad = {}, set()
        for (datatype, filename), versions in self.ledger.items():
            for version in versions:
                if version.good:
                    good[version.sha256] = "%s/%s" % (datatype, filename)
                elif version.sha256 is not None:
                    bad.add(version.sha256)
        # A folder that was quarantined whole has one reason, beside it, for everything in it.
        inherited = {}
        for folder, folders, names in os.walk(root):
            reasons, items = sort_quarantine(names + folders)
            own = inherited.get(folder)
            for name in folders:
                reason = reasons.get(name)
                inherited[os.path.join(folder, name)] = os.path.join(folder, reason) if reason else own
            for name in items:
                if name not in folders:
                    reason = reasons.get(name)
                    reason = os.path.join(folder, reason) if reason else own
                    self.audit_quarantined(os.path.join(folder, name), reason, good, bad)

    def audit_quarantined(self, path, reason_path, good, bad):
        digest = None
        try:
            if stat.S_ISREG(os.lstat(path).st_mode):
                digest = hash_file(path)
        except OSError:
            self.report.note("quarantined files that cannot be read", path)
        if digest in bad:
            self.report.note("quarantined files that the ledger calls bad")
        elif digest in good:
            self.report.find("quarantined_good", "%s: is `%s`" % (path, good[digest]))
        else:
            self.report.note("quarantined files that the ledger does not know by their bytes", path)
        if reason_path is None:
            self.report.find("quarantine_reason", "%s: no reason beside it" % path)
            return
        reason = read_reason(reason_path)
        self.report.note("quarantined: " + reason[:60].strip())
        allowed = self.options.quarantine_allowed
        if allowed is not None and not any(" %s " % plain_words(one) in " %s " % reason for one in allowed):
            self.report.find("quarantine_reason", "%s: `%s`" % (path, reason[:120]))

    # Inventory

    def audit_inventory(self):
        wanted = {bundle.node for bundle in self.bundles.values()} | set(self.options.node)
        there = set(_names(os.path.join(self.lake, ".cannery", "inventory")))
        nodes = wanted if self.options.inventory else wanted & there
        for other in sorted(there - wanted):
            self.report.note("inventories of nodes without objects here", other)
        for node in sorted(nodes):
            lines = self.read_inventory(self.lake, node)
            self.compare_inventory(node, lines)
            for mirror in self.options.lake[1:]:
                self.compare_inventory_days(node, mirror)

    def compare_inventory(self, node, lines):
        """lines: {key: [(place, line)]}"""
        objects = [key for bundle in self.bundles.values() if bundle.node == node
                   for key in (bundle.data_key, bundle.index_key) if key]
        for key in sorted(objects):
            count = len(lines.get(key, ()))
            if count == 0 and self.options.inventory_partial:
                self.report.note("objects without a line in the inventory", key)
            elif count != 1:
                self.report.find("inventory", "%s: %d lines in the inventory of `%s`" % (key, count, node))
        for key in sorted(lines):
            path = local(self.lake, key)
            if not os.path.isfile(path):
                self.report.find("inventory_dangling", "%s: listed at %s, but not in the lake" % (key, lines[key][0][0]))
                continue
            size, digest = measure(path)
            for place, line in lines[key]:
                if (line["Size"], line["SHA256"]) != (size, digest):
                    self.report.find("inventory_bytes", "%s: %s says %s bytes with %s, there are %d with %s" % (
                        key, place, line["Size"], line["SHA256"], size, digest))

    def inventory_days(self, lake, node):
        """(day, place, path) in the order of the days"""
        folder = os.path.join(lake, ".cannery", "inventory", node, self.options.experiment)
        for name in sorted(_names(folder)):
            place = ".cannery/inventory/%s/%s/%s" % (node, self.options.experiment, name)
            match = re.fullmatch(r"(\d{4})-(\d{2})-(\d{2})\.jsonl\.gz", name, re.ASCII)
            if match and is_date(*match.groups()):
                yield name[:10], place, os.path.join(folder, name)
            else:
                self.report.find("inventory_shape", "%s: not <date>.jsonl.gz" % place)

    def read_inventory(self, lake, node):
        listed, before, count, days = {}, "0" * 64, 0, 0
        for day, place, path in self.inventory_days(lake, node):
            lines, confirmed = GzipLines(path), ""
            days += 1
            for number, text in enumerate(lines, 1):
                at = "%s line %d" % (place, number)
                count += 1
                line, fault = inventory_line(text, day, confirmed)
                if fault:
                    self.report.find("inventory_shape", "%s: %s" % (at, fault))
                if line:
                    if line["Prev"] != before:
                        self.report.find("inventory_chain", "%s: names %s, the line before is %s" % (at, line["Prev"], before))
                    confirmed = line["Confirmed"]
                    listed.setdefault(line["Key"], []).append((at, line))
                before = hashlib.sha256(text).hexdigest()
            if lines.fault or lines.unterminated or lines.count == 0:
                self.report.find("inventory_shape", "%s: %s" % (place, lines.fault or "no lines, or the last has no end"))
        self.report.information["inventory of " + node] = {"days": days, "lines": count}
        if days == 0:
            self.report.find("inventory", "`%s` has no inventory" % node)
        return listed

    def compare_inventory_days(self, node, mirror):
        def texts(lake):
            return {place: list(GzipLines(path)) for _, place, path in self.inventory_days(lake, node)}
        one, other = texts(self.lake), texts(mirror)
        for place in sorted(set(one) | set(other)):
            if one.get(place) != other.get(place):
                self.report.find("inventory_mirrors", "%s: not the same in %s" % (place, mirror))


class RawProof:
    """Hashes of one raw text, computed when a ledger version asks for them."""

    def __init__(self, raw):
        self.raw = raw
        self.plain = None

    def of(self, version):
        """True if this text is what the version must be embedded as."""
        if version.raw_sha256 is not None:
            return self.sha256() == version.raw_sha256
        if version.size is None or version.sha256 is None:
            return False
        for end in _LINE_ENDS.get(version.size - len(self.raw), ()):
            digest = self.sha256() if not end else hashlib.sha256(self.raw + end).digest()
            if digest == version.sha256:
                return True
        return False

    def sha256(self):
        if self.plain is None:
            self.plain = hashlib.sha256(self.raw).digest()
        return self.plain


_INVENTORY_FIELDS = {"Key": str, "Size": int, "SHA256": str, "Confirmed": str, "Prev": str}


def inventory_line(text, day, earlier):
    """(line or None, fault or None); a line that is usable may have a fault all the same"""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError) as error:
        return None, "not JSON: %s" % error
    if not isinstance(line, dict):
        return None, "not an object"
    for name, kind in _INVENTORY_FIELDS.items():
        if type(line.get(name)) is not kind:
            return None, "`%s` is absent or of another type" % name
    if ".." in line["Key"].split("/") or line["Key"].startswith("/"):
        return None, "`Key` leads elsewhere"
    if not all(re.fullmatch("[0-9a-f]{64}", line[name]) for name in ("SHA256", "Prev")):
        return line, "not a SHA-256"
    confirmed = line["Confirmed"]
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z", confirmed, re.ASCII):
        return line, "`Confirmed` is not UTC with microseconds: %s" % confirmed
    if not confirmed.startswith(day):
        return line, "`Confirmed` is of another day: %s" % confirmed
    if confirmed < earlier:
        return line, "`Confirmed` is before that of the line before"
    return line, None


def measure(path):
    """Size and SHA-256 of a file."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as stream:
        while True:
            piece = stream.read(INFLATE_BYTES_MAX)
            if not piece:
                return size, digest.hexdigest()
            digest.update(piece)
            size += len(piece)


def same_bytes(one, other):
    try:
        with open(one, "rb") as a, open(other, "rb") as b:
            while True:
                left, right = a.read(INFLATE_BYTES_MAX), b.read(INFLATE_BYTES_MAX)
                if left != right:
                    return False
                if not left:
                    return True
    except OSError:
        return False


_REASON_END = re.compile(r"[._-](reason|why|cause|error|meta|info)s?(\.(json|txt|md))?$|\.txt$", re.IGNORECASE)
_REASON_ALONE = re.compile(r"(reason|why)(\.(json|txt|md))?$", re.IGNORECASE)


def sort_quarantine(names):
    """({quarantined name: its reason's name}, [quarantined names]) of one folder."""
    present = set(names)
    by_stem = {}
    for name in names:
        by_stem.setdefault(os.path.splitext(name)[0], name)
    reasons, shared, used = {}, None, set()
    for name in sorted(names):
        match = _REASON_END.search(name)
        owner = name[: match.start()] if match else None
        if owner in present:
            reasons[owner] = name
            used.add(name)
        elif owner in by_stem and by_stem[owner] != name:
            reasons[by_stem[owner]] = name
            used.add(name)
        elif _REASON_ALONE.match(name):
            shared = name
            used.add(name)
    items = [name for name in sorted(names) if name not in used]
    if shared:
        for name in items:
            reasons.setdefault(name, shared)
    return reasons, items


def plain_words(text):
    return " ".join(re.sub("[^a-z0-9]+", " ", text.lower()).split())


def read_reason(path):
    try:
        with open(path, "rb") as stream:
            text = stream.read(CHUNK_BYTES).decode("utf-8", "replace")
    except OSError as error:
        return "unreadable reason: %s" % error.strerror
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return plain_words(text)
    if isinstance(tree, dict) and "reason" in tree:
        tree = tree["reason"]
    return plain_words(tree if isinstance(tree, str) else json.dumps(tree))


def _names(folder):
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _walk_files(root):
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            try:
                yield path, os.lstat(path).st_mode
            except OSError:
                pass


def parse_options(arguments):
    parser = argparse.ArgumentParser(prog="spool_audit.py", description=__doc__.split("\n\n")[0])
    parser.add_argument("--ledger", required=True, action="append", metavar="LEDGER.ndjson")
    parser.add_argument("--lake", required=True, action="append", metavar="DIR", help="repeat for mirrors")
    parser.add_argument("--spool", required=True, metavar="HOME")
    parser.add_argument("--experiment", required=True)
    parser.add_argument("--object-home", default="autoload/v1")
    parser.add_argument("--organization")
    parser.add_argument("--workspace", metavar="DIR")
    parser.add_argument("--node", action="append", default=[], metavar="machine-site")
    parser.add_argument("--expect-drained", action="store_true")
    parser.add_argument("--quarantine-allowed", metavar="REASON,...")
    parser.add_argument("--id-column", action="store_true")
    parser.add_argument("--index-loadable", action="store_true")
    parser.add_argument("--inventory", action="store_true")
    parser.add_argument("--inventory-partial", action="store_true")
    parser.add_argument("--examples", type=int, default=5, metavar="N", help="examples per check")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if options.quarantine_allowed is not None:
        options.quarantine_allowed = [one for one in options.quarantine_allowed.split(",") if one.strip()]
    if not re.fullmatch("[a-z][a-z0-9]*", options.experiment):
        parser.error("`--experiment` must match ^[a-z][a-z0-9]*$")
    if options.organization is not None and not re.fullmatch("[a-z0-9]+", options.organization):
        parser.error("`--organization` must match ^[a-z0-9]+$")
    last = options.object_home.strip("/").rpartition("/")[2]
    if last == "v2" and not options.organization:
        parser.error("object home v2 requires `--organization`")
    if last == "v1" and options.organization:
        parser.error("object home v1 forbids `--organization`")
    folders = options.lake + [options.spool] + ([options.workspace] if options.workspace else [])
    for folder in folders:
        if not os.path.isdir(folder):
            parser.error("`%s` is not a folder" % folder)
    return options


def main(arguments=None):
    options = parse_options(arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        report = Audit(options).run()
    except UsageError as error:
        print("spool_audit: %s" % error, file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(report.as_json(), indent=1))
    else:
        print(report.as_text())
    return 1 if report.findings() else 0


if __name__ == "__main__":
    sys.exit(main())
