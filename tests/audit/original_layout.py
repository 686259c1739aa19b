#!/usr/bin/env python3
"""Writes a bucket as the original pipeline left it: cans and autoclaved files of linked LZ4 blocks with a 4 MB block id.

    original_layout.py LAKE DATE GENERATION

Made after the description of the format alone: the newline of a measurement stands at the start of the next frame, one index
of the bucket says `orig_sha1` and knows no ids. A frame of the second file is several blocks, each linked to the one before. Prints a line of JSON for each measurement: the text that must be read back. It needs the
package `lz4`.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
import zlib

import lz4.frame

FRAME_BYTES = 2_000
LARGE_FRAME_BYTES = 9_000_000


def sums(prefix, data):
    crc = zlib.crc32(data)
    sha1 = base64.b64encode(hashlib.sha1(data).digest()).decode()
    return {f"{prefix}_crc32": crc - (1 << 32) if crc >> 31 else crc, f"{prefix}_sha1": sha1, f"{prefix}_size": len(data)}


def frame(text):
    return lz4.frame.compress(text, compression_level=5, block_size=lz4.frame.BLOCKSIZE_MAX4MB, block_linked=True,
                              content_checksum=True, store_size=True)


def tar(reports):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, lines in reports:
            member = tarfile.TarInfo(name)
            body = b"".join(line + b"\n" for line in lines)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    return out.getvalue()


def index(path, records):
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        for record in records:
            file.write(json.dumps(record, sort_keys=True).encode() + b"\n")


def pieces(reports, text):
    """Where every measurement lies in the text of the tar, with its report."""
    at = 0
    for name, lines in reports:
        for number, line in enumerate(lines):
            at = text.index(line, at)
            yield name, number == 0, number == len(lines) - 1, at, line
            at += len(line)


def autoclaved(name, reports, frame_bytes):
    """Frames end behind a measurement, before its newline."""
    text = tar(reports)
    out, records = b"", [{"filename": name, "type": "file"}]
    begin, pending = 0, []

    def close(end):
        nonlocal out, begin, pending
        data = frame(text[begin:end])
        records.append({"type": "frame", "file_off": len(out), "file_size": len(data), "text_off": begin, "text_size": end - begin})
        records.extend(pending)
        records.append({"type": "/frame"})
        out, begin, pending = out + data, end, []

    for report, is_first, is_last, at, line in pieces(reports, text):
        sha1 = base64.b64encode(hashlib.sha1(line).digest()).decode()
        if is_first:
            pending.append({"type": "report", "textname": report, "src_size": 99, "orig_sha1": sha1})
        pending.append({"type": "datum", "text_off": at, "text_size": len(line), "orig_sha1": sha1})
        if is_last:
            pending.append({"type": "/report"})
        if at + len(line) - begin >= frame_bytes:
            close(at + len(line))
    close(len(text))
    records.append({"type": "/file", **sums("file", out)})
    return out, records


def small(date):
    """Many frames of one block."""
    reports = []
    for number in range(7):
        name = f"{date}/{date.replace('-', '')}T0000{number:02}Z-IT-AS30722-web_connectivity-original{number}-0.2.0-probe.json"
        lines = [json.dumps({"input": f"http://{number}-{line}.example/", "test_name": "web_connectivity", "text": "x" * 40 * line}).encode()
                 for line in range(12)]
        reports.append((name, lines))
    return reports


def large(date):
    """Measurements of about 3 MB, so that a frame has more than two blocks of 4 MB."""
    reports = []
    for number in range(2):
        name = f"{date}/{date.replace('-', '')}T0001{number:02}Z-IT-AS30722-ndt-large{number}-0.2.0-probe.json"
        lines = []
        for line in range(4):
            text = "".join(hashlib.sha1(f"{number} {line} {part}".encode()).hexdigest() for part in range(75_000))
            lines.append(json.dumps({"test_name": "ndt", "line": line, "text": text}).encode())
        reports.append((name, lines))
    return reports


def main():
    lake, date, generation = sys.argv[1:]
    canned, cooked = os.path.join(lake, "canned", date), os.path.join(lake, "autoclaved", generation, date)
    os.makedirs(canned, exist_ok=True)
    os.makedirs(cooked, exist_ok=True)
    cans, joined = [], []
    files = [("web_connectivity.0.tar.lz4", small(date), FRAME_BYTES), ("ndt.0.tar.lz4", large(date), LARGE_FRAME_BYTES)]
    for file_name, reports, frame_bytes in files:
        name = f"{date}/{file_name}"
        text = tar(reports)
        can = frame(text)
        texts = [{"textname": name, **sums("text", b"".join(line + b"\n" for line in lines))} for name, lines in reports]
        with open(os.path.join(lake, "canned", name), "wb") as file:
            file.write(can)
        cans.append({"filename": name, "canned": texts, "text_size": len(text), **sums("file", can)})
        data, records = autoclaved(name, reports, frame_bytes)
        with open(os.path.join(lake, "autoclaved", generation, name), "wb") as file:
            file.write(data)
        joined.extend(records)
        for name, lines in reports:
            for line in lines:
                print(json.dumps({"report": name, "text": line.decode()}))
    index(os.path.join(canned, "index.json.gz"), cans)
    index(os.path.join(cooked, "index.json.gz"), joined)


if __name__ == "__main__":
    main()
