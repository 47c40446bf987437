"""dvc.yaml → a pipeline.

Stages become steps. What a stage reads is made by another stage, or lies in the project: data (of
a .dvc file, or by its looks) becomes an input, source files become code. A command finds its
inputs at the paths that it names; paths that it doesn't name are links, since its program may.

Params of params.yaml become the pipeline's; a step writes a params.yaml with those that its stage
lists, so that it runs again when one of them changes and its program reads what it always did.

Data that is only in DVC's cache gets hard links in the project (take_over), and its inputs say
`mode: link`: so the store takes it without a copy.
"""

from __future__ import annotations

import configparser
import json
import os
import re
from itertools import product
from pathlib import Path, PurePosixPath
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from .model import ImportFailed, Names, Pipeline, ident, in_heredoc, literal, place
from .yamlfile import Map, Seq, documents

# What source files end in. Anything else that no stage makes is data.
CODE = {
    ".py",
    ".sh",
    ".bash",
    ".r",
    ".R",
    ".jl",
    ".ipynb",
    ".pl",
    ".js",
    ".ts",
    ".lua",
    ".sql",
    ".toml",
    ".cfg",
    ".ini",
    ".yaml",
    ".yml",
    ".c",
    ".cpp",
    ".h",
    ".rs",
    ".go",
}
# Keys by which a mapping of `params` is a declaration.
DECLARES = {"type", "default", "enum", "min", "max", "help"}

Values = Dict[str, Any]


class Made(NamedTuple):
    """A path that a stage makes, for one combination of its matrix."""

    step: str
    output: str
    combination: Tuple[Tuple[str, Any], ...]
    is_dir: bool
    suffix: str


class Stage:
    def __init__(self, name: str, line: int, spec: Map) -> None:
        self.name, self.line, self.spec = name, line, spec
        self.step = ""
        self.axes: List[Dict[str, Any]] = [{}]  # a dict of axis → value for each task
        self.roots: Dict[str, str] = {}  # of a template: "item", "item.lr" → axis
        self.matrix: Optional[Dict[str, Any]] = None


def _norm(path: str, wdir: str = ".") -> str:
    return os.path.normpath(os.path.join(wdir, path))


def _leads_out(path: str) -> bool:
    return os.path.isabs(path) or os.path.normpath(path).split(os.sep)[0] == ".."


def _leaves(values: Values, prefix: str = "") -> Iterator[Tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _at(values: Any, path: str) -> Any:
    for part in re.findall(r"[^.\[\]]+", path):
        if isinstance(values, list) and part.isdigit() and int(part) < len(values):
            values = values[int(part)]
        elif isinstance(values, dict) and part in values:
            values = values[part]
        else:
            raise KeyError(path)
    return values


class Importer:
    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.root = self.path.parent
        found = documents(path)
        doc = found[0] if found else None
        if not isinstance(doc, Map) or not isinstance(doc.get("stages"), Map):
            raise ImportFailed(f"{path} has no `stages`: it is no pipeline of DVC")
        self.doc = doc
        self.p = Pipeline(self.path.resolve().parent.name, path)
        self.params = self._read_params("params.yaml")
        self.used: Set[str] = set()
        self.vars: Values = {}
        self.lock = self._read_lock()
        self.names = Names()
        self.made: Dict[str, Made] = {}
        self.data: Dict[str, str] = {}  # path → name of the pipeline's input
        self.tracked = self._tracked()
        self.stages: List[Stage] = []

    # files beside it

    def _read_params(self, name: str) -> Values:
        file = self.root / name
        if not file.exists():
            return {}
        found = documents(str(file))
        return found[0] if found and isinstance(found[0], dict) else {}

    def _read_lock(self) -> Dict[str, bool]:
        """Path → whether it is a directory, as the last run of DVC saw it."""
        file = self.root / "dvc.lock"
        out: Dict[str, bool] = {}
        if not file.exists():
            return out
        found = documents(str(file))
        for stage in (found[0].get("stages") or {}).values() if found else ():
            for entry in [*stage.get("outs", []), *stage.get("deps", [])]:
                kind = str(entry.get("md5", entry.get("hash", "")))
                out[_norm(entry["path"])] = kind.endswith(".dir") or "nfiles" in entry
        return out

    def _tracked(self) -> Dict[str, Dict[str, Any]]:
        """What .dvc files hold, by path: the entry of its content."""
        out: Dict[str, Dict[str, Any]] = {}
        for folder, folders, files in os.walk(self.root):
            folders[:] = sorted(f for f in folders if not f.startswith("."))
            for name in sorted(files):
                if not name.endswith(".dvc"):
                    continue
                file = Path(folder, name)
                found = documents(str(file))
                for entry in found[0].get("outs", []) if found and found[0] else ():
                    path = os.path.relpath(Path(folder, entry["path"]), self.root)
                    if _leads_out(path):
                        self.p.note(None, f"{path} is outside", "not imported", file=str(file))
                        continue
                    out[_norm(path)] = {**entry, "file": str(file)}
        return out

    # templates

    def _fill(self, text: str, stage: Stage, line: int, combination: Optional[Values]) -> str:
        """A text with `${…}` in it. With a combination, everything gets its value; without one,
        what a run can decide becomes an expression."""

        def value(m: re.Match[str]) -> str:
            name = m.group(1).strip()
            if name in stage.roots:
                axis = stage.roots[name]
                if combination is not None:
                    return str(combination[axis])
                return f"\0matrix.{axis}\1"
            try:
                found = _at(self.vars, name)
            except KeyError:
                try:
                    found = _at(self.params, name)
                except KeyError:
                    self.p.note(line, f"`${{{name}}}` has no value", "write it into params.yaml")
                    return ""
                if combination is None and not isinstance(found, (dict, list)):
                    self.used.add(name)
                    return f"\0params.{name}\1"
            if isinstance(found, dict):
                return " ".join(f"--{k} {v}" for k, v in _leaves(found))
            if isinstance(found, bool):
                return "true" if found else "false"
            return " ".join(map(str, found)) if isinstance(found, list) else str(found)

        return re.sub(r"(?<!\\)\$\{([^}]+)\}", value, text)

    def _read_vars(self) -> None:
        for item in self.doc.get("vars") or []:
            if isinstance(item, dict):
                self.vars.update(item)
                continue
            name, _, keys = str(item).partition(":")
            found = self._read_params(name)
            if not found:
                self.p.note(self.doc.at("vars"), f"vars of {name}", "that file has no values here")
            if keys:
                found = {k: found[k] for k in keys.split(",") if k in found}
            if name != "params.yaml":
                self.vars.update(found)

    def _items(self, stage: Stage, given: Any, line: int) -> Any:
        if isinstance(given, str):
            m = re.fullmatch(r"\$\{([^}]+)\}", given.strip())
            if not m:
                raise ImportFailed(f"{self.path}:{line}: `foreach` takes a list or ${{…}}")
            try:
                return _at({**self.params, **self.vars}, m.group(1).strip())
            except KeyError:
                raise ImportFailed(f"{self.path}:{line}: `{given}` has no value") from None
        return given

    def _fan_out(self, stage: Stage, spec: Map) -> None:
        rows: List[Dict[str, Any]] = []
        line = spec.line
        if "foreach" in spec:
            items = self._items(stage, spec["foreach"], spec.at("foreach"))
            keyed = isinstance(items, dict)
            for key, item in items.items() if keyed else enumerate(items):
                row = {"key": str(key)} if keyed else {}
                if isinstance(item, dict):
                    row.update((k.replace(".", "_"), v) for k, v in _leaves(item))
                    stage.roots.update((f"item.{k}", k.replace(".", "_")) for k, _ in _leaves(item))
                else:
                    row["item"] = item
                    stage.roots["item"] = "item"
                rows.append(row)
            if keyed:
                stage.roots["key"] = "key"
        else:
            axes: Dict[str, Any] = {
                k: self._items(stage, v, spec.at("matrix")) for k, v in spec["matrix"].items()
            }
            for chosen in product(*axes.values()):
                row = {}
                for axis, item in zip(axes, chosen):
                    if isinstance(item, dict):
                        for k, v in _leaves(item):
                            name = f"{axis}_{k}".replace(".", "_")
                            row[name] = v
                            stage.roots[f"item.{axis}.{k}"] = name
                    else:
                        row[axis] = item
                        stage.roots[f"item.{axis}"] = axis
                rows.append(row)
        odd = [
            k for row in rows for k, v in row.items() if isinstance(v, (list, dict)) or v is None
        ]
        for k in sorted(set(odd)):
            self.p.note(
                line,
                f"`{k}` of stage `{stage.name}` is no text or number",
                "it is left out of the matrix: put it into a file that the step reads",
            )
        if len({tuple(r) for r in rows}) > 1:
            self.p.note(
                line,
                f"items of stage `{stage.name}` have different keys",
                "each combination of a matrix names every axis: give them all",
            )
        rows = [{k: v for k, v in r.items() if k not in odd} for r in rows]
        stage.axes = rows
        names = list(rows[0]) if rows else []
        values = {n: list(dict.fromkeys(r[n] for r in rows if n in r)) for n in names}
        if len(rows) == len(list(product(*values.values()))):
            stage.matrix = values
        else:
            stage.matrix = {"include": rows}

    # stages

    def _read_stages(self) -> None:
        for name, spec in self.doc["stages"].items():
            line = self.doc["stages"].at(name)
            body = spec.get("do", spec) if isinstance(spec, Map) else None
            if not isinstance(body, Map) or "cmd" not in body:
                self.p.note(line, f"stage `{name}` has no `cmd`", "it isn't imported")
                continue
            stage = Stage(name, line, body)
            stage.step = self.names.of(name)
            if "foreach" in spec or "matrix" in spec:
                self._fan_out(stage, spec)
                if not stage.axes:
                    self.p.note(line, f"stage `{name}` has no items", "it isn't imported")
                    continue
            self.stages.append(stage)

    def _entries(self, stage: Stage, key: str) -> Iterator[Tuple[str, Dict[str, Any], int]]:
        given = stage.spec.get(key)
        if given is None:
            return
        if not isinstance(given, Seq):
            self.p.note(
                stage.spec.at(key), f"`{key}` of stage `{stage.name}` is no list", "ignored"
            )
            return
        for i, entry in enumerate(given):
            if isinstance(entry, dict):
                for path, options in entry.items():
                    yield str(path), dict(options or {}), given.lines[i]
            else:
                yield str(entry), {}, given.lines[i]

    def _wdir(self, stage: Stage) -> str:
        return self._fill(str(stage.spec.get("wdir", ".")), stage, stage.line, stage.axes[0])

    def _outputs(self, stage: Stage) -> Tuple[Dict[str, str], Dict[str, str]]:
        """Output → path, and path as written → output."""
        out: Dict[str, str] = {}
        written: Dict[str, str] = {}
        for key in ("outs", "metrics", "plots"):
            for template, options, line in self._entries(stage, key):
                fixed = re.sub(r"\$\{[^}]+\}", "item", template)
                path = _norm(fixed, self._wdir(stage))
                if path.startswith(".."):
                    self.p.note(
                        line,
                        f"output {path} lies outside of {self.root}",
                        "import the dvc.yaml from the directory above",
                    )
                    continue
                is_dir = self._is_dir(stage, template, path, line)
                name = ident(PurePosixPath(path).name.partition(".")[0] or path, out)
                out[name] = f"{path}/" if is_dir else path
                written[template] = name
                for c in stage.axes:
                    real = _norm(self._fill(template, stage, line, c), self._wdir(stage))
                    suffix = "" if is_dir else PurePosixPath(path).suffix
                    self.made[real] = Made(stage.step, name, tuple(c.items()), is_dir, suffix)
                if options.get("persist"):
                    self.p.note(
                        line,
                        f"{path} is `persist`",
                        "what a step continues is its "
                        f"`checkpoint: {path}/` here, instead of an output",
                    )
                if key == "metrics":
                    self._metrics(stage, path, line)
        return out, written

    def _is_dir(self, stage: Stage, template: str, path: str, line: int) -> bool:
        for c in stage.axes:
            real = _norm(self._fill(template, stage, line, c), self._wdir(stage))
            if real in self.lock:
                return self.lock[real]
            if (self.root / real).exists():
                return (self.root / real).is_dir()
        cmd = stage.spec["cmd"]
        text = " ".join(map(str, cmd)) if isinstance(cmd, list) else str(cmd)
        if re.search(rf">\s*['\"]?{re.escape(template)}(?![\w/])", text):
            return False
        if template.endswith("/") or not PurePosixPath(path).suffix:
            if not template.endswith("/"):
                self.p.note(
                    line,
                    f"{path} isn't in dvc.lock, so it is taken for a directory",
                    "without the / it is a file",
                )
            return True
        return False

    def _metrics(self, stage: Stage, path: str, line: int) -> None:
        step = self.p.steps.setdefault(stage.step, {})
        if not path.endswith(".json"):
            self.p.note(line, f"metrics in {path}", "Cairn reads metrics from JSON: write that")
        elif "metrics" in step:
            self.p.note(
                line,
                f"a second file of metrics, {path}",
                "a step has one: write all into one file. It is an output meanwhile",
            )
        else:
            step["metrics"] = path

    def _source(self, path: str) -> Optional[str]:
        """The input for a path that no stage makes, or None if it is code."""
        owner = next((t for t in self.tracked if path == t or path.startswith(t + "/")), None)
        here = self.root / path
        if owner is None:
            if here.is_dir():
                kinds = {f.suffix for f in here.rglob("*") if f.is_file()}
                if kinds and len(kinds & CODE) * 2 >= len(kinds - {""}):
                    return None
            elif here.suffix in CODE:
                return None
        name = self.data.get(path)
        if name is None:
            name = self.data[path] = ident(path, self.p.inputs)
            is_dir = here.is_dir() or self.lock.get(path, False)
            if owner == path:
                is_dir = is_dir or str(self.tracked[path].get("md5", "")).endswith(".dir")
            uri = f"{path}/" if is_dir else path
            self.p.inputs[name] = {"uri": uri, "mode": "link"} if owner else uri
        return name

    def _step(self, stage: Stage) -> None:
        spec, wdir = stage.spec, self._wdir(stage)
        step = self.p.steps.setdefault(stage.step, {})
        outputs, written = self._outputs_of[stage.name]
        inputs: Dict[str, str] = {}
        words: Dict[str, str] = {}  # path as written → expression
        placed: List[Tuple[str, str]] = []
        code: List[str] = []
        for template, _, line in self._entries(stage, "deps"):
            if "://" in template:
                self.p.note(
                    line, f"dependency on {template}", "name it in `inputs` of the pipeline"
                )
                continue
            template = re.sub(r"#.*", "", template)
            paths = [_norm(self._fill(template, stage, line, c), wdir) for c in stage.axes]
            found = self._made_input(stage, paths, inputs)
            if found is not None:
                for of, path in found:
                    if len(found) == 1 and wdir == ".":
                        words[template] = of
                    placed.append((of, path))
                continue
            for path in dict.fromkeys(paths):
                source = self._source(path)
                if source is None:
                    code.append(path)
                    continue
                name = ident(source, inputs)
                inputs[name] = f"${{{{ inputs.{source} }}}}"
                of = f"${{{{ inputs.{name} }}}}"
                if len(set(paths)) == 1 and wdir == ".":
                    words[template] = of
                placed.append((of, path))
        if wdir == ".":
            words.update((t, f"${{{{ outputs.{o} }}}}") for t, o in written.items())
        command, named = self._command(stage, words)
        self._undeclared(stage, command, code)
        lines = self._params_of(stage, code)
        for of, path in placed:
            if of not in named:
                lines.append(place(of, path))
        if wdir != ".":
            lines.append(f'mkdir -p "$PWD/{wdir}" && cd "$PWD/{wdir}"')
        lines.append(command)
        said = [w for w in re.split(r"[\s'\"]+", command)]
        step.update(
            description=spec.get("desc"),
            run="\n".join(lines),
            code=[c for c in dict.fromkeys(code) if c not in said or (self.root / c).is_dir()]
            or None,
            matrix=stage.matrix,
            inputs=inputs or None,
            outputs=outputs or None,
            cache=False if spec.get("always_changed") else None,
        )
        ordered = ("description", "matrix", "run", "code", "inputs", "outputs", "metrics", "cache")
        self.p.steps[stage.step] = {k: step[k] for k in ordered if step.get(k) is not None}
        self._rest_of(stage, code)

    def _made_input(
        self, stage: Stage, paths: List[str], inputs: Dict[str, str]
    ) -> Optional[List[Tuple[str, str]]]:
        """(expression, path) of what another stage makes; None when none does."""
        out: List[Tuple[str, str]] = []
        first = paths[0]
        made = self.made.get(first)
        if made is None:
            # A file inside of an output, or a directory with outputs in it.
            inner = [
                (p, m)
                for p, m in self.made.items()
                if first.startswith(p + "/") or p.startswith(first + "/")
            ]
            if not inner or (len(inner) == 1 and inner[0][1].step == stage.step):
                return None
            for path, m in inner:
                out.append((self._reference(m, inputs), path))
            return out
        each = [self.made.get(p) for p in paths]
        same = all(
            m is not None
            and dict(m.combination) == {k: v for k, v in c.items() if k in dict(m.combination)}
            for m, c in zip(each, stage.axes)
        )
        if made.combination and not same:  # one task of it, in a stage that isn't fanned out alike
            return [(self._reference(m, inputs), p) for p, m in zip(paths[:1], each[:1]) if m]
        name = ident(made.output, inputs)
        inputs[name] = f"${{{{ steps.{made.step}.outputs.{made.output} }}}}"
        return (
            [(f"${{{{ inputs.{name} }}}}", first)]
            if len(set(paths)) == 1
            else [(f"${{{{ inputs.{name} }}}}", re.sub(r"\$\{[^}]+\}", "item", first))]
        )

    def _reference(self, made: Made, inputs: Dict[str, str]) -> str:
        """An input with this content; of a matrix all tasks', and the entry of this one."""
        whole = f"${{{{ steps.{made.step}.outputs.{made.output} }}}}"
        name = next((n for n, v in inputs.items() if v == whole), None) or ident(
            made.output, inputs
        )
        inputs[name] = whole
        if not made.combination:
            return f"${{{{ inputs.{name} }}}}"
        entry = ",".join(f"{k}={v}" for k, v in made.combination)
        return f"${{{{ inputs.{name} }}}}/{entry}{made.suffix}"

    def _command(self, stage: Stage, words: Dict[str, str]) -> Tuple[str, Set[str]]:
        """The command with our expressions in it, and which of them it names."""
        cmd = stage.spec["cmd"]
        text = "\n".join(map(str, cmd)) if isinstance(cmd, list) else str(cmd)
        named: Dict[str, None] = {}
        moves = re.search(r"(?:^|[\s;&|(])cd\s", text)
        for path, of in sorted(words.items(), key=lambda x: -len(x[0])):
            if moves and of.startswith("${{ inputs."):
                continue  # behind a `cd` our path would be another one
            pattern = rf"(?<![\w./-]){re.escape(path.rstrip('/'))}(?=/?(?:[\s'\"/);&|]|$))"
            if re.search(pattern, text):
                named[of] = None
                token = f"\2{list(named).index(of)}\3"
                text = re.sub(pattern, token, text)
        text = self._fill(text, stage, stage.spec.at("cmd"), None).replace("\\${", "${")
        text = literal(text).replace("\0", "${{ ").replace("\1", " }}")
        for i, of in enumerate(named):
            text = text.replace(f"\2{i}\3", of)
        return text.strip(), set(named)

    def _undeclared(self, stage: Stage, command: str, code: List[str]) -> None:
        """Directories that the command names and the stage doesn't: there they are in the way of no
        one, and a step has only what it declares."""
        for word in dict.fromkeys(re.split(r"[\s'\"();&|]+", command)):
            path = _norm(word) if word and not word.startswith(("/", "-", "$")) else "."
            known = [*self.made, *self.data, *code]
            near = any(
                k == path or k.startswith(path + "/") or path.startswith(k + "/") for k in known
            )
            if path != "." and ".." not in path and not near and (self.root / path).is_dir():
                self.p.note(
                    stage.spec.at("cmd"),
                    f"the command names {path}/, and `deps` doesn't",
                    "it is added to the step's `code`",
                )
                code.append(path)

    # params

    def _params_of(self, stage: Stage, code: List[str]) -> List[str]:
        names: List[str] = []
        for entry in stage.spec.get("params") or []:
            if isinstance(entry, dict):
                for file, keys in entry.items():
                    file = self._fill(str(file), stage, stage.spec.at("params"), stage.axes[0])
                    if file == "params.yaml":
                        names += map(str, keys or self.params)
                    else:
                        self.p.note(
                            stage.spec.at("params"),
                            f"params of {file}",
                            "the whole file "
                            "is code of the step, which runs again when anything in it "
                            "changes: move params that change alone into params.yaml",
                        )
                        code.append(_norm(file))
            else:
                names.append(self._fill(str(entry), stage, stage.spec.at("params"), stage.axes[0]))
        if not names:
            return []
        tree: Values = {}
        for name in names:
            try:
                found = _at(self.params, name)
            except KeyError:
                self.p.note(
                    stage.spec.at("params"),
                    f"params.yaml has no `{name}`",
                    "the step doesn't get it",
                )
                continue
            group = tree
            *path, last = name.split(".")
            for part in path:
                group = group.setdefault(part, {})
            group[last] = found
        body = self._params_text(tree, "", stage.spec.at("params"))
        return [f'cat >"$PWD/params.yaml" <<PARAMS\n{body}\nPARAMS']

    def _params_text(self, values: Any, path: str, line: int, depth: int = 0) -> str:
        if isinstance(values, dict) and values:
            inner = ",\n".join(
                "  " * (depth + 1)
                + in_heredoc(json.dumps(str(k)))
                + ": "
                + self._params_text(v, f"{path}.{k}" if path else str(k), line, depth + 1)
                for k, v in values.items()
            )
            return "{\n" + inner + "\n" + "  " * depth + "}"
        parts = path.split(".")
        good = all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", p) for p in parts)
        flat = isinstance(values, (str, int, float, bool)) or (
            isinstance(values, list) and all(isinstance(v, (str, int, float, bool)) for v in values)
        )
        if good and flat:
            self.used.add(path)
            return f"${{{{ json(params.{path}) }}}}"
        self.p.note(
            line,
            f"param `{path}` is {json.dumps(values)[:40]}",
            "it stands in the step as it is: params are texts, numbers or lists of them",
        )
        return in_heredoc(json.dumps(values))

    def _declare_params(self) -> None:
        for path in sorted(self.used):
            *groups, last = path.split(".")
            at: Values = self.p.params
            for part in groups:
                at = at.setdefault(part, {})
            value = _at(self.params, path)
            at[last] = {"default": value} if last in DECLARES or path in DECLARES else value
            if value == "":
                at[last] = {"type": "string", "default": ""}
            if value == []:
                at[last] = {"type": "list", "default": []}

    # the rest

    def _rest_of(self, stage: Stage, code: List[str]) -> None:
        spec = stage.spec
        if spec.get("frozen"):
            self.p.note(
                spec.at("frozen"),
                f"stage `{stage.name}` is frozen",
                "`cairn run --from` a later step leaves it alone",
            )
        for key in spec:
            known = {
                "cmd",
                "deps",
                "outs",
                "params",
                "metrics",
                "plots",
                "wdir",
                "desc",
                "always_changed",
                "frozen",
                "meta",
                "foreach",
                "do",
                "matrix",
            }
            if key not in known:
                self.p.note(spec.at(key), f"`{key}` of stage `{stage.name}`", "not imported")
        for name in code:
            file = self.root / name
            if file.suffix != ".py" or not file.is_file():
                continue
            text = file.read_text(encoding="utf-8", errors="replace")
            for n, line in enumerate(text.splitlines(), 1):
                m = re.match(r"\s*(?:import|from)\s+(dvclive|dvc\.api|dvc)\b", line)
                if m:
                    self.p.note(
                        n,
                        f"it uses {m.group(1)}",
                        "a step has no repository of DVC "
                        "around it; cairn.log_metrics() and cairn.params() do this here",
                        file=str(file),
                    )

    def _top(self) -> None:
        for entry in self.doc.get("metrics") or []:
            path = _norm(str(entry))
            owner = next(
                (m for p, m in self.made.items() if path == p or path.startswith(p + "/")), None
            )
            line = self.doc.at("metrics")
            if owner is None:
                self.p.note(line, f"metrics of {path}, which no stage makes", "not imported")
                continue
            stage = next(s for s in self.stages if s.step == owner.step)
            self._metrics(stage, path, line)
        if "plots" in self.doc:
            self.p.note(
                self.doc.at("plots"),
                "plots",
                "`series: FILE` on a step names metrics over "
                "time, which `cairn metrics --plot` draws; files of other plots are in the "
                "outputs",
            )
        if "artifacts" in self.doc:
            self.p.note(
                self.doc.at("artifacts"),
                "artifacts",
                "`cairn tag` names runs, and `export` copies an output to where others find it",
            )
        if "params" in self.doc:
            self.p.note(
                self.doc.at("params"),
                "params for DVC's plots and tables",
                "params of the pipeline are in every table here",
            )
        for key in self.doc:
            if key not in ("stages", "vars", "metrics", "plots", "artifacts", "params", "schema"):
                self.p.note(self.doc.at(key), f"`{key}`", "not imported")

    def convert(self) -> Pipeline:
        self._read_vars()
        self._read_stages()
        self._outputs_of = {s.name: self._outputs(s) for s in self.stages}
        self._top()
        for stage in self.stages:
            self._step(stage)
        self._declare_params()
        # In the order of the file, whatever made entries first.
        self.p.steps = {s.step: self.p.steps[s.step] for s in self.stages}
        return self.p

    # data

    def _cache(self) -> List[Path]:
        config = configparser.ConfigParser(interpolation=None)
        for name in ("config", "config.local"):
            config.read(self.root / ".dvc" / name)
        folder = config.get("cache", "dir", fallback="cache")
        base = Path(os.path.join(self.root / ".dvc", folder))
        return [base / "files" / "md5", base]

    def _cached(self, md5: str) -> Optional[Path]:
        for base in self._cache():
            path = base / md5[:2] / md5[2:]
            if path.exists():
                return path
        return None

    def _link(self, md5: str, to: Path) -> bool:
        cached = self._cached(md5)
        if cached is None:
            return False
        to.parent.mkdir(parents=True, exist_ok=True)
        os.link(cached, to)
        return True

    def take_over(self) -> int:
        """Links what is in DVC's cache, and not in the project, to its place. How many files."""
        linked = 0
        for path, entry in self.tracked.items():
            used = any(p == path or p.startswith(path + "/") for p in self.data)
            here = self.root / path
            if not used or here.exists():
                continue
            md5 = str(entry.get("md5", ""))
            try:
                if md5.endswith(".dir"):
                    listing = self._cached(md5)
                    members = json.loads(listing.read_text()) if listing else []
                    if members and all(self._cached(m["md5"]) for m in members):
                        for m in members:
                            if _leads_out(m["relpath"]):
                                raise ImportFailed(
                                    f"{listing} names a file outside: {m['relpath']}"
                                )
                            linked += self._link(m["md5"], here / m["relpath"])
                        continue
                elif self._link(md5, here):
                    linked += 1
                    continue
            except OSError as e:
                self.p.note(
                    None,
                    f"{path}: {e.strerror}",
                    "`dvc checkout` puts it there",
                    file=entry["file"],
                )
                continue
            self.p.note(
                None,
                f"the content of {path} isn't in DVC's cache",
                "`dvc pull` fetches it",
                file=entry["file"],
            )
        return linked


def convert(path: str, data: bool = True) -> Tuple[Pipeline, int]:
    importer = Importer(path)
    pipeline = importer.convert()
    return pipeline, importer.take_over() if data else 0
