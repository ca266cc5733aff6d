"""Puts the programs of a folder into the wheel, which is for the processor and the C library that they were built for."""

import os
import pathlib
import platform
import sys

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAMS = ("corun", "corun-sql")


class Programs(BuildHookInterface):
    def initialize(self, version, build_data):
        folder = os.environ.get("CORUN_PROGRAMS")
        if folder is None:
            sys.exit("error: CORUN_PROGRAMS is not set\nhint: use scripts/package-wheels")
        programs = {name: pathlib.Path(folder, name) for name in PROGRAMS}
        missing = [str(path) for path in programs.values() if not path.is_file()]
        if missing:
            sys.exit(f"error: not built: {' '.join(missing)}\nhint: make build")
        library, release = platform.libc_ver()
        if library != "glibc":
            sys.exit(f"error: the programs need glibc, and this machine has {library or 'another C library'}")
        build_data["shared_scripts"] = {str(path): name for name, path in programs.items()}
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_{release.replace('.', '_')}_{platform.machine()}"
