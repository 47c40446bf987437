"""no_call.py NUMBER ERRNO COMMAND...: runs it as on a kernel that refuses this system call (seccomp)."""
import ctypes
import os
import struct
import sys

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
LOAD_NUMBER, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000


class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


number, errno = int(sys.argv[1]), int(sys.argv[2])
rules = [(LOAD_NUMBER, 0, 0, 0), (EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE | errno), (RETURN, 0, 0, ALLOW)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
libc = ctypes.CDLL(None)
assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(Program(len(rules), ctypes.addressof(code))), 0, 0) == 0
os.execvp(sys.argv[3], sys.argv[3:])
