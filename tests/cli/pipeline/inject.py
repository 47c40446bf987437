"""inject.py MEDIUM: feeds hostile names and values through the product and reads what comes out
with a parser of that medium. Values must come back equal, or must have been refused."""

import html.parser
import json
import os
import pty
import re
import shlex
import sqlite3
import subprocess
import sys
import unicodedata
import urllib.parse
import xml.etree.ElementTree as xml

VALUES = {
    "quotes": "a\"b'c`d\\",
    "lines": "a\nb\rc\td\n# e",
    "markup": "</script><script>alert(1)</script><!-- ]]> &amp; --></style></title>",
    "template": "%n %(x)s %% {{ 7*7 }} $(id) `id` #{x} %{x}",
    "sql": "'; DROP TABLE runs; --",
    "terminal": "\x1b]0;owned\x07\x1b[2J\x1b[31m\x9b2J\x7f\x1b]52;c;aGk=\x1b\\",
    "bidi": "x\u202egnp.exe\u2066\u2028y\ufeff",
    "none": "\ufffe\uffff\ufdd0\U0001ffff",
    "dot": '"]; evil [label="x\\',
    "option": "--help",
    "place": "../../../etc/passwd",
    "long": "x" * 65536,
}
# As file names: what a name can hold, and bytes that are no text.
NAMES = [v.replace("/", "_").encode()[:200] for v in VALUES.values()] + [b"\xff\xfe\xc3(bytes"]
METRIC = 'a b\x1b]0;x\x07<b>"'


def cairn(*args, env=None, code=0):
    p = subprocess.run(["cairn", *args], capture_output=True, env={**os.environ, **(env or {})})
    assert p.returncode == code, (args, p.returncode, p.stderr[-2000:])
    return p.stdout


def facts(*args):
    return json.loads(cairn(*args, "--json").decode("utf-8"))


def yaml_of(value):
    """JSON is YAML, with what isn't ASCII as the escapes that YAML has."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(c if " " <= c <= "~" else f"\\U{ord(c):08x}" for c in text)


def project():
    open("cairn.yaml", "a").close()
    os.makedirs("in", exist_ok=True)
    for name in NAMES:
        with open(os.path.join(b"in", name), "wb") as f:
            f.write(name)
    short = {k: v for k, v in VALUES.items() if k != "long"}
    env = {f"E{i}": v for i, v in enumerate(VALUES.values())}
    metrics = json.dumps({METRIC: 1, "loss": 2}).replace("\\", "\\\\").replace("'", "'\\''")
    with open("pipeline.yaml", "w") as f:
        f.write(
            yaml_of(
                {
                    "pipeline": "hostile",
                    "description": VALUES["markup"] + VALUES["terminal"],
                    "params": {
                        k: {"type": "string", "default": v, "help": v} for k, v in short.items()
                    },
                    "inputs": {"raw": "in/"},
                    "defaults": {"image": "registry.test/a@sha256:" + "0" * 64, "env": env},
                    "steps": {
                        "many": {
                            "matrix": {"v": list(VALUES.values())},
                            "run": (
                                'printf %s "${{ matrix.v }}" >${{ outputs.o }}; cat ${{ outputs.o'
                                " }}; printf '"
                                + metrics
                                + "' >${{ outputs.m }}"
                            ),
                            "outputs": {"o": "o.txt", "m": "m.json"},
                            "metrics": "m.json",
                        },
                        "each": {
                            "each": "${{ inputs.raw }}/*",
                            "run": "cp ${{ inputs.x }} ${{ outputs.o }}",
                            "inputs": {"x": "${{ item }}"},
                            "outputs": {"o": "o"},
                        },
                        "params": {
                            "run": (
                                "".join(
                                    f'printf "%s\\0" "${{{{ params.{k} }}}}" >>${{{{ outputs.o'
                                    " }}; "
                                    for k in short
                                )
                                + "date +%s%N >>${{ outputs.o }}"
                            ),
                            "outputs": {"o": "o"},
                        },
                        "fails": {
                            "run": (
                                "cat "
                                + "".join(
                                    f'"${{{{ params.{k} }}}}" '
                                    for k in ("terminal", "markup", "bidi")
                                )
                                + "/none; exit 3"
                            )
                        },
                    },
                }
            )
        )


# --- terminal ---------------------------------------------------------------------------------

# What cairn itself may write: colours, and for live progress the cursor up and clearing.
OURS = re.compile(r"\x1b\[(?:[0-9;:]*m|[0-9]*[AJK])")


def on_terminal(args):
    said = b""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLUMNS="120", LINES="40")
        os.environ.pop("NO_COLOR", None)
        os.execvp("cairn", ["cairn", *args])
    while True:
        try:
            said += os.read(fd, 65536)
        except OSError:  # its other end was closed
            break
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    return said, os.waitstatus_to_exitcode(status)


def check_terminal(args, said):
    text = OURS.sub("", said.decode("utf-8"))
    for c in text:
        good = c in "\n\r\t" or not (
            unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") or ord(c) & 0xFFFE == 0xFFFE
        )
        assert good, (args, hex(ord(c)), text[max(0, text.index(c) - 60) :][:120])


def terminal(codes):
    for args, code in codes:
        said, got = on_terminal(args)
        assert got in code, (args, got, said[-500:])
        assert said, args
        check_terminal(args, said)


def medium_terminal():
    run = facts("runs")["runs"][0]["id"]
    terminal(
        [
            (["run", "-p", "quotes=2"], [1]),
            (["run", "-q", "-p", "quotes=2"], [1]),
            (["check"], [0]),
            (["plan"], [0]),
            (["graph"], [0]),
            (["graph", "--tasks"], [0]),
            (["runs"], [0]),
            (["status"], [0]),
            (["status", "-v"], [0]),
            (["metrics", "-a"], [0]),
            (["logs"], [0]),
            (["logs", "many", "--run", run], [0]),
            (["logs", "fails"], [0]),
            (["lineage", "last/params/o"], [0]),
            (["why", "params"], [0]),
            (["diff", "last", "last"], [0]),
            (["store", "verify"], [0]),
            (["doctor"], [0, 1]),
            (["run", VALUES["terminal"] + ".yaml"], [3]),
            (["run", "-p", VALUES["terminal"] + "=1"], [2, 3]),
            (["run", VALUES["bidi"]], [2, 3]),
            (["status", "--run", VALUES["terminal"]], [2, 4]),
            (["logs", VALUES["terminal"]], [4]),
            (["get", VALUES["terminal"]], [2, 4]),
            (["-C", VALUES["terminal"], "runs"], [4]),
            (["--" + VALUES["terminal"]], [2]),
            ([VALUES["terminal"]], [2]),
        ]
    )


def medium_log():
    """Bytes where they are bytes; at a terminal colours, and nothing else that it obeys."""
    with open("want", "rb") as f:
        assert cairn("logs", "colours") == f.read()
    said, _ = on_terminal(["logs", "colours"])
    assert b"\x1b[1;31mred\x1b[0m\tplain" in said, said
    assert b"\\e]0;title\\x07" in said and b"\\r" in said and b"\x1b]" not in said, said


# --- documents --------------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    """The elements that the page has, and its text."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.tags, self.text, self.bad = set(), "", []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.bad += [a for a, _ in attrs if a.startswith("on") or a in ("src", "href")]

    def handle_comment(self, data):
        self.bad.append("comment " + data)

    def handle_data(self, data):
        self.text += data


def check_html(path, tags):
    page = Page()
    with open(path, encoding="utf-8") as f:
        page.feed(f.read())
    page.close()
    assert not page.bad and page.tags <= tags, (page.bad, page.tags - tags)
    return page.text


def medium_xml():
    svg = xml.fromstring(cairn("graph", "--tasks", "--format", "svg"))
    space = "{http://www.w3.org/2000/svg}"
    assert {e.tag for e in svg.iter()} <= {
        space + t for t in "svg title defs marker path style rect g text".split()
    }
    labels = [e.text for e in svg.iter(space + "text")]
    assert any("<!-- ]]> &amp; -->" in t for t in labels) and any(
        "a\"b'c`d\\" in t for t in labels
    ), labels


def medium_html():
    cairn("reproduce", "last", "--html", "page.html", "-q", code=11)
    text = check_html(
        "page.html",
        {
            "html",
            "meta",
            "title",
            "style",
            "main",
            "h1",
            "h2",
            "p",
            "br",
            "code",
            "div",
            "b",
            "span",
            "table",
            "tr",
            "th",
            "td",
        },
    )
    assert "alert(1)" in text and "\x1b" not in text


def dot_tokens(text):
    """The lexer of the DOT language: strings, names, punctuation."""
    token = re.compile(r'\s+|"((?:\\.|[^"\\])*)"|[A-Za-z_][A-Za-z_0-9]*|-?[0-9.]+|->|[{}\[\];=,]')
    at, out = 0, []
    while at < len(text):
        m = token.match(text, at)
        assert m, text[at : at + 80]
        at = m.end()
        if not m[0].isspace():
            out.append(m[0])
    return out


def medium_graph():
    dot = cairn("graph", "--tasks", "--format", "dot").decode()
    tokens = dot_tokens(dot)
    assert set(t for t in tokens if t[0] != '"') <= set(
        "digraph node shape box style rounded fontname label plaintext dashed dotted -> { } [ ]"
        " ; = ,".split()
    )
    assert len(dot.splitlines()) == 3 + len(facts("graph", "--tasks")["nodes"]) + len(
        facts("graph", "--tasks")["edges"]
    )
    mermaid = cairn("graph", "--tasks", "--format", "mermaid").decode().splitlines()
    assert mermaid[0] == "flowchart TD"
    for line in mermaid[1:]:
        assert re.fullmatch(
            r'  n\d+(\["[^"\\<>&`\x00-\x1f\x7f]*"\]|\(\["[^"]*"\]\)| (-->|-\.->) n\d+)', line
        ), line


def medium_json():
    """Each document of --json is JSON, and names and values are what was given."""
    graph = facts("graph", "--tasks")
    assert len(graph["nodes"]) >= len(VALUES) + 4, len(graph["nodes"])
    for args in (
        ["runs"],
        ["status"],
        ["metrics", "-a"],
        ["plan"],
        ["why", "params"],
        ["lineage", "last/params/o"],
        ["doctor"],
        ["store", "stat"],
        ["schedule", "list"],
    ):
        assert facts(*args) is not None
    assert METRIC in next(iter(facts("metrics", "-a")["runs"][0]["metrics"].values()))
    assert facts("status")["run"]["params"] == {k: v for k, v in VALUES.items() if k != "long"}
    cairn("get", "last/params/o", "-o", "got")
    with open("got", "rb") as f:
        values = f.read().split(b"\0")
    assert values[:-1] == [v.encode() for k, v in VALUES.items() if k != "long"], values


def medium_sql():
    for word in (VALUES["sql"], VALUES["quotes"], VALUES["none"]):
        for args in (
            ["runs", "--pipeline", word],
            ["metrics", "--step", word],
            ["metrics", "--filter", word + ">=1"],
            ["metrics", "--sort", word],
            ["lineage", word],
        ):
            p = subprocess.run(["cairn", *args], capture_output=True)
            assert (
                p.returncode in (0, 2, 4) and b"SQL" not in p.stderr and b"syntax" not in p.stderr
            ), (args, p)
        cairn("tag", "last", "x", "-m", word)
        assert facts("tag", "--history", "x")["tags"][0]["note"] == word.replace(
            "\\", "\\\\"
        )  # as names are: bytes that aren't UTF-8 are \\xNN
    db = sqlite3.connect("file:.cairn/cairn.db?mode=ro", uri=True)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert db.execute("SELECT count(*) FROM run").fetchone()[0] == len(facts("runs")["runs"]) == 1


# --- exports ----------------------------------------------------------------------------------


def medium_exports():
    events = [
        json.loads(line)
        for line in cairn("export", "last", "--format", "openlineage").decode().split("\n")[:-1]
    ]
    names = {e["job"]["name"] for e in events}
    assert any(VALUES["quotes"] in n for n in names) and any(
        VALUES["sql"] in n for n in names
    ), names
    statement = json.loads(cairn("export", "last", "--format", "slsa"))
    params = json.dumps(statement)
    for k in ("markup", "sql", "terminal", "bidi"):
        assert json.dumps(VALUES[k])[1:-1] in params, k
    cairn("export", "last", "--format", "ro-crate", "--to", "crate")
    with open("crate/ro-crate-metadata.json", encoding="utf-8") as f:
        crate = json.load(f)
    for e in crate["@graph"]:
        ref = e["@id"]
        assert re.fullmatch(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*", ref), ref
        if e["@type"] in ("File", "Dataset") and ref not in ("./",) and "://" not in ref:
            path = urllib.parse.unquote_to_bytes(ref)
            assert b".." not in path.split(b"/") and os.path.exists(
                os.path.join(b"crate", path)
            ), ref
    values = {
        e["name"]: e["value"]
        for e in crate["@graph"]
        if e["@type"] == "PropertyValue" and "value" in e
    }
    for k, v in VALUES.items():
        assert k == "long" or values.get(k) == v or k == "quotes", (k, values.get(k))


# --- schedulers -------------------------------------------------------------------------------

SCHEDULED = (
    "pipeline: h%d\nsteps: {a: {run: 'true'}}\nschedules:\n  s: {cron: '0 3 * * *', timezone:"
    " Europe/Berlin}\n"
)
PATHS = ["-x.yaml", "q \"$HOME\" 's' `id`\\.yaml", "%n %% %h {{x}}.yaml", "<b>&#;.yaml", "ü é.yaml"]
REFUSED = [
    b"\xff.yaml",
    "\x1b]0;t\x07.yaml".encode(),
    "\u202ex.yaml".encode(),
    b"a\nb.yaml",
    "\x9b.yaml".encode(),
    "\ufffe.yaml".encode(),
]


def crontab_commands(text):
    for line in text.splitlines():
        if line.startswith(("#", "CRON_TZ=")):
            continue
        command = line.split(" ", 5)[5]
        # crontab(5): the first % without a backslash ends the command; the backslash goes away
        assert not re.search(r"(?<!\\)%", command), command
        yield command.replace("\\%", "%")


def unit_words(text):
    """systemd.service(5): C escapes in quotes, %% and $$ are one."""
    out = []
    for m in re.finditer(r'"((?:\\.|[^"\\])*)"|(\S+)', text):
        word = (
            m[2] if m[1] is None else re.sub(r"\\(.)", lambda e: {"\\": "\\", '"': '"'}[e[1]], m[1])
        )
        assert not re.search(r"(?<!%)%(?:%%)*(?!%)", word), word
        out.append(word.replace("%%", "%").replace("$$", "$"))
    return out


def medium_schedules():
    import yaml

    root = "we\"ird '%n' $HOME {{x}} #<b>"
    os.makedirs(root)
    os.chdir(root)
    here = os.getcwd()
    open("cairn.yaml", "w").close()
    for i, path in enumerate(PATHS):
        with open(path, "w") as f:
            f.write(SCHEDULED % i)
    seen = []
    for command in crontab_commands(cairn("schedule", "write", "--to", "crontab").decode()):
        # what cron's shell makes of it
        said = subprocess.run(
            [
                "/bin/sh",
                "-c",
                'cairn() { printf \'%s\\0\' "$PWD" "$@"; }; '
                + re.sub(r"&& (\S+/cairn) ", "&& cairn ", command),
            ],
            capture_output=True,
        )
        words = said.stdout.decode().split("\0")
        assert (
            words[0] == here and words[1:3] == ["run", "-q"] and words[4:6] == ["--schedule", "s"]
        ), words
        seen.append(os.path.normpath(words[3]))
    assert sorted(seen) == sorted(PATHS), seen
    cairn("schedule", "write", "--to", "systemd", "-o", "../units")
    seen = []
    for i, _ in enumerate(PATHS):
        with open(f"../units/cairn-h{i}-s.service", encoding="utf-8") as f:
            lines = f.read().splitlines()
        assert [x.split("=")[0] for x in lines if x] == [
            "[Unit]",
            "Description",
            "[Service]",
            "Type",
            "WorkingDirectory",
            "ExecStart",
        ], lines
        assert "WorkingDirectory=" + here.replace("%", "%%") in lines
        words = unit_words(lines[-1].removeprefix("ExecStart="))
        assert words[1:3] == ["run", "-q"] and words[4:] == ["--schedule", "s"], words
        assert not re.search(r"(?<!%)%(%%)*(?!%)", lines[1]), lines[1]
        seen.append(os.path.normpath(words[3]))
    assert sorted(seen) == sorted(PATHS), seen
    jobs = list(
        yaml.safe_load_all(
            cairn("schedule", "write", "--to", "kubernetes", "--image", 'a"b: c').decode()
        )
    )
    containers = [
        j["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0] for j in jobs
    ]
    assert sorted(os.path.normpath(c["args"][2]) for c in containers) == sorted(PATHS)
    assert {c["image"] for c in containers} == {'a"b: c'}
    cairn("run", "-q", "./-x.yaml", "--schedule", "s@2026-01-01T02:00Z")
    for path in REFUSED:
        with open(path, "w") as f:
            f.write(SCHEDULED % 99)
        for to in ("crontab", "systemd", "kubernetes"):
            p = subprocess.run(["cairn", "schedule", "write", "--to", to], capture_output=True)
            assert (
                p.returncode == 3
                and not p.stdout
                and b"characters that another scheduler's files can't hold" in p.stderr
            ), (path, to, p)
        os.remove(path)
    with open("twin.yaml", "w") as f:
        f.write(SCHEDULED % 0)
    for to in ("systemd", "kubernetes"):
        p = subprocess.run(["cairn", "schedule", "write", "--to", to], capture_output=True)
        assert p.returncode == 3 and b"two schedules would both be called cairn-h0-s" in p.stderr, p


# --- a cluster's objects ----------------------------------------------------------------------

LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
OBJECT = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def check_object(o):
    if isinstance(o, list):
        for x in o:
            check_object(x)
    elif isinstance(o, dict):
        for key, value in (
            (o.get("labels") or {}).items() if isinstance(o.get("labels"), dict) else ()
        ):
            assert LABEL.fullmatch(value), (key, value)
        if isinstance(o.get("metadata"), dict) and "name" in o["metadata"]:
            assert OBJECT.fullmatch(o["metadata"]["name"]), o["metadata"]["name"]
        if isinstance(o.get("env"), list):
            assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", e["name"]) for e in o["env"])
        for x in o.values():
            check_object(x)


def medium_kubernetes():
    import yaml

    with open("kubeconfig", "w") as f:
        json.dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
                "users": [{"name": "u", "user": {"token": "x"}}],
            },
            f,
        )
    with open("cairn.yaml", "w") as f:
        json.dump(
            {
                "store": os.getcwd() + "/store",
                "kubernetes": {
                    "image": "registry.test/cairn@sha256:" + "1" * 64,
                    "store_claim": "shared",
                },
            },
            f,
        )
    env = {"KUBECONFIG": os.getcwd() + "/kubeconfig"}
    items = json.loads(
        cairn(
            "run", "--on", "kubernetes", "--dry-run=client", "-o", "json", "-p", "quotes=3", env=env
        )
    )["items"]
    again = list(
        yaml.safe_load_all(
            cairn(
                "run", "--on", "kubernetes", "--dry-run=client", "-p", "quotes=3", env=env
            ).decode()
        )
    )
    assert len(items) == len(again) >= 4
    for a, b in zip(items, again):
        for o in (a, b):
            o["metadata"].get("annotations", {}).pop("cairn.internal/owner", None)
            o["metadata"].get("labels", {}).pop("cairn.internal/owner", None)
        assert a == b, (a, b)
    check_object(items)
    # Values travel in the store; of names an annotation tells.
    assert any(
        o["metadata"]["annotations"]["cairn.internal/task"].startswith("many[v=a\"b'c`d\\]") for o in items
    )


if __name__ == "__main__":
    globals()[sys.argv[1] if sys.argv[1] == "project" else "medium_" + sys.argv[1]]()
