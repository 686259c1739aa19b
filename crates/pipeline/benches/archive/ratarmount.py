"""Prints the seconds that ratarmount's library takes to open an archive without an index and to read one measurement of it.

    ratarmount.py ARCHIVE MEMBER UID
"""

import sys
import time

archive, member, uid = sys.argv[1:]
begun = time.perf_counter()
import ratarmountcore

opened = ratarmountcore.open_mount_source if hasattr(ratarmountcore, "open_mount_source") else None
if opened is None:
    from ratarmountcore.mountsource.factory import open_mount_source as opened
source = opened(archive, writeIndex=False, indexFilePath=":memory:", printDebug=0)
path = "/" + member
info = source.lookup(path) if hasattr(source, "lookup") else source.get_file_info(path)
assert info, f"no member {path}"
with source.open(info) as file:
    found = next((line for line in file.read().splitlines() if uid.encode() in line), None)
seconds = time.perf_counter() - begun
assert found, f"no {uid} in {path}"
print(seconds)
