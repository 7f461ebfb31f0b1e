# SPDX-License-Identifier: Apache-2.0
"""Whether a folder lies on a file system that several machines share."""

from __future__ import annotations

import os
from pathlib import Path

# SQLite's write-ahead log needs memory shared by all who have the file open: https://www.sqlite.org/wal.html, "same host".
_SHARED = {
    "9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.sshfs", "gfs2", "glusterfs", "gpfs", "lustre",
    "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "smb3", "smbfs", "virtiofs",
}  # fmt: skip


def network_type(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """The type of the network file system that holds `path`, such as nfs4; '' for one of this machine. O(mounts).

    statfs gives a number that FUSE's file systems share, so the kernel's own table of mounts is asked, by device.
    """
    try:
        device = os.stat(path).st_dev
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in lines:
        before, _, after = line.partition(" - ")
        if before.split()[2:3] == [wanted]:
            kind = after.split(" ", 1)[0]
            return kind if kind in _SHARED else ""
    return ""
