"""Which file system a path lies on, as far as it decides how SQLite may be used there."""

from __future__ import annotations

import re
from pathlib import Path

MOUNTINFO = Path("/proc/self/mountinfo")

_NETWORK = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "gfs2"}
    | {"glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "panfs", "pvfs2", "smb2", "smb3", "smbfs"}
)


def network_filesystem(path: Path, mountinfo: Path | None = None) -> str | None:
    """The type (`nfs4`, …) of the network file system that holds `path`, or None for a local one.

    SQLite's WAL keeps its index in memory shared by all connections, which machines do not share. The path need not
    exist. Where the kernel does not list mounts (no /proc), None. Format: proc_pid_mountinfo(5).
    """
    try:
        lines = (mountinfo or MOUNTINFO).read_text(errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return None
    place = path.resolve()
    kind, longest = "", -1
    for line in lines:
        head, separator, tail = line.partition(" - ")
        fields = head.split(" ")
        if not separator or len(fields) < 5:
            continue
        mount = Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4]))
        depth = len(mount.parts)
        # The later line wins among equals: it is mounted over the earlier one.
        if place.is_relative_to(mount) and depth >= longest:
            kind, longest = tail.split(" ")[0], depth
    return kind if kind in _NETWORK else None
