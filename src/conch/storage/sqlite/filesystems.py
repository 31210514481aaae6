"""Which filesystem a path is on: SQLite's locks are not to be trusted on network ones."""

from __future__ import annotations

import os
import sys

# fmt: off
NETWORK_FILESYSTEMS = frozenset({
    "nfs", "nfs3", "nfs4", "cifs", "smbfs", "smb2", "smb3", "9p", "afs", "afpfs", "ceph", "gfs", "gfs2",
    "glusterfs", "lustre", "ncpfs", "ocfs2", "webdav", "davfs", "davfs2", "beegfs", "gpfs", "pvfs2", "orangefs",
    "moosefs", "vboxsf", "prl_fs", "vmhgfs",
    "fuse.sshfs", "fuse.glusterfs", "fuse.cephfs", "fuse.ceph-fuse", "fuse.rclone", "fuse.s3fs", "fuse.davfs",
    "fuse.mfs", "fuse.vmhgfs-fuse", "fuse.smbnetfs", "fuse.nfs",
})
# fmt: on


def network_filesystem(path: str) -> str | None:
    """The type of the network filesystem that holds this existing path, or None on a local disk."""
    if sys.platform == "darwin":
        return _darwin_network_filesystem(path)
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            kind = filesystem_type(os.path.realpath(path), file.read())
    except OSError:
        return None
    return kind if kind in NETWORK_FILESYSTEMS else None


def filesystem_type(path: str, mountinfo: str) -> str | None:
    """The type of the deepest mount above a path; of several mounts at one place the last one counts."""
    deepest, kind = "", None
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, types = left.split(" "), right.split(" ")
        if len(fields) < 5:
            continue
        mount = fields[4].encode().decode("unicode_escape") if "\\" in fields[4] else fields[4]
        inside = path == mount or path.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(deepest):
            deepest, kind = mount, types[0]
    return kind


def _darwin_network_filesystem(path: str) -> str | None:
    import ctypes

    # struct statfs with 64-bit inodes: f_flags at byte 64, f_fstypename (16 bytes) at 72.
    local_flag, room_for_struct = 0x1000, 4096
    buffer = ctypes.create_string_buffer(room_for_struct)
    if ctypes.CDLL(None).statfs(os.fsencode(path), buffer) != 0:
        return None
    flags = int.from_bytes(buffer.raw[64:68], sys.byteorder)
    kind = buffer.raw[72:88].split(b"\0")[0].decode()
    return None if flags & local_flag else kind
