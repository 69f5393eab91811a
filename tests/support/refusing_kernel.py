"""A kernel that refuses every change of a table of nftables."""

import contextlib
import subprocess


@contextlib.contextmanager
def refusing_kernel(table):
    """Another process owns the table of family inet, empty: changes by others fail with EPERM. Afterwards there is none."""
    owner = subprocess.Popen(["nft", "-i"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    owner.stdin.write(f"delete table inet {table}; add table inet {table} {{ flags owner; }}\nlist table inet {table}\n")
    owner.stdin.flush()
    try:
        assert any(line.strip() == "flags owner" for line in owner.stdout)
        yield
    finally:
        owner.stdin.close()
        owner.wait(30)
        owner.stdout.close()
