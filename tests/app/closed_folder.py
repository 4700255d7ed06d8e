"""Take from this process the right to write to a folder, which other processes keep.

For Linux, and processes with one thread.
"""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND = 1, 32, 4096
PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2
CAPABILITIES_VERSION = 0x20080522


def mount_read_only(folder: str) -> None:
    """Mount the folder read-only, in a namespace of this process."""
    user, group, here = os.getuid(), os.getgid(), os.getcwd()
    _call("unshare", CLONE_NEWUSER | CLONE_NEWNS)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    path = os.fsencode(folder)
    _call("mount", path, path, None, MS_BIND, None)
    _call("mount", None, path, None, MS_REMOUNT | MS_BIND | MS_RDONLY, None)
    os.chdir(here)


def obey_permissions(_: str) -> None:
    """Drop root's right to ignore permissions, also in programs that this process starts."""
    if os.geteuid() != 0:
        return
    dropped = (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH)
    for capability in dropped:
        _call("prctl", PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(CAPABILITIES_VERSION, 0)
    # Effective, permitted and inheritable ones, first those below 32.
    sets = (ctypes.c_uint32 * 6)()
    _call("capget", header, sets)
    for index in range(3):
        sets[index] &= ~sum(1 << capability for capability in dropped)
    _call("capset", header, sets)


def _call(name: str, *arguments: object) -> None:
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if function is None or function(*arguments):
        error = ctypes.get_errno() or errno.ENOSYS
        raise OSError(error, f"{name}: {os.strerror(error)}")
