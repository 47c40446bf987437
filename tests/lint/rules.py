"""The rules of the house. Each takes a Tree and yields "file:line: what is wrong"; the first line of its text is its name
in the report. lint.py runs them; rules.t shows that each can fail."""

import concurrent.futures
import hashlib
import os
import re
import shlex
import subprocess
import time

from tree import bare, functions

RULES = {}


def rule(function):
    RULES[function.__name__] = function
    return function


# ---- arrows --------------------------------------------------------------------------------------------------------

ROOMS = {"steps/spec": "spec", "engine/base": "base", "engine/model": "model", "engine/record": "record", "engine/plan": "plan", "engine/run": "run", "engine/pod": "pod",
         "engine/serve": "serve", "engine/cli": "cli", "storage": "storage", "runners": "runners", "steps": "steps"}
# Who may include what besides itself. Data flows to the right: model, record, plan, run, serve, cli.
BELOW = {"base": [], "spec": ["base"], "model": ["base", "spec"], "storage": ["base"], "runners": ["base"], "steps": ["base", "spec"]}
BELOW["record"] = ["base", "spec", "model", "storage"]
BELOW["plan"] = [*BELOW["record"], "record"]
BELOW["run"] = [*BELOW["plan"], "plan", "runners"]
BELOW["pod"] = [*BELOW["run"], "run"]
BELOW["serve"] = [*BELOW["run"], "run"]
BELOW["cli"] = [*BELOW["serve"], "serve", "pod", "steps"]


def room_of(path):
    if path == "engine/main.c":
        return "cli"
    for folder, room in ROOMS.items():
        if path.startswith(folder + "/"):
            return room
    return None


@rule
def arrows(tree):
    """Includes point the way of the design, and are written from the rooms' roots."""
    folder_of = {room: folder for folder, room in ROOMS.items()}
    for f in tree.code("engine", "storage", "runners", "steps"):
        room = room_of(f)
        if room is None:
            yield f"{f}:1: lies in no room: one of {', '.join(ROOMS)}"
            continue
        for n, line in enumerate(tree.lines(f), start=1):
            m = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
            if not m:
                continue
            where, name = m.groups()
            target, _, rest = name.partition("/")
            if name.startswith("steps/spec/"):
                target, rest = "spec", name[len("steps/spec/"):]
            if where == "<" and (target not in folder_of or not os.path.exists(tree.path(f"{folder_of[target]}/{rest}"))):
                continue
            if where == "<":
                yield f"{f}:{n}: <{name}> is our own: write it in quotes"
            elif target not in folder_of or not rest or ".." in name:
                yield f"{f}:{n}: \"{name}\" isn't written from a room's root, like \"base/err.h\""
            elif not os.path.exists(tree.path(f"{folder_of[target]}/{rest}")):
                yield f"{f}:{n}: \"{name}\" doesn't exist"
            elif target != room and target not in BELOW[room]:
                yield f"{f}:{n}: {room} must not include {target} (\"{name}\")"
            elif target != room and os.path.basename(name) == "internal.h":
                yield f"{f}:{n}: \"{name}\" is internal to {target}"


# ---- headers ---------------------------------------------------------------------------------------------------------

PACKAGES = ["yaml-0.1", "jansson", "sqlite3", "libcrypto", "libarchive", "libjpeg", "libpng", "libzstd", "zlib"]
HEADER_FLAGS = ["-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wstrict-prototypes", "-Wmissing-prototypes", "-Wno-unused-parameter",
                "-Wno-missing-field-initializers", "-Werror", "-fsyntax-only", "-x", "c", "-"]


def include_name(path):
    return path[len("engine/"):] if path.startswith("engine/") else path


def digest_of(*facts):
    digest = hashlib.sha256()
    for fact in facts:
        digest.update(len(fact).to_bytes(8, "big") + fact)
    return digest.digest()


def forget(folder):
    """Marks that nobody asked for in a month."""
    try:
        marks = [os.path.join(folder, name) for name in os.listdir(folder)]
        for old in (m for m in marks if os.stat(m).st_mtime < time.time() - 30 * 86400):
            os.unlink(old)
    except OSError:
        pass  # there is none, or another one tidies


def clean_before(name, files, facts, look, at_once=1):
    """The lines that look(files) says of at_once files, as (file, line) pairs; asked on all processors.

    A file that was clean with the same facts isn't asked again, whichever checkout it was in."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(home, "cairn-tests", "lint", name)

    def mark(f):
        return os.path.join(folder, digest_of(f.encode(), *facts(f)).hex())

    def was_clean(f):
        try:
            os.utime(mark(f))
        except OSError:
            return False
        return True

    def ask(part):
        said = look(part)
        for f in set(part) - {f for f, _ in said}:
            try:
                os.makedirs(folder, exist_ok=True)
                with open(mark(f), "w", encoding="ascii"):
                    pass
            except OSError:
                pass  # nowhere to remember it
        return said

    rest = [f for f in files if not was_clean(f)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for said in pool.map(ask, [rest[i:i + at_once] for i in range(0, len(rest), at_once)]):
            yield from (line for _, line in said)
    if rest:
        forget(folder)


@rule
def headers_alone(tree):
    """Each header compiles alone and twice, without a warning."""
    packages = subprocess.run(["pkg-config", "--cflags", *PACKAGES], stdout=subprocess.PIPE, text=True).stdout.split()
    compiler = shlex.split(os.environ.get("CC", "cc"))
    headers = [f for f in tree.code("engine", "storage", "runners", "steps") if f.endswith(".h")]
    command = [*compiler, f"-I{tree.root}", f"-I{tree.root}/engine", *packages, *HEADER_FLAGS]
    version = subprocess.run([*compiler, "--version"], stdout=subprocess.PIPE).stdout
    # A header may include any other one: all of them are what one depends on.
    base = digest_of(version, " ".join(command).encode(), *(f.encode() + b"\0" + tree.bytes(f) for f in headers))

    def look(part):
        f, = part
        run = subprocess.run(command, input=f'#include "{include_name(f)}"\n' * 2, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if run.returncode == 0:
            return []
        first = next((x for x in run.stdout.split("\n") if "error" in x), run.stdout.strip())
        return [(f, f"{f}:1: doesn't compile alone: {first.replace(tree.root + '/', '')}")]

    yield from clean_before("headers", headers, lambda f: [base], look)


NOTE_FROM = 150  # lines


@rule
def design_notes(tree):
    """A .c of more than 150 lines begins with its design: `/* PATH — what it is`, and at least three lines."""
    for f in tree.code("engine", "storage", "runners", "steps"):
        text = tree.text(f)
        if not f.endswith(".c") or text.count("\n") <= NOTE_FROM:
            continue
        note = text[: text.find("*/")] if text.startswith("/*") else ""
        if not note.startswith(f"/* {f} — ") or note.count("\n") < 2:
            yield f"{f}:1: {text.count(chr(10))} lines, and no note of the design: begin with `/* {f} — what it is`"


@rule
def headers_say(tree):
    """A header opens with its path and purpose, and has the guard of its path."""
    for f in tree.code("engine", "storage", "runners", "steps"):
        if not f.endswith(".h"):
            continue
        name = include_name(f)
        first, text = tree.lines(f)[0], tree.text(f)
        guard = "CAIRN_" + re.sub(r"[^A-Z0-9]", "_", name.upper())
        if not first.startswith(f"/* {f} — "):
            yield f"{f}:1: must open with `/* {f} — purpose`"
        if f"#ifndef {guard}\n#define {guard}\n" not in text:
            yield f"{f}:1: must have the guard {guard}"


# ---- calls -------------------------------------------------------------------------------------------------------------

UNBOUNDED = "has no bound: use struct str or snprintf"
CALLS = {  # name → why not
    **dict.fromkeys(["strcpy", "strcat", "stpcpy", "sprintf", "vsprintf", "gets"], UNBOUNDED),
    **dict.fromkeys(["strncpy", "strncat"], "doesn't end what it cuts: use struct str or snprintf"),
    **dict.fromkeys(["strtok", "localtime", "gmtime", "ctime", "asctime", "readdir_r", "strerror"], "has hidden state or isn't safe in threads"),
    **dict.fromkeys(["atoi", "atol", "atoll", "atof"], "can't tell an error: use base/text/text.h"),
    **dict.fromkeys(["system", "popen"], "goes through a shell: use base/os/process/process.h"),
    **dict.fromkeys(["alloca"], "has no bound and no error"),
    **dict.fromkeys(["tmpnam", "tempnam", "mktemp"], "races: use mkstemp or mkdtemp"),
    **dict.fromkeys(["rand", "srand", "random", "srandom"], "isn't seeded per user of it"),
    **dict.fromkeys(["signal"], "use sigaction or the loop"),
    **dict.fromkeys(["readdir"], "takes an error for the end: use fs_next() of base/os/fs.h"),
    **dict.fromkeys(["fdopendir"], "leaves the descriptor open when it fails: use fs_list() of base/os/fs.h"),
    **dict.fromkeys(["setjmp", "longjmp"], "jumps over cleanup"),
}
CLOCKS = dict.fromkeys(["time", "gettimeofday", "sleep", "usleep", "nanosleep", "clock_nanosleep"], "goes round the virtual clock: use base/time/clock.h or the loop")
MEMORY = dict.fromkeys(["malloc", "calloc", "realloc", "strdup", "strndup", "asprintf", "vasprintf"], "may fail: use base/mem.h, base/text/str.h")
SPEAKS = {**dict.fromkeys(["printf", "puts", "putchar", "vprintf", "perror"], "a library doesn't print: give an err to the caller"),
          **dict.fromkeys(["exit"], "a library doesn't end the program")}
# What the base makes for the others may use what they may not.
AT_HOME = {"engine/base/mem.c": MEMORY, "engine/base/time/clock.c": CLOCKS, "engine/base/os/loop.c": CLOCKS}
IN_TESTS = {**{k: v for k, v in CLOCKS.items() if "sleep" in k}, **{k: CALLS[k] for k in ("strcpy", "strcat", "sprintf", "gets", "strtok", "mktemp", "tmpnam")}}
STREAMS = re.compile(r"\b(?:fprintf|fputs|fputc|fwrite|vfprintf|putc)\s*\([^;]*\b(?:stdout|stderr)\b")


# A program's own front, outside of the cli: the built-in steps are one too.
FRONTS = ("steps/normalise/program.c", "steps/program.c", "steps/step.c", "steps/train/")


def banned_in(path):
    if path.startswith("tests/"):
        return IN_TESTS
    names = {**CALLS, **CLOCKS, **MEMORY}
    if room_of(path) != "cli" and not path.startswith(FRONTS):
        names.update(SPEAKS)
    for name in AT_HOME.get(path, ()):
        names.pop(name, None)
    return names


def excuses(tree, f, n):
    """What line n (from 1) may use: its own comment says so, or one that stands alone above it."""
    lines = tree.lines(f)
    above = lines[n - 2].strip() if n > 1 else ""
    return re.findall(r"/\* lint: (\w+) \w+", lines[n - 1] + (above if above.startswith("/*") else ""))


@rule
def calls(tree):
    """Banned calls: no bound, no error, hidden state, round the clock, printing from a library.

    A line that has to use one says so and why, at its end or above it: /* lint: strcpy fits, the size is checked above */"""
    for f in tree.code("engine", "storage", "runners", "steps", "tests"):
        names = banned_in(f)
        pattern = re.compile(r"(?<![\w.>])(" + "|".join(names) + r")\s*\(")
        for n, line in enumerate(bare(tree.text(f)).split("\n"), start=1):
            excuse = excuses(tree, f, n)
            for m in pattern.finditer(line):
                if m.group(1) not in excuse:
                    yield f"{f}:{n}: {m.group(1)}() {names[m.group(1)]} (or say why not: /* lint: {m.group(1)} because */)"
            if "printf" in names and STREAMS.search(line) and not excuse:
                yield f"{f}:{n}: a library doesn't print: give an err to the caller"


# They measure by the wall clock, which may be set at any moment.
WALL = re.compile(r"\b(CLOCK_REALTIME|pthread_timedjoin_np|pthread_mutex_timedlock|sem_timedwait|mq_timed\w+)\b")


@rule
def clocks(tree):
    """The wall clock is read in one place, for records: what waits or measures does so by a clock that nobody sets.

    A line that has to read it says so and why: /* lint: CLOCK_REALTIME because */"""
    for f in tree.code("engine", "storage", "runners", "steps"):
        text = bare(tree.text(f))
        for n, line in enumerate(text.split("\n"), start=1):
            m = WALL.search(line)
            if m and f != "engine/base/time/clock.c" and m.group(1) not in excuses(tree, f, n):
                yield f"{f}:{n}: {m.group(1)} is the wall clock: use base/time/clock.h, or CLOCK_MONOTONIC for a wait"
        if "pthread_cond_timedwait(" in text and not re.search(r"\b(thread_cond|threads)_init\(", text):
            yield f"{f}:1: pthread_cond_timedwait() waits by the wall clock unless its condition is thread_cond_init()'s (CLOCK_MONOTONIC)"


LIMITS = re.compile(r"\b(?:(?:PATH|NAME|IOV|U?(?:CHAR|SHRT|INT|LONG|LLONG))_MAX|(?:CHAR|SHRT|INT|LONG|LLONG)_MIN)\b")


@rule
def limits(tree):
    """What limits.h defines comes from limits.h: the static program's C library has it nowhere else."""
    for f in tree.code("engine", "storage", "runners", "steps"):
        text = bare(tree.text(f))
        m = LIMITS.search(text)
        if m and not re.search(r"^#include <limits\.h>", text, re.MULTILINE):
            yield f"{f}:{text.count(chr(10), 0, m.start()) + 1}: {m.group()} needs #include <limits.h>"


FILE_KIND = re.compile(r"[!=]=\s*CONTENT_BLOB\b|\bCONTENT_BLOB\s*[!=]=")


@rule
def kinds(tree):
    """Whether content is a file is asked of content_is_file(): who asks for a blob forgets the executable."""
    for f in tree.code("engine", "storage", "runners", "steps"):
        for n, line in enumerate(bare(tree.text(f)).split("\n"), start=1):
            if FILE_KIND.search(line):
                yield f"{f}:{n}: an executable is a file, too: ask content_is_file(), or where it lies content_space()"


SQL_CALL = re.compile(r"\bsqlite3_(?:bind|column|prepare|step|changes|last_insert|reset|finalize)\w*(?=\s*\()")
SQL_HOME = re.compile(r"engine/record/db\w*\.c")


@rule
def statements(tree):
    """Statements are asked, bound and read by type, in record/db*.c: nobody counts places and columns by hand."""
    for f in tree.code("engine", "storage", "runners", "steps"):
        if SQL_HOME.fullmatch(f):
            continue
        text = bare(tree.text(f))
        for n, line in enumerate(text.split("\n"), start=1):
            m = SQL_CALL.search(line)
            if m:
                yield f"{f}:{n}: {m.group()}() is record/db_sql.c's: use db_do(), db_get(), db_get_rows() or db_query()"
        if "record/db_sql.h" in tree.text(f) and room_of(f) != "record":
            yield f"{f}:1: SQL is written in engine/record, beside the rows' structs"


@rule
def prefixes(tree):
    """A function that others can call is named after its module: two words, or its header's name.

    The allocators that end the program (xmalloc() and its kin) are called as everywhere."""
    for f in tree.code("engine", "storage", "runners", "steps"):
        if not f.endswith(".c"):
            continue
        code, stem = bare(tree.text(f)), os.path.basename(f)[:-2]
        for m in EXTERN.finditer(code):
            name = m.group(1)
            if "_" in name or name in ("main", stem) or re.match(r"x[a-z]*(alloc|allocarray|dup|ndup|printf)$", name):
                continue
            if not re.search(r"\bstatic\b", m.group().split("(")[0]):
                yield f"{f}:{code.count(chr(10), 0, m.start()) + 1}: {name}() doesn't say whose it is: put its module's name before it"


# ---- sizes -------------------------------------------------------------------------------------------------------------

FILE_MAX, FUNCTION_MAX, COLUMN_MAX = 1200, 150, 100


# Stand-ins for the world, which only tests and the benchmark use.
STAND_INS = ("runners/fake", "storage/bucket/memory.c")
EXTERN = re.compile(r"^(?!static\b|typedef\b|else\b)[A-Za-z_][\w \t\n*]*?\b(\w+)\((?:[^(){};]|\([^(){};]*\))*\)\s*\n\{", re.M)


@rule
def unused(tree):
    """A function that others can call is called by others: by the program, not only by its tests.

    What a test has to reach says so and why above its definition: /* lint: unused because */"""
    text = {f: bare(tree.text(f)) for f in tree.code("engine", "storage", "runners", "steps", "tests")}
    where = {}
    for f, code in text.items():
        for word in re.findall(r"\b[A-Za-z_]\w*", code):
            counts = where.setdefault(word, {})
            counts[f] = counts.get(f, 0) + 1
    for f, code in text.items():
        if f.startswith(("tests/", *STAND_INS)) or not f.endswith(".c"):
            continue
        for m in EXTERN.finditer(code):
            name = m.group(1)
            n = code.count("\n", 0, m.start()) + 1
            if name == "main" or re.search(r"\bstatic\b", m.group().split("(")[0]) or "unused" in excuses(tree, f, n):
                continue
            others = {g: k for g, k in where[name].items() if g != f}
            if any(not g.startswith("tests/") and (g.endswith(".c") or k > 1) for g, k in others.items()):
                continue
            if where[name][f] == 1:
                yield f"{f}:{n}: nobody calls {name}() but a test, if that"
            elif not any(g.startswith("tests/") for g in others):
                yield f"{f}:{n}: only this file calls {name}(): make it static"


@rule
def lengths(tree):
    """No file over 1200 lines, no function over 150, no line over 100 columns; braces where they can be counted."""
    for f in tree.files:
        if not f.endswith((".c", ".h", ".sh", ".t", ".py", ".pl")):
            continue
        lines = tree.lines(f)
        if len(lines) > FILE_MAX:
            yield f"{f}:{len(lines)}: {len(lines)} lines in a file, {FILE_MAX} at most"
        if not f.endswith((".c", ".h")):
            continue
        for n, line in enumerate(lines, start=1):
            width = len(line.expandtabs(8))
            if width > COLUMN_MAX and not re.search(r"https?://", line):
                yield f"{f}:{n}: {width} columns in a line, {COLUMN_MAX} at most"
        for n, name, size in functions(tree.text(f)):
            if size > FUNCTION_MAX:
                yield f"{f}:{n}: {name} has {size} lines, {FUNCTION_MAX} at most"
        for n, line in enumerate(bare(tree.text(f)).split("\n"), start=1):
            if re.match(r"[a-z][^=;#]*\)\s*\{\s*$", line) and not re.match(r"(typedef|struct|enum|union)\b[^(]*\{", line):
                yield f"{f}:{n}: a function's brace stands alone in the first column"


@rule
def form(tree):
    """C is laid out by clang-format, as .clang-format says: `git ls-files '*.[ch]' | xargs clang-format -i`."""
    files = tree.code()
    if not files or not os.path.exists(tree.path(".clang-format")):
        return
    version = subprocess.run(["clang-format", "--version"], stdout=subprocess.PIPE).stdout
    base = digest_of(version, tree.bytes(".clang-format"))

    def look(part):
        done = subprocess.run(["clang-format", "--dry-run", "-Werror", "-ferror-limit=1", *part], cwd=tree.root,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        said = done.stderr.decode("utf-8", "replace")
        found = [(f, f"{f}:{n}: clang-format -i would change this file")
                 for f, n in re.findall(r"^(\S+?):(\d+):\d+: error: ", said, re.M)]
        return found if found or done.returncode == 0 else [(f, f".clang-format:1: {said[:300]}") for f in part]

    yield from clean_before("form", files, lambda f: [base, tree.bytes(f)], look, at_once=25)


def report_lengths(tree):
    """For people: how long functions and files are."""
    sizes = sorted((size, f"{f}:{n} {name}") for f in tree.code("engine", "storage", "runners", "steps") for n, name, size in functions(tree.text(f)))
    files = sorted((len(tree.lines(f)), f) for f in tree.code("engine", "storage", "runners", "steps"))
    if not sizes:
        return
    yield f"{len(sizes)} functions: median {sizes[len(sizes) // 2][0]} lines, 9 of 10 under {sizes[len(sizes) * 9 // 10][0]}"
    yield "longest: " + ", ".join(f"{where} {size}" for size, where in reversed(sizes[-5:]))
    yield f"{len(files)} files; over 700 lines: " + (", ".join(f"{f} {n}" for n, f in reversed(files) if n > 700) or "none")


# ---- text --------------------------------------------------------------------------------------------------------------

@rule
def whitespace(tree):
    """No trailing blanks, carriage returns or missing last newlines; tabs indent C and shell, spaces Python and YAML."""
    for f in tree.files:
        if not tree.readable(f):
            continue
        text = tree.text(f)
        if text and not text.endswith("\n"):
            yield f"{f}:{text.count(chr(10)) + 1}: no newline at the end"
        if text.endswith("\n\n"):
            yield f"{f}:{text.count(chr(10))}: empty lines at the end"
        for n, line in enumerate(text.split("\n"), start=1):
            if line.endswith("\r"):
                yield f"{f}:{n}: carriage return"
            elif line != line.rstrip(" \t"):
                yield f"{f}:{n}: blanks at the end of the line"
            elif f.endswith((".py", ".yaml", ".yml")) and re.match(r" *\t", line):
                yield f"{f}:{n}: indented with a tab"


@rule
def unfinished(tree):
    """What isn't done is said in an error or an issue, not in a mark in the code."""
    for f in tree.files:
        if tree.readable(f) and not f.startswith("tests/lint/"):
            for n, line in enumerate(tree.lines(f), start=1):
                m = re.search(r"\b(TODO|FIXME|HACK)\b|\bXXX\b(?!X)", line)
                if m:
                    yield f"{f}:{n}: {m.group()}"


# Hosts that documents, schemas and licences may name. A package registry, a mirror or a machine of ours is none of them.
HOSTS = re.compile(r"(?:[\w-]+\.)*(?:example|example\.(?:com|org|net)|invalid|test|localhost|github\.com|github\.io|githubusercontent\.com|apache\.org|json-schema\.org|"
                   r"schemastore\.org|w3\.org|ietf\.org|rfc-editor\.org|sqlite\.org|kernel\.org|debian\.org|no-color\.org|yaml\.org|"
                   r"scikit-learn\.org|ninja-build\.org|kubernetes\.io|man7\.org|unicode\.org|openlineage\.io|slsa\.dev|in-toto\.io|w3id\.org|schema\.org|spdx\.org|docker\.(?:io|com)|editorconfig\.org|shellcheck\.net|\d+\.\d+\.\d+\.\d+)")
PRIVATE_PATH = re.compile(r"(?<![\w.$}/*~-])/(?:w[o]rk|r[o]ot|Us[e]rs|h[o]me/(?!user\b|me\b|alice\b)\w+)/\w")
PRIVATE_ADDRESS = re.compile(r"(?<![\w.])(?:10\.\d+|172\.(?:1[6-9]|2\d|3[01])|192\.168)\.\d+\.\d+(?![\w.])")
KEY = re.compile(r"BEGIN (?:RSA |EC |OPENSSH )?PRIVATE KEY|\bAKIA(?!IOSFODNN7EXAMPLE)[0-9A-Z]{16}\b")


@rule
def private(tree):
    """No path, host, address or key of the machines on which this is made."""
    for f in tree.files:
        if not tree.readable(f) or f == "LICENSE":
            continue
        for n, line in enumerate(tree.lines(f), start=1):
            for m in re.finditer(r"https?://([A-Za-z0-9.-]*[A-Za-z0-9])", line):
                if "." in m.group(1) and not HOSTS.fullmatch(m.group(1)):
                    yield f"{f}:{n}: host {m.group(1)} isn't one that documents may name"
            for what, pattern in (("path", PRIVATE_PATH), ("address", PRIVATE_ADDRESS), ("key", KEY)):
                m = pattern.search(line)
                if m and "lint: private" not in line:
                    yield f"{f}:{n}: a private {what}: {m.group()}"


# ---- layout ------------------------------------------------------------------------------------------------------------

FOLDERS = {"engine", "packaging", "storage", "runners", "steps", "pipelines", "examples", "tests", "docs", "web", "python", ".ci"}
TOP_FILES = {"CMakeLists.txt", "action.yml", "CMakePresets.json", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md",
             "LICENSE"}
TEST_FOLDERS = {"unit", "core", "cli", "net", "fault", "fuzz", "bench", "cluster", "lint", "serve", "peers", "packaging", "docs",
                "python", "suite", "web"}
FILE_BYTES_MAX = 1 << 20


@rule
def layout(tree):
    """The top level and tests/ hold what the design says; folders have a README; scripts are executable, the rest isn't."""
    tops = {f.split("/")[0] for f in tree.files if "/" in f}
    for top in sorted(tops - FOLDERS):
        yield f"{top}:1: no folder of the design"
    for top in sorted(tops - {".ci"}):
        if f"{top}/README.md" not in tree.files:
            yield f"{top}:1: has no README.md that says what lives there"
    for f in tree.files:
        if "/" not in f and f not in TOP_FILES and not f.startswith("."):
            yield f"{f}:1: doesn't belong on the top level"
        if f.startswith("tests/") and f.count("/") > 1 and f.split("/")[1] not in TEST_FOLDERS:
            yield f"{f}:1: tests/ has the folders {', '.join(sorted(TEST_FOLDERS))}"
        if os.path.islink(tree.path(f)):
            continue
        if os.path.getsize(tree.path(f)) > FILE_BYTES_MAX:
            yield f"{f}:1: over {FILE_BYTES_MAX} bytes"
        can_run = os.access(tree.path(f), os.X_OK) and os.stat(tree.path(f)).st_mode & 0o111
        if can_run and not tree.shebang(f):
            yield f"{f}:1: executable, but no script"
        elif tree.shebang(f) and not can_run and not f.endswith(".t"):
            yield f"{f}:1: a script that isn't executable"


ENTRIES_MAX = 25
# Cases of one test, a file each: nobody reads such a folder from end to end.
CASES = re.compile(r"tests/(fuzz/corpus|unit/model/bad)(/|$)")


@rule
def folders(tree):
    """A folder is taken in at a glance: it has no more than 25 files and folders, those of tests too."""
    entries = {}
    for f in tree.files:
        parts = f.split("/")
        for i in range(1, len(parts)):
            entries.setdefault("/".join(parts[:i]), set()).add(parts[i])
    for folder, inside in sorted(entries.items()):
        if len(inside) > ENTRIES_MAX and not CASES.match(folder):
            yield f"{folder}:1: has {len(inside)} entries: over {ENTRIES_MAX}, put what belongs to one idea into a folder of its own"


NAMED_FILE = re.compile(r"`([\w./-]+\.(?:c|h|t|py|sh)|[\w-][\w.-]*(?:/[\w.-]+)*/)`")


def is_there(tree, name, folder):
    """Below the folder, by a path or by the end of one; or seen from a folder above."""
    name = name.rstrip("/").removeprefix("./")
    paths = tree.files + sorted({f[:i] for f in tree.files for i, c in enumerate(f) if c == "/"})
    if any(p.startswith(folder) and (p == folder + name or p.endswith("/" + name)) for p in paths):
        return True
    above = {folder[:i + 1] for i, c in enumerate(folder) if c == "/"} | {""}
    return any(up + name in paths for up in above)


@rule
def named_files(tree):
    """The files and folders that a README names in backquotes are there."""
    for f in tree.files:
        if os.path.basename(f) not in ("README.md", "CONTRIBUTING.md"):
            continue
        blank = (lambda m: "\n" * m.group().count("\n"))  # what a reader types isn't meant
        text = re.sub(r"^```.*?^```", blank, tree.text(f), flags=re.S | re.M)
        folder = f[:f.rfind("/") + 1]
        for n, line in enumerate(text.split("\n"), start=1):
            for name in NAMED_FILE.findall(line):
                if not re.search("[A-Z]{3}", name) and not is_there(tree, name, folder):
                    yield f"{f}:{n}: there is no {name}"


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}


@rule
def links(tree):
    """A link of a page to another one of the tree leads to a file, and to a heading of it."""
    places = {f[:i] for f in tree.files for i, c in enumerate(f) if c == "/"} | set(tree.files)
    for f in tree.files:
        if not f.endswith(".md"):
            continue
        for n, line in enumerate(tree.lines(f), start=1):
            for to in re.findall(r"\]\(([^)\s]+)\)", line):
                path, _, anchor = to.partition("#")
                there = os.path.normpath(os.path.join(os.path.dirname(f), path)) if path else f
                if re.match(r"[a-z]+:", to):
                    continue
                if there not in places:
                    yield f"{f}:{n}: the link {to} leads to no file"
                elif anchor and anchor not in anchors(tree.text(there)):
                    yield f"{f}:{n}: {there} has no heading for #{anchor}"


# ---- shell -------------------------------------------------------------------------------------------------------------

SOURCES = re.compile(r"^\s*(?:\.|source)\s|shellcheck source=|(?:&&|\|\||;|then|do|\{)\s+\.\s")

@rule
def shell(tree):
    """shellcheck has nothing to say."""
    scripts = [f for f in tree.shell() if "/samples/" not in f]
    check = ["shellcheck", "-x", "-P", "SCRIPTDIR", "-S", "warning", "-f", "gcc"]
    version = subprocess.run(["shellcheck", "--version"], stdout=subprocess.PIPE).stdout
    base = digest_of(version, " ".join(check).encode())
    named = {}  # what may be sourced, by the name that a line which sources it has
    for f in scripts:
        named.setdefault(os.path.basename(f), []).append(f)

    def sourced(f, seen):
        """What f is checked with: every script that a line of it may source, and what that one sources."""
        for line in tree.lines(f):
            if SOURCES.search(line):
                for name in set(re.findall(r"[\w.-]+", line)) & named.keys():
                    for other in named[name]:
                        if other not in seen:
                            seen.add(other)
                            sourced(other, seen)
        return seen

    def look(part):
        f, = part
        run = subprocess.run([*check, f], cwd=tree.root, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        lines = [x for x in run.stdout.split("\n") if x]
        return [(f, x) for x in (lines if run.returncode == 0 or lines else [f"{f}:1: shellcheck: exit {run.returncode}"])]

    yield from clean_before("shellcheck", scripts,
                            lambda f: [base, *(x.encode() + b"\0" + tree.bytes(x) for x in [f, *sorted(sourced(f, {f}))])], look)


# What reads no more than it needs: the producer may die of SIGPIPE. GNU grep also stops early when it writes to /dev/null.
STOPS_EARLY = re.compile(r"""(?<!\|)\|&?\s*(?:\w+=\S*\s+)*(?:(head)\b|(grep)\b(?=[^|;)]*(?:\s-\w*[qm]|\s--(?:quiet|silent|max-count)|>\s*/dev/null))|
                              (sed)\b(?=[^|]*[\s'"{;/\d$]q\s*(?:['"};]|$))|(awk)\b(?=[^|]*\bexit\b)|(read)\b)""", re.X)


def has_status(before):
    """Whether somebody looks at how the pipeline ends: not in <( ), and not in `sh -c`, which has no pipefail."""
    inside = before[before.rfind("<("):] if "<(" in before else ""
    return inside.count("(") <= inside.count(")") and not re.search(r"(?<!ba)\bsh -c ", before)


@rule
def pipes(tree):
    """Nothing is piped into a command that stops reading early: under pipefail, whether the producer dies of it is luck."""
    for f in tree.shell():
        before = ""
        for n, line in enumerate(tree.lines(f), start=1):
            text = before + re.sub(r"^\s*#.*", "", line)
            for m in STOPS_EARLY.finditer(text):
                if m.end() > len(before) and has_status(text[:m.start()]):
                    name = next(x for x in m.groups() if x)
                    yield f"{f}:{n}: `| {name}` may end before its producer: write to a file first, or `| sed -n 1p`"
            before = text[:-1] if text.endswith("\\") else text if text.endswith("|") else ""


@rule
def rooms(tree):
    """Each shell test is some room's in tests/rooms.txt, and what that table names exists."""
    table = "tests/rooms.txt"
    if table not in tree.files:
        return
    named = set()
    for n, line in enumerate(tree.lines(table), start=1):
        for name in [] if line.startswith("#") else line.split()[2:]:
            named.add(f"tests/{name}.t")
            if f"tests/{name}.t" not in tree.files:
                yield f"{table}:{n}: there is no tests/{name}.t"
    for f in tree.files:
        if re.fullmatch(r"tests/(cli|fault|net|serve|peers|python)/[\w/]+\.t", f) and f not in named:
            yield f"{f}:1: is no room's in {table}"


@rule
def shell_tests(tree):
    """A shell test ends with test_done, waits for events only, and leaves the trap on EXIT to lib.sh."""
    for f in tree.files:
        if f.startswith("tests/") and f.endswith((".t", ".sh")) and f != "tests/lib.sh":
            for n, line in enumerate(tree.lines(f), start=1):
                if re.search(r"\btrap\s+(?!on\b).*\sEXIT\b", line) and not re.match(r"\s*#", line):
                    yield f"{f}:{n}: a trap on EXIT decides how the file ends: test_when_over, test_when_finished in a test"
        if not f.endswith(".t") or not f.startswith("tests/"):
            continue
        text = tree.text(f)
        if "test_done" not in [x for x in text.split("\n") if x][-1:]:
            yield f"{f}:{text.count(chr(10))}: the last line must be test_done"
        for n, line in enumerate(text.split("\n"), start=1):
            if re.match(r"\s*(sleep|usleep)\s+[\d.]+\s*$", line):
                yield f"{f}:{n}: a test doesn't sleep to wait: wait_until"
            if re.match(r"\s*wait_until \S+ test \"?\$\(", line):
                yield f"{f}:{n}: what $(...) says is asked once, before the waiting: wait for a function"


ASSERTION = (r"(?:[A-Z_]+=\S+ )*"
             r"(?:test_(?!have\b|gone\b|tool\b|skip\w*\b|bail\b|say\b)\w+|wait_until)\b")
# A line that begins with a command (no condition, group or entry of YAML) and goes on behind &&.
LEFT_OF_AND = re.compile(r"\t+(?!\t|\[|test |if |elif |while |until |!|\(|\{|case |#|-|"
                         r"\w+:|for |\w+\(\) \{)"
                         r"[^({|]*[^&|({]&& (?!exit|return|break|continue|\{)")


def without_quotes(line):
    return re.sub(r"'[^']*'", "''", re.sub(r'"(?:\\.|[^"\\])*"', '""', line))


def careful_functions(lines):
    """The functions with two assertions or more: the first ones count under set -e only."""
    name, count = None, 0
    for line in lines:
        m = re.match(r"(\w+)\(\) \{", line)
        if m and not line.rstrip().endswith("}"):
            name, count = m.group(1), 0
        elif name and line == "}":
            if count > 1:
                yield name
            name = None
        elif name and re.match(r"\s+" + ASSERTION, line):
            count += not re.search(r"\|\| (return|exit)", line)


@rule
def lost_failures(tree):
    """Each command of a shell test that fails fails it: none stands where `set -e` doesn't look.

    That is left of && and ||, behind if and !, and in a function that is called there."""
    for f in tree.files:
        if not f.endswith(".t") or not f.startswith("tests/"):
            continue
        lines = tree.text(f).split("\n")
        careful = "|".join(careful_functions(lines)) or "-"
        for n, line in enumerate(lines, start=1):
            bare_line = without_quotes(line)
            goes_on = bare_line.endswith("&&") or lines[n - 2].endswith("&&")
            if LEFT_OF_AND.match(bare_line) and "||" not in bare_line and not goes_on:
                yield f"{f}:{n}: left of && nothing fails the test: a line for each command"
            if re.match(r"\s*if " + ASSERTION, bare_line):
                yield f"{f}:{n}: an assertion that is a condition can't fail the test"
            if re.match(r"\t+" + ASSERTION + r".*\|\| (true|:)\s*(#|;|$)", bare_line):
                yield f"{f}:{n}: an assertion whose failure is thrown away"
            if re.match(r"\s*if [^;|]*\bcairn [^;|]*; then (return|exit) 1", bare_line):
                yield f"{f}:{n}: a crash is no refusal: test_must_fail, or test_code"
            before = r"(?:if|until|while|!|test_must_fail|test_code \S+|wait_until \S+)"
            m = re.match(rf"\t+(?:{before} ({careful})\b|({careful})\b[^|]*(?:\|\||&&))", bare_line)
            if m:
                name = m.group(1) or m.group(2)
                yield f"{f}:{n}: of {name}() only the last assertion counts here"
